"""Spans nest, end with their block, and have no other attributes than those that are set."""

import asyncio

import pytest
from opentelemetry.trace import StatusCode

from foundation.telemetry.tracing.spans import CLIENT, NO_SPAN, current_span, span


def test_spans_nest_and_end_with_their_block(record_spans) -> None:
    made = record_spans()
    with made.tracer.start_root("GET", [], is_trusted=False) as root:
        assert current_span() is root
        with span("authorize"):
            pass
        with span("upstream", CLIENT, {"server.address": "a"}) as upstream:
            assert current_span() is upstream
        assert current_span() is root
    assert not current_span()
    below, client, above = made.ended()
    assert [below.name, client.name, above.name] == ["authorize", "upstream", "GET"]
    assert {below.parent.span_id, client.parent.span_id} == {above.get_span_context().span_id}
    assert dict(client.attributes) == {"server.address": "a"}


def test_error_is_recorded_by_kind_without_its_message(record_spans) -> None:
    made = record_spans()
    with pytest.raises(ValueError, match="secret"), made.tracer.start_root("GET", [], is_trusted=False):
        raise ValueError("the secret")
    (ended,) = made.ended()
    assert ended.status.status_code is StatusCode.ERROR
    assert dict(ended.attributes) == {"error.type": "ValueError"}
    assert not ended.events
    assert "secret" not in ended.to_json()


async def test_task_outliving_its_request_is_not_in_the_span(record_spans) -> None:
    made, ended = record_spans(), asyncio.Event()

    async def later() -> object:
        await ended.wait()
        return span("authorize")

    with made.tracer.start_root("GET", [], is_trusted=False):
        task = asyncio.get_running_loop().create_task(later())
        await asyncio.sleep(0)
    ended.set()
    assert await task is NO_SPAN


async def test_requests_at_once_know_nothing_of_each_other(record_spans) -> None:
    made = record_spans()

    async def request(number: int) -> None:
        with made.tracer.start_root(str(number), [], is_trusted=False):
            await asyncio.sleep(0)
            with span(f"below {number}"):
                await asyncio.sleep(0)

    await asyncio.gather(*map(request, range(5)))
    ended = {each.name: each for each in made.ended()}
    for number in range(5):
        assert ended[f"below {number}"].parent.span_id == ended[str(number)].get_span_context().span_id


def test_no_span_is_nothing_and_takes_everything() -> None:
    with span("authorize") as nothing:
        assert not nothing
        nothing.set_attributes({"a": 1})
        nothing.set_name("b")
        nothing.set_error("c")
        assert nothing.traceparent == ""
        assert nothing.with_trace_headers([(b"traceparent", b"x")]) == [(b"traceparent", b"x")]


def test_long_values_are_cut(record_spans) -> None:
    made = record_spans()
    with made.tracer.start_root("GET", [], is_trusted=False) as root:
        root.set_attributes({"url.path": "/" + "x" * 8000})
    assert len(made.ended()[0].attributes["url.path"]) == 256
