"""Envoy carries what may pass, and that alone; all else goes to gate's own data plane, which says why."""

import grpc
import pytest

from proxy.envoy.listener import CLUSTER, HANDOFF_TOKEN, MAY_STREAM
from tests.support.asgi import SCRIPT
from tests.unit.proxy.envoy.conftest import Ask
from tests.unit.proxy.envoy.stage import Aborted, Envoy, Stage

LONG = "a" * 20_000


async def test_who_may_pass_is_carried_with_the_head_that_gate_wrote(stage: Stage, ask: Ask) -> None:
    spoofed = ("x-gate-claim-email", "evil@example.com")
    told = await stage.first_answer(
        ask("/a/../b?x=1", stage.cookie("app.example.com"), spoofed, ("x_gate_claim_email", "evil@example.com"))
    )
    assert (told[CLUSTER], told[":path"], told[":authority"]) == (b"to-127.0.0.1-False", b"/b?x=1", b"app.example.com")
    assert told["x-gate-claim-email"] == b"ann@example.com"
    assert told["cookie"] is told["x_gate_claim_email"] is None
    assert told["x-envoy-upstream-rq-timeout-ms"] == b"30000"
    assert HANDOFF_TOKEN not in told


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
        ("patient.example.com", "/", ()),  # whose application may think for longer than a client may not read
        ("endless.example.com", "/", ()),
        ("old.example.com", "/", ()),
        ("open.example.com", "/in", (("x-a", LONG),)),
    ],
)
async def test_all_else_goes_to_gate_with_a_handoff_token_of_its_own(
    host: str, path: str, headers: tuple[tuple[str, str], ...], stage: Stage, ask: Ask
) -> None:
    told = await stage.first_answer(ask(path, *headers, ("x-envoy-retry-on", "5xx"), host=host))
    assert told[CLUSTER] == b"gate"
    assert len(told[HANDOFF_TOKEN]) == 32
    assert told["x-envoy-retry-on"] is None
    assert repr(stage.internal_listener) == "<InternalListener 0 on their way>"  # the token went with the call


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
    stage.ext_proc._cluster_of = lambda upstream, route: None
    assert (await stage.first_answer(ask("/in", host="open.example.com")))[CLUSTER] == b"gate"


async def test_only_our_envoy_is_answered(stage: Stage) -> None:
    for token in ("", "x" * 43):
        envoy = Envoy(token)
        with pytest.raises(Aborted):
            await stage.ext_proc.process(None, envoy)  # type: ignore[arg-type]
        assert envoy.aborted is grpc.StatusCode.UNAUTHENTICATED
        assert envoy.heard.empty()


async def test_grpc_goes_over_http2_says_te_and_has_no_default_timeout(stage: Stage, grpc_call: Ask) -> None:
    told = await stage.first_answer(grpc_call("rpc.example.com"))
    assert told[CLUSTER] == b"to-127.0.0.1-True"
    assert "te" not in told  # it stays
    assert "x-envoy-upstream-rq-timeout-ms" not in told
    assert (told[MAY_STREAM], told["x-envoy-upstream-rq-per-try-timeout-ms"]) == (b"1", b"300000"), "its answer begins in time"


async def test_a_call_of_a_route_without_a_limit_may_think_for_ever(stage: Stage, grpc_call: Ask) -> None:
    told = await stage.first_answer(grpc_call("watch.example.com"))
    assert (told[CLUSTER], told[MAY_STREAM]) == (b"to-127.0.0.1-True", b"1")
    assert not {"x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-upstream-rq-timeout-ms"} & told.keys()


async def test_who_claims_to_want_events_is_served_by_gate_that_sees_what_the_answer_is(stage: Stage, ask: Ask) -> None:
    told = await stage.first_answer(ask("/in", ("accept", "text/html, Text/Event-Stream"), host="open.example.com"))
    assert told[CLUSTER] == b"gate"


async def test_where_envoy_alone_can_carry_it_the_head_of_events_comes_in_time(stage: Stage, ask: Ask) -> None:
    told = await stage.first_answer(ask("/", ("accept", "text/event-stream"), ("x-gate-edge-may-stream", "2"), host="rpc.example.com"))
    assert (told[CLUSTER], told[MAY_STREAM]) == (b"to-127.0.0.1-True", b"1")
    assert told["x-envoy-upstream-rq-per-try-timeout-ms"] == b"30000"
    assert "x-envoy-upstream-rq-timeout-ms" not in told


async def test_who_claims_nothing_can_not_say_that_it_may_stream(stage: Stage, ask: Ask) -> None:
    told = await stage.first_answer(ask("/in", ("x-gate-edge-may-stream", "1"), host="open.example.com"))
    assert told[MAY_STREAM] is None


async def test_no_client_chooses_the_protocol_that_an_upstream_is_spoken_to_in(stage: Stage, grpc_call: Ask) -> None:
    """What it says inside HTTP/2 frames might be requests to an upstream that skips what it can't read."""
    assert (await stage.first_answer(grpc_call("open.example.com")))[CLUSTER] == b"gate"
