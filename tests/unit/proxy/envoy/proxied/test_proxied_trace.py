"""Requests that Envoy forwards have the same spans as those that gate forwards, with Envoy's durations."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from tests.support.span_recorder import SpanRecorder
from tests.unit.proxy.envoy.conftest import MakeRequest
from tests.unit.proxy.envoy.stage import Stage

OPEN = "open.example.com"


@pytest.fixture
def spans(tmp_path: Path) -> Iterator[SpanRecorder]:
    stored = SpanRecorder(tmp_path)
    with stored.installed():
        yield stored


def ended(spans: SpanRecorder) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.ended()}


async def test_spans_end_with_request_and_are_propagated(spans: SpanRecorder, stage: Stage, send_request: MakeRequest) -> None:
    question = send_request("/in/x?secret=1", ("traceparent", f"00-{'a' * 32}-{'b' * 16}-01"), host=OPEN)
    reported = await stage.send_request(question)
    assert ended(spans).keys() == {"authorize"}
    stage.forwarded.on_access_log_line(f"{reported['x-gate-edge-number'].decode()} - 200 1500 20 30 - via_upstream")  # type: ignore[union-attr]
    found = ended(spans)
    root, upstream = found[f"GET {OPEN}/in"], found["upstream"]
    assert {found["authorize"].parent.span_id, upstream.parent.span_id} == {root.context.span_id}  # type: ignore[union-attr]
    assert reported["traceparent"] == f"00-{root.context.trace_id:032x}-{upstream.context.span_id:016x}-01".encode()
    assert (root.attributes["url.path"], root.attributes["http.response.status_code"]) == ("/in/x", 200)  # type: ignore[index]
    assert dict(upstream.attributes).items() >= {"gate.ending": "complete", "gate.bytes_sent": 20}.items()  # type: ignore[arg-type]
    assert root.end_time - root.start_time == 1_500_000_000  # type: ignore[operator]
    assert upstream.end_time == root.end_time


async def test_reports_upstream_without_response(spans: SpanRecorder, stage: Stage, send_request: MakeRequest) -> None:
    number, _ = await stage.begin(send_request("/in", host=OPEN))
    await stage.forwarded.error_page(number, "response_timeout")
    stage.forwarded.on_access_log_line(f"{number} - 504 1500 20 30 UT response_timeout")
    found = ended(spans)
    assert found["upstream"].attributes["error.type"] == "UpstreamTimeout"  # type: ignore[index]
    assert found[f"GET {OPEN}/in"].attributes["http.response.status_code"] == 504  # type: ignore[index]


async def test_requests_forwarded_by_gate_are_traced_once(spans: SpanRecorder, stage: Stage, send_request: MakeRequest) -> None:
    await stage.send_request(send_request("/", host="app.example.com"))
    assert ended(spans) == {}


async def test_few_are_traced(spans: SpanRecorder, stage: Stage, send_request: MakeRequest) -> None:
    spans.chance = 1.0
    number, _ = await stage.begin(send_request("/in", host=OPEN))
    stage.forwarded.on_access_log_line(f"{number} - 200 1500 20 30 - via_upstream")
    assert ended(spans) == {}
