"""Spans as the Datadog agent takes them: MessagePack for `PUT /v0.4/traces`, a list of traces, each a list of its spans."""

from collections.abc import Sequence
from typing import Any

import msgpack
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from foundation.telemetry.tracing.trace_context import context_of

_LOW = (1 << 64) - 1  # ids have 64 bits there; the upper half of a trace's travels in a tag
_KINDS = {SpanKind.SERVER: "server", SpanKind.CLIENT: "client", SpanKind.INTERNAL: "internal"}
_TYPES = {SpanKind.SERVER: "web", SpanKind.CLIENT: "http"}
KEEP = 1  # the sampling priority of what was chosen by chance


def headers(spans: Sequence[ReadableSpan]) -> dict[str, str]:
    traces = len({context_of(span).trace_id for span in spans})
    return {"Content-Type": "application/msgpack", "X-Datadog-Trace-Count": str(traces), "Datadog-Meta-Lang": "python"}


def encoded(spans: Sequence[ReadableSpan], service: str) -> bytes:
    traces: dict[int, list[dict[str, Any]]] = {}
    for span in spans:
        traces.setdefault(context_of(span).trace_id, []).append(_span(span, service))
    packed: bytes = msgpack.packb(list(traces.values()))
    return packed


def _span(span: ReadableSpan, service: str) -> dict[str, Any]:
    own, start, end = context_of(span), span.start_time or 0, span.end_time or 0
    meta: dict[str, str] = {"span.kind": _KINDS.get(span.kind, "internal"), "_dd.p.tid": f"{own.trace_id >> 64:016x}"}
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
        "trace_id": own.trace_id & _LOW,
        "span_id": own.span_id,
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
