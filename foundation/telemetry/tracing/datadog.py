"""Encoding of spans for the Datadog agent: MessagePack for `PUT /v0.4/traces`, a list of traces, each a list of spans."""

from collections.abc import Sequence
from typing import Any

import msgpack
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from foundation.telemetry.tracing.trace_context import span_context

_LOW = (1 << 64) - 1  # Datadog ids have 64 bits; the upper half of a trace id is sent in a tag
_KINDS = {SpanKind.SERVER: "server", SpanKind.CLIENT: "client", SpanKind.INTERNAL: "internal"}
_TYPES = {SpanKind.SERVER: "web", SpanKind.CLIENT: "http"}
KEEP = 1  # AUTO_KEEP, the sampling priority of randomly sampled traces


def request_headers(spans: Sequence[ReadableSpan]) -> dict[str, str]:
    traces = len({span_context(span).trace_id for span in spans})
    return {"Content-Type": "application/msgpack", "X-Datadog-Trace-Count": str(traces), "Datadog-Meta-Lang": "python"}


def encode(spans: Sequence[ReadableSpan], service: str) -> bytes:
    traces: dict[int, list[dict[str, Any]]] = {}
    for span in spans:
        traces.setdefault(span_context(span).trace_id, []).append(_span(span, service))
    packed: bytes = msgpack.packb(list(traces.values()))
    return packed


def _span(span: ReadableSpan, service: str) -> dict[str, Any]:
    ids, start, end = span_context(span), span.start_time or 0, span.end_time or 0
    meta: dict[str, str] = {"span.kind": _KINDS.get(span.kind, "internal"), "_dd.p.tid": f"{ids.trace_id >> 64:016x}"}
    metrics: dict[str, float] = {}
    for name, value in (span.attributes or {}).items():
        if isinstance(value, bool | str):
            meta[name] = value if isinstance(value, str) else str(value).lower()
        elif isinstance(value, int | float):
            metrics[name] = float(value)
    if (status := metrics.pop("http.response.status_code", None)) is not None:
        meta["http.status_code"] = str(int(status))
    if span.parent is None or span.parent.is_remote:  # the first of its trace in this process
        metrics["_sampling_priority_v1"] = KEEP
        metrics["_top_level"] = 1
    return {
        "trace_id": ids.trace_id & _LOW,
        "span_id": ids.span_id,
        "parent_id": 0 if span.parent is None else span.parent.span_id,
        "service": service,
        "name": "gate.request" if span.kind is SpanKind.SERVER else f"gate.{span.name.split(' ')[0].lower()}",
        "resource": span.name,
        "type": _TYPES.get(span.kind, "custom"),
        "start": start,  # nanoseconds, as is the duration
        "duration": end - start,
        "error": int(span.status.status_code is StatusCode.ERROR),
        "meta": meta,
        "metrics": metrics,
    }
