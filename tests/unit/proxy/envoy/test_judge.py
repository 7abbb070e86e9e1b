"""Envoy carries what may pass, and that alone; all else goes to gate's own data plane, which says why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from authorize.service import AuthorizeService
from databroker.client import LocalBroker
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from gateproject.crypto.signing_key import SigningKey
from proxy.dataplane import Carrying
from proxy.envoy.doorway import Doorway
from proxy.envoy.judge import Judge
from proxy.envoy.listener import CLUSTER, TICKET
from proxy.open_streams import OpenStreams
from proxy.service import ProxyService
from tests.support.asgi import SCRIPT
from tests.support.options import make_options
from tests.support.signed_in import SignedIn, sign_in
from tests.unit.proxy.envoy.conftest import Ask

TOKEN, LONG = "t" * 43, "a" * 20_000
TO = {"to": "http://127.0.0.1:9"}
ROUTES = [
    {"from": "https://app.example.com", **TO, "allow_any_authenticated_user": True, "pass_identity_headers": True},
    {"from": "https://finance.example.com", **TO, "allowed_groups": ["finance"]},
    {"from": "https://open.example.com", "prefix": "/in", "prefix_rewrite": "/out", **TO, "allow_public_unauthenticated_access": True},
    {"from": "https://two.example.com", "to": ["http://127.0.0.1:9", "http://127.0.0.2:9"], "allow_public_unauthenticated_access": True},
    {"from": "https://rpc.example.com", **TO, "allow_public_unauthenticated_access": True, "upstream_http2": True},
    {"from": "https://old.example.com", "redirect": {"https_redirect": True}, "allow_public_unauthenticated_access": True},
]


class Aborted(Exception):
    pass


class Envoy:
    """The other end of one call; what gate says is in `heard`."""

    def __init__(self, token: str = TOKEN):
        self._token = token
        self._told: asyncio.Queue[object] = asyncio.Queue()
        self.heard: asyncio.Queue[pb.ProcessingResponse] = asyncio.Queue()
        self.aborted: grpc.StatusCode | None = None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self._token}"),)

    async def read(self) -> object:
        return await self._told.get()

    async def write(self, message: pb.ProcessingResponse) -> None:
        self.heard.put_nowait(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.aborted = code
        raise Aborted

    async def says(self, message: pb.ProcessingRequest) -> pb.ProcessingResponse:
        self._told.put_nowait(message)
        return await asyncio.wait_for(self.heard.get(), 5)

    def ends(self) -> None:
        self._told.put_nowait(grpc.aio.EOF)


class Stage:
    def __init__(self, judge: Judge, doorway: Doorway, ann: SignedIn, streams: OpenStreams):
        self.judge, self.doorway, self.ann, self.streams = judge, doorway, ann, streams

    def cookie(self, host: str) -> tuple[str, str]:
        return "cookie", self.ann.cookie(host)

    @asynccontextmanager
    async def call(self) -> AsyncIterator[tuple[Envoy, "asyncio.Task[None]"]]:
        envoy = Envoy()
        task = asyncio.ensure_future(self.judge.process(None, envoy))  # type: ignore[arg-type]
        try:
            yield envoy, task
        finally:
            envoy.ends()
            await asyncio.wait([task], timeout=5)
            if task.done() and not task.cancelled():
                task.exception()

    async def first_answer(self, message: pb.ProcessingRequest) -> dict[str, bytes]:
        """The headers that gate sets; what it removes has None."""
        async with self.call() as (envoy, _):
            return written((await envoy.says(message)).request_headers)


def written(answer: pb.HeadersResponse) -> dict[str, Any]:
    mutation = answer.response.header_mutation
    return {each.header.key: each.header.raw_value for each in mutation.set_headers} | dict.fromkeys(mutation.remove_headers)


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    options = make_options(tmp_path, policy=ROUTES, data_plane="envoy", jwt_claims_headers=["email"])
    broker, carrying = LocalBroker(MemoryStore()), Carrying()
    authorize = AuthorizeService(options, Replica(broker), SigningKey.from_options(options))
    service = ProxyService(options, authorize, carrying, lambda: 0.0)

    async def application(*_: object) -> None:
        raise AssertionError("nobody comes in")

    doorway = Doorway(application, "https")
    judge = Judge(lambda: service, doorway, lambda upstream, is_http2: f"to-{upstream.host}-{is_http2}", TOKEN, "https")
    return Stage(judge, doorway, await sign_in(broker, options), carrying.streams)


async def test_who_may_pass_is_carried_with_the_head_that_gate_wrote(stage: Stage, ask: Ask) -> None:
    spoofed = ("x-gate-claim-email", "evil@example.com")
    told = await stage.first_answer(
        ask("/a/../b?x=1", stage.cookie("app.example.com"), spoofed, ("x_gate_claim_email", "evil@example.com"))
    )
    assert (told[CLUSTER], told[":path"], told[":authority"]) == (b"to-127.0.0.1-False", b"/b?x=1", b"app.example.com")
    assert told["x-gate-claim-email"] == b"ann@example.com"
    assert told["cookie"] is told["x_gate_claim_email"] is None
    assert told["x-envoy-upstream-rq-timeout-ms"] == b"30000"
    assert TICKET not in told


async def test_rewrites_are_those_of_the_route(stage: Stage, ask: Ask) -> None:
    told = await stage.first_answer(ask("/in/x", host="open.example.com"))
    assert (told[":path"], told[CLUSTER]) == (b"/out/x", b"to-127.0.0.1-False")


@pytest.mark.parametrize(
    ("host", "path", "headers"),
    [
        ("app.example.com", "/", ()),  # to sign in
        ("app.example.com", "/", tuple(SCRIPT.items())),
        ("app.example.com", "/", (("cookie", "_gate=forged"),)),
        ("unknown.example.com", "/", ()),
        ("app.example.com", "/.gate/", ()),
        ("app.example.com", "/x/../.gate/callback/", ()),
        ("app.example.com", "/ping", ()),
        ("auth.example.com", "/.gate/", ()),
        ("open.example.com", "/in\\x", ()),
        ("open.example.com", "/in/%00", ()),
        ("open.example.com", "/elsewhere", ()),
        ("open.example.com", "/in", (("upgrade", "websocket"),)),
        ("open.example.com,evil.example", "/in", ()),
        ("two.example.com", "/", ()),
        ("old.example.com", "/", ()),
        ("open.example.com", "/in", (("x-a", LONG),)),
    ],
)
async def test_all_else_goes_to_gate_with_a_ticket_of_its_own(
    host: str, path: str, headers: tuple[tuple[str, str], ...], stage: Stage, ask: Ask
) -> None:
    told = await stage.first_answer(ask(path, *headers, ("x-envoy-retry-on", "5xx"), host=host))
    assert told[CLUSTER] == b"gate"
    assert len(told[TICKET]) == 32
    assert told["x-envoy-retry-on"] is None
    assert repr(stage.doorway) == "<Doorway 0 on their way>"  # the ticket went with the call


async def test_what_has_a_body_is_read_by_gate(stage: Stage, ask: Ask) -> None:
    told = await stage.first_answer(ask("/in", ("content-length", "2"), host="open.example.com", method="POST", has_body=True))
    assert told[CLUSTER] == b"gate"


async def test_gate_sees_the_answer_to_what_envoy_carries(stage: Stage, ask: Ask) -> None:
    async with stage.call() as (envoy, _):
        mode = (await envoy.says(ask("/in", host="open.example.com"))).mode_override
    assert mode.response_header_mode == mode.request_trailer_mode == mode.response_trailer_mode == mode.SEND


@pytest.mark.parametrize("path", ["/.gate/", "/.gate/callback/?x=1", "/x/../.well-known/gate/jwks.json", "/ping"])
async def test_our_own_pages_are_no_applications_whoever_asks(path: str, stage: Stage, ask: Ask) -> None:
    assert (await stage.first_answer(ask(path, stage.cookie("app.example.com"))))[CLUSTER] == b"gate"


async def test_who_is_refused_is_not_carried(stage: Stage, ask: Ask) -> None:
    told = await stage.first_answer(ask("/", stage.cookie("finance.example.com"), host="finance.example.com"))
    assert told[CLUSTER] == b"gate"


async def test_a_session_of_one_host_is_nothing_at_another(stage: Stage, ask: Ask) -> None:
    told = await stage.first_answer(ask("/", stage.cookie("finance.example.com"), host="app.example.com"))
    assert told[CLUSTER] == b"gate"


async def test_an_upstream_that_envoy_does_not_know_is_served_by_gate(stage: Stage, ask: Ask) -> None:
    stage.judge._cluster_of = lambda upstream, is_http2: None
    assert (await stage.first_answer(ask("/in", host="open.example.com")))[CLUSTER] == b"gate"


async def test_only_our_envoy_is_answered(stage: Stage) -> None:
    for token in ("", "x" * 43):
        envoy = Envoy(token)
        with pytest.raises(Aborted):
            await stage.judge.process(None, envoy)  # type: ignore[arg-type]
        assert envoy.aborted is grpc.StatusCode.UNAUTHENTICATED
        assert envoy.heard.empty()


def grpc_call(ask: Ask, host: str) -> pb.ProcessingRequest:
    return ask("/in/S/M", ("content-type", "application/grpc"), ("te", "trailers"), host=host, method="POST", has_body=True)


async def test_grpc_goes_over_http2_says_te_and_has_no_default_timeout(stage: Stage, ask: Ask) -> None:
    told = await stage.first_answer(grpc_call(ask, "rpc.example.com"))
    assert told[CLUSTER] == b"to-127.0.0.1-True"
    assert "te" not in told  # it stays
    assert "x-envoy-upstream-rq-timeout-ms" not in told


async def test_no_client_chooses_the_protocol_that_an_upstream_is_spoken_to_in(stage: Stage, ask: Ask) -> None:
    """What it says inside HTTP/2 frames might be requests to an upstream that skips what it can't read."""
    assert (await stage.first_answer(grpc_call(ask, "open.example.com")))[CLUSTER] == b"gate"


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


async def test_trailers_of_a_request_bring_nothing(stage: Stage, ask: Ask) -> None:
    trailers = pb.ProcessingRequest()
    trailers.request_trailers.trailers.headers.add(key="x-gate-claim-email", raw_value=b"evil@example.com")
    async with stage.call() as (envoy, _):
        await envoy.says(grpc_call(ask, "rpc.example.com"))
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
    assert stage.judge.is_idle.is_set()


async def test_before_its_answer_has_begun_a_client_is_told_that_its_access_ended(stage: Stage, ask: Ask) -> None:
    async with stage.call() as (envoy, task):
        await envoy.says(ask("/", stage.cookie("app.example.com")))
        assert not stage.judge.is_idle.is_set()
        (stream,) = next(iter(stage.streams._by_session.values()))
        stream.end()
        told = await asyncio.wait_for(envoy.heard.get(), 5)
        await asyncio.wait_for(asyncio.shield(task), 5)
    assert b"Your access ended" in told.immediate_response.body
    assert told.immediate_response.status.code >= 400
