"""What Envoy carries is traced as what gate carries: same spans, same words, and the time that Envoy has measured."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from tests.support.kept_spans import KeptSpans
from tests.unit.proxy.envoy.conftest import Ask
from tests.unit.proxy.envoy.stage import Stage

OPEN = "open.example.com"


@pytest.fixture
def spans(tmp_path: Path) -> Iterator[KeptSpans]:
    kept = KeptSpans(tmp_path)
    with kept.in_force():
        yield kept


def ended(spans: KeptSpans) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.ended()}


async def test_spans_end_with_request_and_are_propagated(spans: KeptSpans, stage: Stage, ask: Ask) -> None:
    question = ask("/in/x?secret=1", ("traceparent", f"00-{'a' * 32}-{'b' * 16}-01"), host=OPEN)
    told = await stage.ask(question)
    assert ended(spans).keys() == {"authorize"}
    stage.carried.on_access_log_line(f"{told['x-gate-edge-number'].decode()} - 200 1500 20 30 - via_upstream")  # type: ignore[union-attr]
    found = ended(spans)
    root, upstream = found[f"GET {OPEN}/in"], found["upstream"]
    assert {found["authorize"].parent.span_id, upstream.parent.span_id} == {root.context.span_id}  # type: ignore[union-attr]
    assert told["traceparent"] == f"00-{root.context.trace_id:032x}-{upstream.context.span_id:016x}-01".encode()
    assert (root.attributes["url.path"], root.attributes["http.response.status_code"]) == ("/in/x", 200)  # type: ignore[index]
    assert dict(upstream.attributes).items() >= {"gate.ending": "complete", "gate.bytes_sent": 20}.items()  # type: ignore[arg-type]
    assert root.end_time - root.start_time == 1_500_000_000  # type: ignore[operator]
    assert upstream.end_time == root.end_time


async def test_reports_upstream_without_response(spans: KeptSpans, stage: Stage, ask: Ask) -> None:
    number, _ = await stage.begin(ask("/in", host=OPEN))
    await stage.carried.error_page(number, "response_timeout")
    stage.carried.on_access_log_line(f"{number} - 504 1500 20 30 UT response_timeout")
    found = ended(spans)
    assert found["upstream"].attributes["error.type"] == "UpstreamTimeout"  # type: ignore[index]
    assert found[f"GET {OPEN}/in"].attributes["http.response.status_code"] == 504  # type: ignore[index]


async def test_requests_forwarded_by_gate_are_traced_once(spans: KeptSpans, stage: Stage, ask: Ask) -> None:
    await stage.ask(ask("/", host="app.example.com"))
    assert ended(spans) == {}


async def test_few_are_traced(spans: KeptSpans, stage: Stage, ask: Ask) -> None:
    spans.chance = 1.0
    number, _ = await stage.begin(ask("/in", host=OPEN))
    stage.carried.on_access_log_line(f"{number} - 200 1500 20 30 - via_upstream")
    assert ended(spans) == {}
