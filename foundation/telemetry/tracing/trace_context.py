"""Trace context propagation: W3C `traceparent`, and B3 for Zipkin."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from foundation.web.asgi_types import Header

TRACEPARENT = "traceparent"  # also the key of gRPC metadata

# https://www.w3.org/TR/trace-context/ 3.2: later versions may add fields after the flags; version ff is invalid.
_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_B3_SINGLE = re.compile(rb"([0-9a-f]{16}|[0-9a-f]{32})-([0-9a-f]{16})(?:-([01d]))?(?:-[0-9a-f]{16})?", re.IGNORECASE)
_B3_TRACE = re.compile(rb"[0-9a-f]{16}|[0-9a-f]{32}", re.IGNORECASE)
_B3_SPAN = re.compile(rb"[0-9a-f]{16}", re.IGNORECASE)
_SAMPLED = frozenset((b"1", b"d", b"true"))
_MAX_STATE_LENGTH = 512  # characters; 3.3.1.1 requires to propagate at least these

# All trace headers. They are removed from a traced request, so that the upstream receives gate's trace only.
TRACE_HEADERS = frozenset(
    (
        *(b"traceparent", b"tracestate", b"b3", b"grpc-trace-bin", b"uber-trace-id", b"x-cloud-trace-context"),
        *(b"x-b3-traceid", b"x-b3-spanid", b"x-b3-parentspanid", b"x-b3-sampled", b"x-b3-flags"),
        *(b"x-datadog-trace-id", b"x-datadog-parent-id", b"x-datadog-sampling-priority", b"x-datadog-origin", b"x-datadog-tags"),
    )
)


@dataclass(frozen=True, slots=True)
class ParentSpan:
    """Remote parent of gate's span; `is_sampled` is None if the sampling decision is deferred to gate."""

    trace_id: int
    span_id: int
    is_sampled: bool | None
    state: str = ""


def extract_parent(headers: Iterable[Header], *, b3_enabled: bool = False) -> ParentSpan | None:
    """Return the parent in `headers` (lower-case names). Duplicate and malformed headers are ignored."""
    values_by_name: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in TRACE_HEADERS:
            values_by_name.setdefault(name, []).append(value)
    if not values_by_name:
        return None
    unique = {name: values[0].strip(b" \t") for name, values in values_by_name.items() if len(values) == 1}
    if (parent := _parse_traceparent(unique.get(b"traceparent", b""))) is not None:
        state = b",".join(values_by_name.get(b"tracestate", ())).decode("latin-1")
        return ParentSpan(parent.trace_id, parent.span_id, parent.is_sampled, state if len(state) <= _MAX_STATE_LENGTH else "")
    return _parse_b3(unique) if b3_enabled else None


def _parse_traceparent(value: bytes) -> ParentSpan | None:
    match = _TRACEPARENT.fullmatch(value)
    if match is None or (match[1] == b"00" and match[5]):
        return None
    return ParentSpan(int(match[2], 16), int(match[3], 16), bool(int(match[4], 16) & 1))


def _parse_b3(headers: dict[bytes, bytes]) -> ParentSpan | None:
    """Parse B3 (https://github.com/openzipkin/b3-propagation); the single header takes precedence."""
    if match := _B3_SINGLE.fullmatch(headers.get(b"b3", b"")):
        return _build_parent(match[1], match[2], None if match[3] is None else match[3].lower() in _SAMPLED)
    trace, span = headers.get(b"x-b3-traceid", b""), headers.get(b"x-b3-spanid", b"")
    if not _B3_TRACE.fullmatch(trace) or not _B3_SPAN.fullmatch(span):
        return None
    sampled = headers.get(b"x-b3-sampled")
    if headers.get(b"x-b3-flags") == b"1":
        sampled = b"1"
    return _build_parent(trace, span, None if sampled is None else sampled.lower() in _SAMPLED)


def _build_parent(trace: bytes, span: bytes, is_sampled: bool | None) -> ParentSpan | None:
    trace_id, span_id = int(trace, 16), int(span, 16)
    return ParentSpan(trace_id, span_id, is_sampled) if trace_id and span_id else None


def span_context(span: Any) -> Any:
    """Return the OpenTelemetry SpanContext of an ended span. Raise ValueError if it has none and cannot be exported."""
    if (context := span.get_span_context()) is None:
        raise ValueError("a span without a context can't be exported")
    return context


def traceparent(trace_id: int, span_id: int) -> str:
    """Return the header value of a sampled span."""
    return f"00-{trace_id:032x}-{span_id:016x}-01"


def inject_headers(trace_id: int, span_id: int, state: str, *, b3_enabled: bool) -> list[Header]:
    """Return the headers that make gate's span the parent of the upstream's."""
    headers = [(b"traceparent", traceparent(trace_id, span_id).encode())]
    if state:
        headers.append((b"tracestate", state.encode("latin-1")))
    if b3_enabled:
        headers += [(b"x-b3-traceid", b"%032x" % trace_id), (b"x-b3-spanid", b"%016x" % span_id), (b"x-b3-sampled", b"1")]
    return headers
