"""Encoding of spans for Zipkin: a JSON list for `POST /api/v2/spans` (https://zipkin.io/zipkin-api/)."""

import json
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from foundation.telemetry.tracing.trace_context import span_context

_KINDS = {SpanKind.SERVER: "SERVER", SpanKind.CLIENT: "CLIENT"}


def encode(spans: Sequence[ReadableSpan], service: str) -> bytes:
    return json.dumps([_span(span, service) for span in spans], separators=(",", ":")).encode()


def _span(span: ReadableSpan, service: str) -> dict[str, Any]:
    start, end = span.start_time or 0, span.end_time or 0
    tags = {name: _text(value) for name, value in (span.attributes or {}).items()}
    if span.status.status_code is StatusCode.ERROR:
        tags["error"] = tags.get("error.type", "true")
    ids = span_context(span)
    fields: dict[str, Any] = {
        "traceId": f"{ids.trace_id:032x}",
        "id": f"{ids.span_id:016x}",
        "name": span.name,
        "timestamp": start // 1000,  # microseconds
        "duration": max((end - start) // 1000, 1),  # 0 means unknown
        "localEndpoint": {"serviceName": service},
        "tags": tags,
    }
    if span.parent is not None:
        fields["parentId"] = f"{span.parent.span_id:016x}"
    if span.kind in _KINDS:
        fields["kind"] = _KINDS[span.kind]
    if span.kind is SpanKind.CLIENT and "server.address" in tags:
        fields["remoteEndpoint"] = {"serviceName": tags["server.address"]}
    return fields


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
