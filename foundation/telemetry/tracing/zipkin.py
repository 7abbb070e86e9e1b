"""Spans as Zipkin takes them: a JSON list for `POST /api/v2/spans` (https://zipkin.io/zipkin-api/)."""

import json
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from foundation.telemetry.tracing.trace_context import context_of

_KINDS = {SpanKind.SERVER: "SERVER", SpanKind.CLIENT: "CLIENT"}


def encoded(spans: Sequence[ReadableSpan], service: str) -> bytes:
    return json.dumps([_span(span, service) for span in spans], separators=(",", ":")).encode()


def _span(span: ReadableSpan, service: str) -> dict[str, Any]:
    start, end = span.start_time or 0, span.end_time or 0
    tags = {name: _text(value) for name, value in (span.attributes or {}).items()}
    if span.status.status_code is StatusCode.ERROR:
        tags["error"] = tags.get("error.type", "true")
    own = context_of(span)
    made: dict[str, Any] = {
        "traceId": f"{own.trace_id:032x}",
        "id": f"{own.span_id:016x}",
        "name": span.name,
        "timestamp": start // 1000,  # microseconds
        "duration": max((end - start) // 1000, 1),  # 0 would mean unknown
        "localEndpoint": {"serviceName": service},
        "tags": tags,
    }
    if span.parent is not None:
        made["parentId"] = f"{span.parent.span_id:016x}"
    if span.kind in _KINDS:
        made["kind"] = _KINDS[span.kind]
    if span.kind is SpanKind.CLIENT and "server.address" in tags:
        made["remoteEndpoint"] = {"serviceName": tags["server.address"]}
    return made


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
