"""Envoy carries what may pass, and that alone; all else goes to gate's own data plane, which says why."""

import pytest

from foundation.crypto.sign_in_attempts import ID_CHARACTERS
from proxy.envoy.envoy_request_head import MAX_BUFFERED_BODY
from proxy.envoy.resources.internal_headers import AUTHORIZED, BODY_UNDECLARED, BUFFER_BODY, CLUSTER, HOST, MAY_STREAM, PATH
from proxy.sign_in.saved_forms import FIELD
from tests.support.asgi import SCRIPT
from tests.unit.proxy.envoy.conftest import Ask
from tests.unit.proxy.envoy.stage import MARK, TOKEN, Stage

LONG = "a" * 20_000


async def test_allowed_request_is_forwarded_with_gate_head(stage: Stage, ask: Ask) -> None:
    spoofed = ("x-gate-claim-email", "evil@example.com")
    told = await stage.ask(ask("/a/../b?x=1", stage.cookie("app.example.com"), spoofed, ("x_gate_claim_email", "evil@example.com")))
    assert (told[CLUSTER], told[PATH], told[HOST]) == (b"to-127.0.0.1-False", b"/b?x=1", b"app.example.com")
    assert told["x-gate-claim-email"] == b"ann@example.com"
    assert told["cookie"] is told["x_gate_claim_email"] is None
    assert told["x-envoy-upstream-rq-timeout-ms"] == b"30000"
    assert AUTHORIZED not in told, "the mark is the last step, of a script that writes the target"


async def test_unchanged_target_is_authorized_without_script(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/a?x=1", stage.cookie("app.example.com")))
    assert told[AUTHORIZED] == MARK.encode()
    assert not {PATH, BODY_UNDECLARED} & told.keys()


async def test_rewrites_are_those_of_the_route(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/in/x", host="open.example.com"))
    assert (told[PATH], told[CLUSTER]) == (b"/out/x", b"to-127.0.0.1-False")


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
        ("patient.example.com", "/", ()),  # whose application may think for longer than a client may not read
        ("endless.example.com", "/", ()),
        ("old.example.com", "/", ()),
        ("open.example.com", "/in", (("x-a", LONG),)),
        ("open.example.com", "/in", (("x-a", "caf!"),)),  # what Envoy shows so may be a byte that is no UTF-8
        ("open.example.com", "/in", (("cookie", "a=1,b=2"),)),  # or two headers
        ("open.example.com", "/in", (("authorization", "Basic YTpi,Basic YTpj"),)),
        ("open.example.com", "/in", (("authorization", "Negotiate YII"),)),  # which may authenticate a connection
        ("open.example.com", "/in", (("authorization", "NTLM TlRMTVNTUAABAAAA"),)),
        ("open.example.com", "/in", (("authorization", "Odd x"),)),
    ],
)
async def test_all_else_goes_to_gate_as_it_came(host: str, path: str, headers: tuple[tuple[str, str], ...], stage: Stage, ask: Ask) -> None:
    assert await stage.ask(ask(path, *headers, host=host)) == {CLUSTER: b"gate", AUTHORIZED: MARK.encode()}
    assert repr(stage.carried) == "<ActiveRequests 0>"


@pytest.mark.parametrize("length", ["1", str(MAX_BUFFERED_BODY)])
async def test_small_body_is_buffered_before_authorization(length: str, stage: Stage, ask: Ask) -> None:
    for protocol in ("HTTP/1.1", "HTTP/2"):
        told = await stage.ask(ask("/in", ("content-length", length), host="open.example.com", method="POST", protocol=protocol))
        assert (told[CLUSTER], told[BUFFER_BODY]) == (b"to-127.0.0.1-False", b"1")
        assert AUTHORIZED not in told
    empty = await stage.ask(ask("/in/", ("content-length", "0"), host="open.example.com", method="POST"))
    assert BUFFER_BODY not in empty


@pytest.mark.parametrize("length", ["", str(MAX_BUFFERED_BODY + 1), "9" * 30])
async def test_any_other_body_is_read_by_gate(length: str, stage: Stage, ask: Ask) -> None:
    said = (("content-length", length),) if length else ()
    told = await stage.ask(ask("/in", *said, host="open.example.com", method="POST", has_body=True))
    assert told == {CLUSTER: b"gate", AUTHORIZED: MARK.encode()}


async def test_saved_form_button_goes_to_gate(stage: Stage, ask: Ask) -> None:
    own = (("origin", "https://open.example.com"), ("sec-fetch-site", "same-origin"), ("cookie", "__Host-_gate_form_x=y"))
    for length, carried_by in ((len(FIELD) + 1 + ID_CHARACTERS, b"gate"), (5, b"to-127.0.0.1-False")):
        told = await stage.ask(ask("/in", *own, ("content-length", str(length)), host="open.example.com", method="POST"))
        assert told[CLUSTER] == carried_by


async def test_gate_selects_upstream_and_handles_failover(stage: Stage, ask: Ask) -> None:
    chosen = set()
    for _ in range(2):
        told = await stage.ask(ask("/", host="two.example.com"))
        chosen.add(told[CLUSTER])
        assert (told["x-envoy-retry-on"], told["x-envoy-max-retries"]) == (b"connect-failure", b"1")
    assert chosen == {b"to-127.0.0.1-False", b"to-localhost-False"}
    assert "x-envoy-retry-on" not in await stage.ask(ask("/in", host="open.example.com"))


@pytest.mark.parametrize("path", ["/.gate/", "/.gate/callback/?x=1", "/x/../.well-known/gate/jwks.json", "/ping"])
async def test_builtin_pages_go_to_gate(path: str, stage: Stage, ask: Ask) -> None:
    assert (await stage.ask(ask(path, stage.cookie("app.example.com"))))[CLUSTER] == b"gate"


@pytest.mark.parametrize("host", ["finance.example.com", "app.example.com"], ids=["refused", "of another host"])
async def test_denied_request_is_not_forwarded(stage: Stage, ask: Ask, host: str) -> None:
    told = await stage.ask(ask("/", stage.cookie("finance.example.com"), host=host))
    assert told[CLUSTER] == b"gate"


async def test_an_upstream_that_envoy_does_not_know_is_served_by_gate(stage: Stage, ask: Ask) -> None:
    stage.judge._find_cluster = lambda upstream, route: None
    assert (await stage.ask(ask("/in", host="open.example.com")))[CLUSTER] == b"gate"


async def test_only_our_envoy_is_answered(stage: Stage, ask: Ask) -> None:
    for token in ("", "x" * 43, f"{TOKEN}\r\nx-gate-edge-token: {TOKEN}"):
        with pytest.raises(PermissionError):
            await stage.judge.respond(ask().replace(TOKEN.encode(), token.encode()), b"")


async def test_ambiguous_headers_are_sent_as_authorized(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/in!", ("x-a", "1,2"), ("x-b", "1"), ("x-c", "!"), host="rpc.example.com"))
    assert (told["x-a"], told["x-c"], told[PATH]) == (b"1,2", b"!", b"/in!")
    assert "x-b" not in told


async def test_over_http_2_envoy_alone_knows_whether_there_is_a_body(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/", stage.cookie("app.example.com"), protocol="HTTP/2"))
    assert (told[BODY_UNDECLARED], told[CLUSTER]) == (b"1", b"to-127.0.0.1-False")
    assert AUTHORIZED not in told
    post = await stage.ask(ask("/", stage.cookie("app.example.com"), protocol="HTTP/2", method="POST"))
    assert post[CLUSTER] == b"gate"
    assert AUTHORIZED in await stage.ask(ask("/", protocol="HTTP/2", host="rpc.example.com"))


async def test_header_with_line_break_is_never_sent(stage: Stage, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    service = stage.judge._service()
    plane = service.data_plane
    outgoing = plane.build_upstream_request

    async def broken(*about: object) -> object:
        made = await outgoing(*about)  # type: ignore[arg-type]
        made.headers = [*made.headers, (b"x-a", b"1\r\nx-gate-edge-judged: x")]
        return made

    monkeypatch.setattr(plane, "build_upstream_request", broken)
    assert (await stage.ask(ask("/in", host="open.example.com")))[CLUSTER] == b"gate"
    assert repr(stage.carried) == "<ActiveRequests 0>"


async def test_error_page_is_sent_to_response_script(stage: Stage, ask: Ask) -> None:
    number, _ = await stage.begin(ask("/in", ("accept", "text/html"), host="open.example.com"))
    question = ask("/instead", ("x-gate-edge-script", "1"), method="POST")
    said = (await stage.judge.respond(question, f"{number}\nresponse_timeout".encode())).partition(b"\r\n\r\n")[2]
    line, _, rest = said.partition(b"\n")
    status, length = map(int, line.split(b" "))
    assert status == 504
    assert b"content-type\ntext/html; charset=utf-8\n" in rest[:length]
    assert rest[length:].startswith(b"<!doctype html>")
    unknown = await stage.judge.respond(question, b"77\nresponse_timeout")
    assert unknown.endswith(b"content-length: 0\r\n\r\n")


async def test_client_request_for_script_paths_is_forwarded(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/instead", method="POST", host="open.example.com"))
    assert (told[CLUSTER], told[PATH]) == (b"to-127.0.0.1-False", b"/outstead")


async def test_grpc_over_http2_has_te_and_no_default_timeout(stage: Stage, grpc_call: Ask) -> None:
    told = await stage.ask(grpc_call("rpc.example.com"))
    assert told[CLUSTER] == b"to-127.0.0.1-True"
    assert "te" not in told  # it stays
    assert "x-envoy-upstream-rq-timeout-ms" not in told
    assert (told[MAY_STREAM], told["x-envoy-upstream-rq-per-try-timeout-ms"]) == (b"grpc", b"300000"), "its answer begins in time"


async def test_a_call_of_a_route_without_a_limit_may_think_for_ever(stage: Stage, grpc_call: Ask) -> None:
    told = await stage.ask(grpc_call("watch.example.com"))
    assert (told[CLUSTER], told[MAY_STREAM]) == (b"to-127.0.0.1-True", b"grpc")
    assert not {"x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-upstream-rq-timeout-ms"} & told.keys()


async def test_event_stream_requests_go_to_gate(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/in", ("accept", "text/html, Text/Event-Stream"), host="open.example.com"))
    assert told[CLUSTER] == b"gate"


async def test_event_stream_head_is_bounded_over_http2(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/", ("accept", "text/event-stream"), ("x-gate-edge-may-stream", "2"), host="rpc.example.com"))
    assert (told[CLUSTER], told[MAY_STREAM]) == (b"to-127.0.0.1-True", b"events")
    assert told["x-envoy-upstream-rq-per-try-timeout-ms"] == b"30000"
    assert "x-envoy-upstream-rq-timeout-ms" not in told


async def test_client_cannot_set_may_stream(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/in", ("x-gate-edge-may-stream", "1"), host="open.example.com"))
    assert MAY_STREAM not in told


async def test_no_client_chooses_the_protocol_that_an_upstream_is_spoken_to_in(stage: Stage, grpc_call: Ask) -> None:
    """What it says inside HTTP/2 frames might be requests to an upstream that skips what it can't read."""
    assert (await stage.ask(grpc_call("open.example.com")))[CLUSTER] == b"gate"


async def test_what_can_not_be_ended_is_gates(stage: Stage, ask: Ask) -> None:
    question = ask("/in", host="open.example.com")
    assert (await stage.ask(question))[CLUSTER] != b"gate"
    stage.connections.is_open = False
    assert (await stage.ask(ask("/in", host="open.example.com")))[CLUSTER] == b"gate"
    stage.connections.is_open = True
    assert (await stage.ask(ask("/in", host="open.example.com", direct="-")))[CLUSTER] == b"gate"
