"""Envoy carries what may pass, and that alone; all else goes to gate's own data plane, which says why."""

import pytest

from foundation.crypto.sign_in_attempts import ID_CHARACTERS
from proxy.envoy.envoy_request_head import MAX_BUFFERED_BODY
from proxy.envoy.resources.internal_headers import AUTHORIZED, BODY_UNDECLARED, BUFFER_BODY, CLUSTER, HOST, MAY_STREAM, PATH
from proxy.sign_in.saved_forms import FIELD
from tests.support.asgi import SCRIPT
from tests.unit.proxy.envoy.conftest import MakeRequest
from tests.unit.proxy.envoy.stage import MARK, TOKEN, Stage

LONG = "a" * 20_000


async def test_allowed_request_is_forwarded_with_gate_head(stage: Stage, send_request: MakeRequest) -> None:
    spoofed = ("x-gate-claim-email", "evil@example.com")
    reported = await stage.send_request(
        send_request("/a/../b?x=1", stage.cookie("app.example.com"), spoofed, ("x_gate_claim_email", "evil@example.com"))
    )
    assert (reported[CLUSTER], reported[PATH], reported[HOST]) == (b"to-127.0.0.1-False", b"/b?x=1", b"app.example.com")
    assert reported["x-gate-claim-email"] == b"ann@example.com"
    assert reported["cookie"] is reported["x_gate_claim_email"] is None
    assert reported["x-envoy-upstream-rq-timeout-ms"] == b"30000"
    assert AUTHORIZED not in reported, "the mark is the last step, of a script that writes the target"


async def test_unchanged_target_is_authorized_without_script(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(send_request("/a?x=1", stage.cookie("app.example.com")))
    assert reported[AUTHORIZED] == MARK.encode()
    assert not {PATH, BODY_UNDECLARED} & reported.keys()


async def test_rewrites_are_those_of_the_route(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(send_request("/in/x", host="open.example.com"))
    assert (reported[PATH], reported[CLUSTER]) == (b"/out/x", b"to-127.0.0.1-False")


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
async def test_other_requests_go_to_gate_unchanged(
    host: str, path: str, headers: tuple[tuple[str, str], ...], stage: Stage, send_request: MakeRequest
) -> None:
    assert await stage.send_request(send_request(path, *headers, host=host)) == {CLUSTER: b"gate", AUTHORIZED: MARK.encode()}
    assert repr(stage.forwarded) == "<ActiveRequests 0>"


@pytest.mark.parametrize("length", ["1", str(MAX_BUFFERED_BODY)])
async def test_small_body_is_buffered_before_authorization(length: str, stage: Stage, send_request: MakeRequest) -> None:
    for protocol in ("HTTP/1.1", "HTTP/2"):
        reported = await stage.send_request(
            send_request("/in", ("content-length", length), host="open.example.com", method="POST", protocol=protocol)
        )
        assert (reported[CLUSTER], reported[BUFFER_BODY]) == (b"to-127.0.0.1-False", b"1")
        assert AUTHORIZED not in reported
    empty = await stage.send_request(send_request("/in/", ("content-length", "0"), host="open.example.com", method="POST"))
    assert BUFFER_BODY not in empty


@pytest.mark.parametrize("length", ["", str(MAX_BUFFERED_BODY + 1), "9" * 30])
async def test_any_other_body_is_read_by_gate(length: str, stage: Stage, send_request: MakeRequest) -> None:
    payload = (("content-length", length),) if length else ()
    reported = await stage.send_request(send_request("/in", *payload, host="open.example.com", method="POST", has_body=True))
    assert reported == {CLUSTER: b"gate", AUTHORIZED: MARK.encode()}


async def test_saved_form_button_goes_to_gate(stage: Stage, send_request: MakeRequest) -> None:
    local = (("origin", "https://open.example.com"), ("sec-fetch-site", "same-origin"), ("cookie", "__Host-_gate_form_x=y"))
    for length, forwarded_by in ((len(FIELD) + 1 + ID_CHARACTERS, b"gate"), (5, b"to-127.0.0.1-False")):
        reported = await stage.send_request(
            send_request("/in", *local, ("content-length", str(length)), host="open.example.com", method="POST")
        )
        assert reported[CLUSTER] == forwarded_by


async def test_gate_selects_upstream_and_handles_failover(stage: Stage, send_request: MakeRequest) -> None:
    chosen = set()
    for _ in range(2):
        reported = await stage.send_request(send_request("/", host="two.example.com"))
        chosen.add(reported[CLUSTER])
        assert (reported["x-envoy-retry-on"], reported["x-envoy-max-retries"]) == (b"connect-failure", b"1")
    assert chosen == {b"to-127.0.0.1-False", b"to-localhost-False"}
    assert "x-envoy-retry-on" not in await stage.send_request(send_request("/in", host="open.example.com"))


@pytest.mark.parametrize("path", ["/.gate/", "/.gate/callback/?x=1", "/x/../.well-known/gate/jwks.json", "/ping"])
async def test_builtin_pages_go_to_gate(path: str, stage: Stage, send_request: MakeRequest) -> None:
    assert (await stage.send_request(send_request(path, stage.cookie("app.example.com"))))[CLUSTER] == b"gate"


@pytest.mark.parametrize("host", ["finance.example.com", "app.example.com"], ids=["refused", "of another host"])
async def test_denied_request_is_not_forwarded(stage: Stage, send_request: MakeRequest, host: str) -> None:
    reported = await stage.send_request(send_request("/", stage.cookie("finance.example.com"), host=host))
    assert reported[CLUSTER] == b"gate"


async def test_unknown_cluster_is_forwarded_by_gate(stage: Stage, send_request: MakeRequest) -> None:
    stage.ext_authz._find_cluster = lambda upstream, route: None
    assert (await stage.send_request(send_request("/in", host="open.example.com")))[CLUSTER] == b"gate"


async def test_refuses_invalid_token(stage: Stage, send_request: MakeRequest) -> None:
    for token in ("", "x" * 43, f"{TOKEN}\r\nx-gate-edge-token: {TOKEN}"):
        with pytest.raises(PermissionError):
            await stage.ext_authz.respond(send_request().replace(TOKEN.encode(), token.encode()), b"")


async def test_ambiguous_headers_are_sent_as_authorized(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(send_request("/in!", ("x-a", "1,2"), ("x-b", "1"), ("x-c", "!"), host="rpc.example.com"))
    assert (reported["x-a"], reported["x-c"], reported[PATH]) == (b"1,2", b"!", b"/in!")
    assert "x-b" not in reported


async def test_http2_request_may_have_an_undeclared_body(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(send_request("/", stage.cookie("app.example.com"), protocol="HTTP/2"))
    assert (reported[BODY_UNDECLARED], reported[CLUSTER]) == (b"1", b"to-127.0.0.1-False")
    assert AUTHORIZED not in reported
    post = await stage.send_request(send_request("/", stage.cookie("app.example.com"), protocol="HTTP/2", method="POST"))
    assert post[CLUSTER] == b"gate"
    assert AUTHORIZED in await stage.send_request(send_request("/", protocol="HTTP/2", host="rpc.example.com"))


async def test_header_with_line_break_is_never_sent(stage: Stage, send_request: MakeRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    service = stage.ext_authz._service()
    plane = service.data_plane
    outgoing = plane.build_upstream_request

    async def broken(*about: object) -> object:
        made = await outgoing(*about)  # type: ignore[arg-type]
        made.headers = [*made.headers, (b"x-a", b"1\r\nx-gate-edge-judged: x")]
        return made

    monkeypatch.setattr(plane, "build_upstream_request", broken)
    assert (await stage.send_request(send_request("/in", host="open.example.com")))[CLUSTER] == b"gate"
    assert repr(stage.forwarded) == "<ActiveRequests 0>"


async def test_error_page_is_sent_to_response_script(stage: Stage, send_request: MakeRequest) -> None:
    number, _ = await stage.begin(send_request("/in", ("accept", "text/html"), host="open.example.com"))
    question = send_request("/instead", ("x-gate-edge-script", "1"), method="POST")
    payload = (await stage.ext_authz.respond(question, f"{number}\nresponse_timeout".encode())).partition(b"\r\n\r\n")[2]
    line, _, rest = payload.partition(b"\n")
    status, length = map(int, line.split(b" "))
    assert status == 504
    assert b"content-type\ntext/html; charset=utf-8\n" in rest[:length]
    assert rest[length:].startswith(b"<!doctype html>")
    unknown = await stage.ext_authz.respond(question, b"77\nresponse_timeout")
    assert unknown.endswith(b"content-length: 0\r\n\r\n")


async def test_client_request_for_script_paths_is_forwarded(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(send_request("/instead", method="POST", host="open.example.com"))
    assert (reported[CLUSTER], reported[PATH]) == (b"to-127.0.0.1-False", b"/outstead")


async def test_grpc_over_http2_has_te_and_no_default_timeout(stage: Stage, grpc_call: MakeRequest) -> None:
    reported = await stage.send_request(grpc_call("rpc.example.com"))
    assert reported[CLUSTER] == b"to-127.0.0.1-True"
    assert "te" not in reported  # it stays
    assert "x-envoy-upstream-rq-timeout-ms" not in reported
    assert (reported[MAY_STREAM], reported["x-envoy-upstream-rq-per-try-timeout-ms"]) == (b"grpc", b"300000"), "its answer begins in time"


async def test_a_call_of_a_route_without_a_limit_may_think_for_ever(stage: Stage, grpc_call: MakeRequest) -> None:
    reported = await stage.send_request(grpc_call("watch.example.com"))
    assert (reported[CLUSTER], reported[MAY_STREAM]) == (b"to-127.0.0.1-True", b"grpc")
    assert not {"x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-upstream-rq-timeout-ms"} & reported.keys()


async def test_event_stream_requests_go_to_gate(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(send_request("/in", ("accept", "text/html, Text/Event-Stream"), host="open.example.com"))
    assert reported[CLUSTER] == b"gate"


async def test_event_stream_head_is_bounded_over_http2(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(
        send_request("/", ("accept", "text/event-stream"), ("x-gate-edge-may-stream", "2"), host="rpc.example.com")
    )
    assert (reported[CLUSTER], reported[MAY_STREAM]) == (b"to-127.0.0.1-True", b"events")
    assert reported["x-envoy-upstream-rq-per-try-timeout-ms"] == b"30000"
    assert "x-envoy-upstream-rq-timeout-ms" not in reported


async def test_client_cannot_set_may_stream(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(send_request("/in", ("x-gate-edge-may-stream", "1"), host="open.example.com"))
    assert MAY_STREAM not in reported


async def test_grpc_call_does_not_change_upstream_protocol(stage: Stage, grpc_call: MakeRequest) -> None:
    """An upstream that skips invalid bytes could parse HTTP/2 frame contents as requests."""
    assert (await stage.send_request(grpc_call("open.example.com")))[CLUSTER] == b"gate"


async def test_gate_forwards_if_connections_cannot_be_reset(stage: Stage, send_request: MakeRequest) -> None:
    question = send_request("/in", host="open.example.com")
    assert (await stage.send_request(question))[CLUSTER] != b"gate"
    stage.connections.is_open = False
    assert (await stage.send_request(send_request("/in", host="open.example.com")))[CLUSTER] == b"gate"
    stage.connections.is_open = True
    assert (await stage.send_request(send_request("/in", host="open.example.com", direct="-")))[CLUSTER] == b"gate"
