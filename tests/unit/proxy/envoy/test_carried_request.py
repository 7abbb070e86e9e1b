"""What Envoy carries is answered, cut and counted as what gate carries itself."""

import asyncio

import grpc
import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from proxy.envoy.carried_request import CarriedRequest
from proxy.observe.access_log import RequestLog
from tests.unit.proxy.envoy.conftest import Ask
from tests.unit.proxy.envoy.stage import Aborted, Envoy, Stage, written


async def test_an_upstream_does_not_set_our_cookies_and_the_configured_headers_win(stage: Stage, ask: Ask, answer: Ask) -> None:
    async with stage.call() as (envoy, _):
        await envoy.says(ask("/in", host="open.example.com"))
        cookies = [("set-cookie", "_gate=stolen"), ("set-cookie", "theirs=1"), ("x-frame-options", "ALLOWALL"), ("content-length", "2")]
        told = written((await envoy.says(answer(200, *cookies))).response_headers)
    assert (told["set-cookie"], told["x-frame-options"]) == (b"theirs=1", b"SAMEORIGIN")
    assert "content-length" not in told


@pytest.mark.parametrize(
    ("details", "status", "says"),
    [
        ("upstream_reset_before_response_started{connection_failure}", 502, b"be reached."),
        ("response_timeout", 504, b"did not answer in time"),
        ("cluster_not_found", 502, b"be reached."),
    ],
)
async def test_trouble_with_an_upstream_is_told_in_our_words(
    details: str, status: int, says: bytes, stage: Stage, ask: Ask, answer: Ask
) -> None:
    async with stage.call() as (envoy, _):
        await envoy.says(ask("/in", ("accept", "text/html"), host="open.example.com"))
        told = (await envoy.says(answer(503, details=details))).immediate_response
    assert told.status.code == status
    assert says in told.body


async def test_a_response_with_a_line_break_in_a_header_is_not_passed_on(stage: Stage, ask: Ask, answer: Ask) -> None:
    async with stage.call() as (envoy, _):
        await envoy.says(ask("/in", host="open.example.com"))
        assert (await envoy.says(answer(200, ("x-a", "1\r\nset-cookie: _gate=x")))).immediate_response.status.code == 502


async def test_trailers_of_a_request_bring_nothing(stage: Stage, grpc_call: Ask) -> None:
    trailers = pb.ProcessingRequest()
    trailers.request_trailers.trailers.headers.add(key="x-gate-claim-email", raw_value=b"evil@example.com")
    async with stage.call() as (envoy, _):
        await envoy.says(grpc_call("rpc.example.com"))
        told = (await envoy.says(trailers)).request_trailers
    assert list(told.header_mutation.remove_headers) == ["x-gate-claim-email"]


async def test_what_is_carried_ends_with_its_access(stage: Stage, ask: Ask, answer: Ask) -> None:
    async with stage.call() as (envoy, task):
        await envoy.says(ask("/", stage.cookie("app.example.com")))
        await envoy.says(answer(200))
        (stream,) = next(iter(stage.streams._by_session.values()))
        stream.end()
        stream.end()  # the session, and then its policy
        with pytest.raises(Aborted):
            await asyncio.wait_for(asyncio.shield(task), 5)
        assert envoy.aborted is grpc.StatusCode.ABORTED
    assert repr(stage.streams) == "<OpenStreams 0 of 0 sessions>"
    assert stage.ext_proc.is_idle.is_set()


@pytest.mark.parametrize(("is_ended", "is_reset"), [(True, False), (False, True), (True, True)])
async def test_what_envoy_says_of_the_end_is_told_however_it_ends_the_call(
    is_ended: bool, is_reset: bool, stage: Stage, ask: Ask, answer: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = asyncio.Event()
    monkeypatch.setattr(CarriedRequest, "_may_have_been_cut", lambda self: True)
    monkeypatch.setattr(RequestLog, "tell", lambda self: told.set() if self.problem == "silent" else None)
    async with stage.call() as (envoy, task):
        said = await envoy.says(ask("/in", host="open.example.com"))
        await envoy.says(answer(200))
        if is_ended:
            envoy.ends()
            await asyncio.sleep(0.01)
        if is_reset:
            task.cancel()
            await asyncio.sleep(0.01)
        log = Envoy()
        log.logs("stream_idle_timeout", said.dynamic_metadata)
        log.ends()
        await stage.ext_proc._envoy_timeouts.listen(None, log)  # type: ignore[arg-type]
        await asyncio.wait_for(told.wait(), 5)


async def test_before_its_answer_has_begun_a_client_is_told_that_its_access_ended(stage: Stage, ask: Ask) -> None:
    async with stage.call() as (envoy, task):
        await envoy.says(ask("/", stage.cookie("app.example.com")))
        assert not stage.ext_proc.is_idle.is_set()
        (stream,) = next(iter(stage.streams._by_session.values()))
        stream.end()
        told = await asyncio.wait_for(envoy.heard.get(), 5)
        await asyncio.wait_for(asyncio.shield(task), 5)
    assert b"Your access ended" in told.immediate_response.body
    assert told.immediate_response.status.code >= 400


async def test_what_envoy_carried_counts_when_it_has_ended(stage: Stage, ask: Ask, answer: Ask) -> None:
    counted: list[tuple[object, ...]] = []
    stage.ext_proc._service().answered = lambda *facts: counted.append(facts)  # type: ignore[assignment]
    async with stage.call() as (envoy, _):
        await envoy.says(ask("/in", host="open.example.com"))
        await envoy.says(answer(404))
        assert counted == []
    async with stage.call() as (envoy, _):
        await envoy.says(ask("/in", host="open.example.com"))  # and its client leaves
    (host, method, status, seconds, *sizes), left = counted
    assert (host, method, status, sizes) == (b"open.example.com", b"GET", 404, [None, None])
    assert isinstance(seconds, float)
    assert 0 <= seconds < 60
    assert left[2] == 499
