"""Trace context: W3C `traceparent`, and B3 where the back-end's world speaks it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from foundation.web.asgi_types import Header

TRACEPARENT = "traceparent"  # also the key of gRPC metadata

# https://www.w3.org/TR/trace-context/ 3.2: a later version may go on after the flags, version ff is none.
_TRACEPARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_B3_SINGLE = re.compile(rb"([0-9a-f]{16}|[0-9a-f]{32})-([0-9a-f]{16})(?:-([01d]))?(?:-[0-9a-f]{16})?", re.IGNORECASE)
_B3_TRACE = re.compile(rb"[0-9a-f]{16}|[0-9a-f]{32}", re.IGNORECASE)
_B3_SPAN = re.compile(rb"[0-9a-f]{16}", re.IGNORECASE)
_KEPT = frozenset((b"1", b"d", b"true"))
_LONGEST_STATE = 512  # characters, which 3.3.1.1 asks to carry at least

# Every name under which a trace may be named: of a request whose trace is ours, an upstream hears of no other.
NAMES = frozenset(
    (
        *(b"traceparent", b"tracestate", b"b3", b"grpc-trace-bin", b"uber-trace-id", b"x-cloud-trace-context"),
        *(b"x-b3-traceid", b"x-b3-spanid", b"x-b3-parentspanid", b"x-b3-sampled", b"x-b3-flags"),
        *(b"x-datadog-trace-id", b"x-datadog-parent-id", b"x-datadog-sampling-priority", b"x-datadog-origin", b"x-datadog-tags"),
    )
)


@dataclass(frozen=True, slots=True)
class ParentSpan:
    """The span of somebody else that ours goes below; `is_sampled` is None where they leave that to us."""

    trace_id: int
    span_id: int
    is_sampled: bool | None
    state: str = ""


def parent_of(headers: Iterable[Header], *, reads_b3: bool = False) -> ParentSpan | None:
    """The parent in `headers`, with lower-case names.  What is there twice, or is not as it must be, names nothing."""
    given: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in NAMES:
            given.setdefault(name, []).append(value)
    if not given:
        return None
    one = {name: values[0].strip(b" \t") for name, values in given.items() if len(values) == 1}
    if (parent := _of_traceparent(one.get(b"traceparent", b""))) is not None:
        state = b",".join(given.get(b"tracestate", ())).decode("latin-1")
        return ParentSpan(parent.trace_id, parent.span_id, parent.is_sampled, state if len(state) <= _LONGEST_STATE else "")
    return _of_b3(one) if reads_b3 else None


def _of_traceparent(value: bytes) -> ParentSpan | None:
    match = _TRACEPARENT.fullmatch(value)
    if match is None or (match[1] == b"00" and match[5]):
        return None
    return ParentSpan(int(match[2], 16), int(match[3], 16), bool(int(match[4], 16) & 1))


def _of_b3(headers: dict[bytes, bytes]) -> ParentSpan | None:
    """The parent by B3 (https://github.com/openzipkin/b3-propagation): the single header goes before the others."""
    if match := _B3_SINGLE.fullmatch(headers.get(b"b3", b"")):
        return _made(match[1], match[2], None if match[3] is None else match[3].lower() in _KEPT)
    trace, span = headers.get(b"x-b3-traceid", b""), headers.get(b"x-b3-spanid", b"")
    if not _B3_TRACE.fullmatch(trace) or not _B3_SPAN.fullmatch(span):
        return None
    sampled = headers.get(b"x-b3-sampled")
    if headers.get(b"x-b3-flags") == b"1":
        sampled = b"1"
    return _made(trace, span, None if sampled is None else sampled.lower() in _KEPT)


def _made(trace: bytes, span: bytes, is_sampled: bool | None) -> ParentSpan | None:
    trace_id, span_id = int(trace, 16), int(span, 16)
    return ParentSpan(trace_id, span_id, is_sampled) if trace_id and span_id else None


def context_of(span: Any) -> Any:
    """The OpenTelemetry SpanContext of a span that has ended; ValueError where it has none, then it can't be sent."""
    if (found := span.get_span_context()) is None:
        raise ValueError("a span without a context can't be exported")
    return found


def traceparent(trace_id: int, span_id: int) -> str:
    """The header's value for a span that is kept."""
    return f"00-{trace_id:032x}-{span_id:016x}-01"


def headers_of(trace_id: int, span_id: int, state: str, *, writes_b3: bool) -> list[Header]:
    """Headers that tell an upstream which span its own go below."""
    headers = [(b"traceparent", traceparent(trace_id, span_id).encode())]
    if state:
        headers.append((b"tracestate", state.encode("latin-1")))
    if writes_b3:
        headers += [(b"x-b3-traceid", b"%032x" % trace_id), (b"x-b3-spanid", b"%016x" % span_id), (b"x-b3-sampled", b"1")]
    return headers
