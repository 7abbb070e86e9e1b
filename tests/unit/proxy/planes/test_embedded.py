"""The whole path of one request, from ASGI messages to the bytes at the upstream."""

import asyncio
import json
import logging
import math
from pathlib import Path

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.policy.decision import NO_ROUTE
from authorize.policy.reasons import Reason
from databroker.store.base import RecordChange
from foundation.telemetry import metrics
from proxy.observe.request_recorder import CLIENT_CLOSED
from proxy.planes.open_streams import OpenStreams
from proxy.planes.stream_tracking import open_stream
from proxy.verdict import RequestDecision
from tests.support.asgi import CURL, NAVIGATION, SCRIPT, Answer, chunked_receive, incoming_from
from tests.support.eventually import PATIENCE
from tests.support.proxied import proxied
from tests.support.signed_in import sign_in
from tests.support.upstream import Exchange, RawUpstream
from tests.unit.authorize.builders import user
from tests.unit.proxy.forwarding.test_tunnel import Recorder

URL = "https://app.example.com/page?q=1"
ANYONE = {"allow_any_authenticated_user": True}
PUBLIC = {"allow_public_unauthenticated_access": True}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (NAVIGATION, 302),
        (CURL, 401),
        (NAVIGATION | {"authorization": "Basic YTpi"}, 302),
        ({"accept": "text/html", "authorization": "Basic YTpi"}, 401),
        ({"accept": "text/html"}, 302),
        (SCRIPT, 401),
        ({"accept": "application/json"}, 401),
        ({"connection": "upgrade", "upgrade": "websocket"}, 401),
        ({"cookie": "_gate=forged"}, 401),
        (NAVIGATION | {"cookie": "_gate=forged"}, 302),
    ],
)
async def test_unauthenticated_request_is_not_forwarded(headers: dict[str, str], status: int, tmp_path: Path) -> None:
    async with proxied(tmp_path, ANYONE) as gate:
        answer = await gate.send(URL, headers=headers)
        assert gate.canary.connections == 0
    assert answer.status == status
    assert (answer.values("location") != [], answer.values("set-cookie") != []) == (status == 302, status == 302)
    assert (answer.values("www-authenticate") != []) == (status == 401)


async def test_a_grpc_client_that_is_not_signed_in_gets_unauthenticated(tmp_path: Path) -> None:
    async with proxied(tmp_path, ANYONE) as gate:
        answer = await gate.send(URL, method="POST", headers={"content-type": "application/grpc"})
    assert (answer.status, answer.header("grpc-status")) == (200, "16")


async def test_denied_user_reads_reason_and_next_step(tmp_path: Path) -> None:
    (groups := tmp_path / "groups.yaml").write_text("users: []\n")  # a directory says which groups there are, not the claim
    async with proxied(tmp_path, {"allowed_groups": ["finance"]}, directory_file=str(groups)) as gate:
        bob = await sign_in(gate.broker, gate.options, "bob", groups=("sales",))
        cookie = {"cookie": bob.cookie("app.example.com")}
        page = await gate.send(URL, headers={**NAVIGATION, **cookie})
        script = await gate.send(URL, headers={**SCRIPT, **cookie})
        assert gate.canary.connections == 0
    assert page.status == script.status == 403
    assert b"none of your groups is listed" in page.body
    assert b"You are signed in as bob@example.com." in page.body
    assert b"finance" not in page.body
    assert b"https://auth.example.com/.gate/" in page.body
    assert script.json["error"] == "Forbidden"


async def test_a_host_that_no_route_has_is_404(tmp_path: Path) -> None:
    async with proxied(tmp_path, ANYONE) as gate:
        assert (await gate.send("https://other.example.com/")).status == 404


@pytest.mark.parametrize(
    ("route", "origin", "is_readable"),
    [
        (ANYONE, "https://app.example.com", True),
        (ANYONE, "http://app.example.com", False),
        (ANYONE, "https://evil.example", False),
        (ANYONE, "null", False),
        ({**ANYONE, "cors_allow_preflight": True}, "https://evil.example", True),
    ],
)
async def test_script_reads_its_401_only_from_known_origins(route: dict, origin: str, is_readable: bool, tmp_path: Path) -> None:
    async with proxied(tmp_path, route) as gate:
        answer = await gate.send(URL, headers={**SCRIPT, "origin": origin})
    assert answer.status == 401
    assert answer.values("access-control-allow-origin") == ([origin] if is_readable else [])


async def test_a_redirect_route_redirects_without_sign_in(tmp_path: Path) -> None:
    route = {"redirect": {"host_redirect": "new.example.com", "response_code": 308}}
    async with proxied(tmp_path, route) as gate:
        answer = await gate.send(URL)
    assert (answer.status, answer.header("location")) == (308, "https://new.example.com/page?q=1")
    assert answer.values("strict-transport-security") != []


async def test_websocket_is_refused_where_the_route_disables_it(tmp_path: Path) -> None:
    async with proxied(tmp_path, PUBLIC) as gate:
        answer = await gate.send(URL, headers={"connection": "upgrade", "upgrade": "websocket"})
        assert gate.canary.connections == 0
    assert answer.status == 403


async def test_another_upgrade_is_an_ordinary_request(tmp_path: Path) -> None:
    async with proxied(tmp_path, PUBLIC) as gate:
        headers = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABkAAQAAP__"}
        assert (await gate.send(URL, headers=headers)).status == 200
        (received,) = gate.canary.requests
    assert b"upgrade" not in received.head.lower()
    assert b"http2-settings" not in received.head.lower()


async def test_an_upstream_that_is_not_there_is_502(tmp_path: Path) -> None:
    async with proxied(tmp_path, {**PUBLIC, "to": "http://127.0.0.1:9"}) as gate:
        answer = await gate.send(URL, headers=NAVIGATION)
    assert answer.status == 502
    assert b"127.0.0.1" not in answer.body


async def test_upstream_reachable_by_envoy_only_is_not_contacted_by_gate(tmp_path: Path) -> None:
    """Requests come to gate's own plane while Envoy has no control connection, which would know how to end them."""
    async with proxied(tmp_path, {**PUBLIC, "upstream_http2": True}, data_plane="envoy") as gate:
        answer = await gate.send(URL)
        assert gate.canary.connections == 0
    assert answer.status == 503


async def test_an_upstream_that_does_not_answer_in_time_is_504(tmp_path: Path) -> None:
    async def silent(conversation: Exchange) -> None:
        await conversation.request()
        await conversation.ended()

    async with proxied(tmp_path, {**PUBLIC, "timeout": "40ms"}, canary=RawUpstream(script=silent)) as gate:
        assert (await asyncio.wait_for(gate.send(URL), PATIENCE)).status == 504


async def test_an_ended_session_is_refused_at_its_next_request(tmp_path: Path) -> None:
    async with proxied(tmp_path, ANYONE) as gate:
        ann = await sign_in(gate.broker, gate.options)
        headers = {"cookie": ann.cookie("app.example.com")}
        assert (await gate.send(URL, headers=headers)).status == 200
        await gate.broker.delete("session", ann.session.id)
        assert (await gate.send(URL, headers=headers)).status == 401


async def test_a_cookie_of_another_host_is_worth_nothing(tmp_path: Path) -> None:
    other = {"from": "https://other.example.com", **ANYONE}
    async with proxied(tmp_path, ANYONE, other) as gate:
        ann = await sign_in(gate.broker, gate.options)
        assert (await gate.send(URL, headers={"cookie": ann.cookie("other.example.com")})).status == 401
        assert (await gate.send(URL, headers={"cookie": ann.cookie("app.example.com:8443")})).status == 401


async def test_each_request_is_one_line_in_the_log_without_its_query(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "gate.access")
    async with proxied(tmp_path, ANYONE) as gate:
        ann = await sign_in(gate.broker, gate.options)
        capsys.readouterr()
        await gate.send("https://app.example.com/page?token=s3cret", headers={"cookie": ann.cookie("app.example.com")})
        output = capsys.readouterr().out
    line = json.loads(output)
    expected = {"event": "request", "method": "GET", "host": "app.example.com", "path": "/page", "status": 200, "level": "info"}
    assert expected.items() <= line.items()
    assert (line["user_id"], line["outcome"], line["reason"]) == ("oidc/ann", "allowed", Reason.SIGNED_IN.value)
    assert "s3cret" not in output
    assert ann.cookie("app.example.com") not in output


async def test_trouble_is_a_warning_that_names_the_problem(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.WARNING, "gate.access")
    async with proxied(tmp_path, {**PUBLIC, "to": "http://127.0.0.1:9"}) as gate:
        capsys.readouterr()
        await gate.send(URL)
        await gate.send("https://unknown.example.com/")
        (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["status"], line["level"]) == (502, "warning")
    assert line["problem"].startswith("upstream 127.0.0.1:9 refused the connection")


async def test_client_disconnect_before_refusal_is_no_internal_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    async def gone(message: dict) -> None:
        raise ConnectionResetError

    caplog.set_level(logging.INFO, "gate.access")
    async with proxied(tmp_path, ANYONE) as gate:
        capsys.readouterr()
        with pytest.raises(ConnectionError):
            await gate.plane(incoming_from(URL), chunked_receive(), gone)
        assert json.loads(capsys.readouterr().out)["status"] == CLIENT_CLOSED


async def test_undelivered_refusal_is_recorded_as_refusal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    async def gone(message: dict) -> None:
        raise ConnectionResetError

    caplog.set_level(logging.INFO, "gate.access")
    async with proxied(tmp_path, {**PUBLIC, "to": "http://127.0.0.1:9"}) as gate:
        capsys.readouterr()
        with pytest.raises(ConnectionError):
            await gate.plane(incoming_from(URL), chunked_receive(), gone)
        line = json.loads(capsys.readouterr().out)
    assert (line["status"], "problem" in line) == (502, True)


async def test_a_post_streams_its_body(tmp_path: Path) -> None:
    async with proxied(tmp_path, PUBLIC) as gate:
        answer = await gate.send(URL, b"one", b"two", method="POST", headers={"transfer-encoding": "chunked"})
        (received,) = gate.canary.requests
    assert (answer.status, received.body) == (200, b"onetwo")


async def test_a_stream_ends_with_its_session(tmp_path: Path) -> None:
    async def endless(conversation: Exchange) -> None:
        await conversation.request()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await conversation.ended()

    async with proxied(tmp_path, ANYONE, canary=RawUpstream(script=endless)) as gate:
        ann = await sign_in(gate.broker, gate.options)
        answer = Recorded()
        incoming = incoming_from(URL, headers={"cookie": ann.cookie("app.example.com")})
        forwarding = asyncio.ensure_future(gate.plane(incoming, chunked_receive(), answer.send))
        await asyncio.wait_for(answer.has_body.wait(), PATIENCE)
        gate.streams.on_change(RecordChange(9, "session", ann.session.id, None))
        await asyncio.wait_for(forwarding, PATIENCE)
    assert answer.was_aborted
    assert not answer.ended


@pytest.mark.parametrize("expires_by_time", [True, False])
async def test_a_stream_that_time_may_end_is_known_as_one(expires_by_time: bool, tmp_path: Path) -> None:
    criterion = {"time_of_day": {"before": "24:00"}} if expires_by_time else {"http_method": "GET"}
    async with proxied(tmp_path, {"policy": [{"allow": criterion}]}) as gate:
        opened, gate.streams.open = [], lambda *arguments, **more: opened.append(more) or OpenStreams.open(gate.streams, *arguments, **more)
        assert (await gate.send(URL)).status == 200
    assert opened == [{"expires_by_time": expires_by_time, "needs_provider": False, "expires_at": math.inf}]


async def test_a_stream_of_a_token_is_known_as_one_that_time_and_the_provider_may_end(tmp_path: Path) -> None:
    async with proxied(tmp_path, ANYONE) as gate:
        by_token, by_session = (
            open_stream(
                gate.streams,
                RequestDecision(incoming_from(URL), AuthorizationResult(NO_ROUTE, user(session_id=id), valid_until=7.0), 0.0, 0),
            )
            for id in ("bearer/1", "s1")
        )
    assert (by_token.expires_at, by_session.expires_at) == (7.0, 7.0)
    assert (by_token.expires_by_time, by_token.needs_provider) == (True, True)
    assert (by_session.expires_by_time, by_session.needs_provider) == (False, False)


@pytest.mark.parametrize(("client_id", "session_id"), [("gate", "s1"), ("ticket-agent", ""), ("", "")])
async def test_a_stream_of_the_command_line_continues_with_its_session(client_id: str, session_id: str, tmp_path: Path) -> None:
    async with proxied(tmp_path, ANYONE) as gate:
        identity = user(session_id="s1", client_id=client_id)
        authorization = AuthorizationResult(NO_ROUTE, identity, valid_until=7.0)
        stream = open_stream(gate.streams, RequestDecision(incoming_from(URL), authorization, 0.0, 0))
    assert stream.incoming.request.stream_session_id == session_id
    assert (stream.session_id, stream.expires_by_time) == ("s1", bool(client_id))


async def test_request_with_session_ending_before_response_is_401(tmp_path: Path) -> None:
    received = asyncio.Event()

    async def silent(conversation: Exchange) -> None:
        await conversation.request()
        received.set()
        await conversation.ended()

    async with proxied(tmp_path, ANYONE, canary=RawUpstream(script=silent)) as gate:
        ann = await sign_in(gate.broker, gate.options)
        pending = asyncio.ensure_future(gate.send(URL, headers={"cookie": ann.cookie("app.example.com")}))
        await asyncio.wait_for(received.wait(), PATIENCE)
        gate.streams.on_change(RecordChange(9, "session", ann.session.id, None))
        assert (await asyncio.wait_for(pending, PATIENCE)).status == 401


class Recorded(Answer):
    def __init__(self) -> None:
        super().__init__()
        self.has_body = asyncio.Event()
        self.was_aborted = False

    async def send(self, message: dict) -> None:
        if message["type"] == "gate.response.abort":
            self.was_aborted = True
            return
        await super().send(message)
        if message.get("body"):
            self.has_body.set()


async def test_a_session_is_seen_where_it_was_let_in(tmp_path: Path) -> None:
    async with proxied(tmp_path, {"allowed_users": ["ann@example.com"]}) as gate:
        ann, bob = await sign_in(gate.broker, gate.options), await sign_in(gate.broker, gate.options, "bob")
        for user in (ann, bob):
            await gate.send(URL, headers={"cookie": user.cookie("app.example.com")})
    assert [(session_id, host) for session_id, _, host in gate.seen] == [(ann.session.id, "app.example.com")]


TUNNEL = {"from": "tcp+https://db.example.com:5432", "allow_public_unauthenticated_access": True, "name": "counted tunnel"}


def tunnel_request(**extensions):
    incoming = incoming_from("https://db.example.com:5432/", method="CONNECT")
    incoming.scope["extensions"] = extensions
    return incoming


async def test_tunnel_and_its_bytes_are_counted(tmp_path):
    async def serve(reader, writer):
        writer.write(b"banner")
        await reader.read()
        writer.close()

    class Client(Recorder):
        def write_eof(self):
            self.ends.append("eof")
            side.eof_received()

    def take_over(headers, taken):
        nonlocal side
        side = taken
        return client, b"sent ahead"

    side, client = None, Client()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        to = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with proxied(tmp_path, {**TUNNEL, "to": to}) as proxy:
            tunnel_scope = tunnel_request(**{"gate.tunnel": {"take_over": take_over, "half_closes": True}})
            resources = asyncio.ensure_future(proxy.plane(tunnel_scope, chunked_receive(), Answer().send))
            async with asyncio.timeout(10):
                while client.written != b"banner":
                    await asyncio.sleep(0.01)
                assert sample("gate_tunnels", route="counted tunnel") == 1
                side.eof_received()
                await resources
    assert sample("gate_tunnels", route="counted tunnel") == 0
    assert [sample("gate_tunnel_bytes_total", route="counted tunnel", direction=way) for way in ("up", "down")] == [10, 6]


async def test_one_session_has_only_so_many_tunnels(tmp_path, monkeypatch):
    monkeypatch.setattr("proxy.planes.embedded.MAX_TUNNELS_PER_CLIENT", 0)
    async with proxied(tmp_path, {**TUNNEL, "to": "tcp://127.0.0.1:9"}) as proxy:
        answer = Answer()
        await proxy.plane(tunnel_request(**{"gate.tunnel": {"take_over": None, "half_closes": True}}), chunked_receive(), answer.send)
        assert (answer.status, b"Too many tunnels" in answer.body) == (429, True)


async def test_a_server_that_can_not_hand_a_connection_over_opens_no_tunnel(tmp_path):
    async with proxied(tmp_path, {**TUNNEL, "to": "tcp://127.0.0.1:9"}) as proxy:
        answer = Answer()
        await proxy.plane(tunnel_request(), chunked_receive(), answer.send)
        assert answer.status == 501


def sample(name, **labels):
    return metrics.registry.get_sample_value(name, labels)


async def test_stream_with_unsendable_identity_ends(tmp_path: Path) -> None:
    wants = {**ANYONE, "set_request_headers": {"Authorization": "Key ${claim.key}"}}
    async with proxied(tmp_path, wants) as gate:
        ann = await sign_in(gate.broker, gate.options)
        headers = {**NAVIGATION, "cookie": ann.cookie("app.example.com")}
        assert not await gate.plane.reauthorize(incoming_from(URL, headers=headers))
        page = await gate.send(URL, headers=headers)
    assert page.status == 403
    assert b"claim.key" in page.body
    assert gate.canary.connections == 0
