"""TCP through the running product: CONNECT by raw bytes over TLS, over both data planes and under the stock `daphne`."""

import contextlib
import fcntl
import resource
import signal
import socket
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.asgi_servers import TLS_ELSEWHERE
from tests.support.certs import certificate_files
from tests.support.children import clean_environment, is_open, wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import python
from tests.support.gate import GateBuilder, RunningGate, sign_out
from tests.support.raw_http import Broken, RawClient
from tests.support.raw_http2 import RawHttp2Client
from tests.support.tunnels import TunnelClient, obtain_token
from tests.support.upstream import TcpUpstream

BIG = bytes(range(256)) * 4096  # 1 MiB
OPEN, PEOPLE, APP = "open.localhost", "db.localhost", "app.localhost"
ECHO_PORT, SILENT_PORT, DEAD_PORT, TIMED_PORT, SHORT_PORT = 7, 5432, 9, 1234, 1235


@dataclass
class Stage:
    gate: RunningGate
    echo: TcpUpstream
    held: TcpUpstream

    def connect(self, host: str = OPEN) -> TunnelClient:
        return TunnelClient(self.gate.port, host)

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.gate.child.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def logged(self, **fields: object) -> dict:
        return self.gate.wait_for_event("request", lambda entry: fields.items() <= entry.items())


def _unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    all_users = {"allow_public_unauthenticated_access": True}
    with DevelopmentProvider() as provider, TcpUpstream(is_echo=True) as echo, TcpUpstream() as held:
        dead = f"tcp://127.0.0.1:{_unused_port()}"
        builder = GateBuilder(provider.url).setting(groups_claim="groups", data_plane=request.param)
        builder.policy += [
            {"from": f"tcp+https://{OPEN}:{ECHO_PORT}", "to": echo.url, **all_users},
            {"from": f"tcp+https://{OPEN}:{SILENT_PORT}", "to": held.url, **all_users},
            {"from": f"tcp+https://{OPEN}:{DEAD_PORT}", "to": dead, **all_users},
            {"from": f"tcp+https://{OPEN}:{TIMED_PORT}", "to": held.url, "timeout": "300ms", **all_users},
            {"from": f"tcp+https://{OPEN}:{SHORT_PORT}", "to": held.url, "idle_timeout": "300ms", **all_users},
            {"from": f"tcp+https://several.localhost:{ECHO_PORT}", "to": [dead, echo.url], **all_users},
            {"from": f"tcp+https://{PEOPLE}:{SILENT_PORT}", "to": held.url, "allowed_groups": ["engineering"]},
        ]
        builder.route(APP, to="http://127.0.0.1:9", allow_any_authenticated_user=True)
        with builder.start(tmp_path_factory.mktemp("tcp")) as gate:
            yield Stage(gate, echo, held)


def test_bytes_pass_both_ways_and_each_side_ends_its_own_direction(stage: Stage) -> None:
    with stage.connect() as client:
        assert client.open(f"{OPEN}:{SILENT_PORT}") == 200
        with stage.held.accepted() as upstream:
            client.send(b"query")
            assert upstream.recv(100) == b"query"
            client.finish()
            assert upstream.recv(100) == b""
            upstream.sendall(b"a late answer")
            upstream.shutdown(socket.SHUT_WR)
            assert client.ends() == b"a late answer"
    ended = stage.logged(host=f"{OPEN}:{SILENT_PORT}", bytes_received=5)
    assert (ended["method"], ended["status"], ended["bytes_sent"], ended["ending"]) == ("CONNECT", 200, 13, "complete")


def test_client_may_still_send_after_upstream_half_close(stage: Stage) -> None:
    with stage.connect() as client:
        assert client.open(f"{OPEN}:{SILENT_PORT}") == 200
        with stage.held.accepted() as upstream:
            upstream.sendall(b"done")
            upstream.shutdown(socket.SHUT_WR)
            assert client.ends() == b"done"
            client.send(b"and one more thing")
            client.finish()
            assert upstream.recv(100) == b"and one more thing"
            assert upstream.recv(100) == b""


def test_megabytes_pass_completely_in_both_directions_at_once(stage: Stage) -> None:
    with stage.connect() as client:
        assert client.open(f"{OPEN}:{ECHO_PORT}") == 200
        for _ in range(8):
            client.send(BIG)
            assert client.exactly(len(BIG)) == BIG
        client.finish()
        assert client.ends() == b""


def test_early_data_reaches_the_upstream_after_authorization(stage: Stage) -> None:
    with stage.connect() as client:
        ahead = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
        assert client.open(f"{OPEN}:{ECHO_PORT}", ahead=ahead) == 200
        assert client.exactly(len(ahead)) == ahead


def test_a_reader_that_stops_stops_the_writer(stage: Stage) -> None:
    with stage.connect() as client:
        assert client.open(f"{OPEN}:{SILENT_PORT}") == 200
        with stage.held.accepted() as upstream:
            upstream.settimeout(2)
            sent = 0
            with contextlib.suppress(TimeoutError):
                while sent < 64 * len(BIG):
                    sent += upstream.send(BIG)
            assert sent < 32 * len(BIG)
            upstream.settimeout(15)
            upstream.shutdown(socket.SHUT_WR)
            assert len(client.ends()) == sent


def test_bytes_after_client_end_are_dropped(stage: Stage) -> None:
    """RFC 8446 6.1: it is ignored."""
    with stage.connect() as client:
        assert client.open(f"{OPEN}:{SILENT_PORT}") == 200
        with stage.held.accepted() as upstream:
            client.finish()
            assert upstream.recv(100) == b""
            before = stage.resident_bytes()
            for _ in range(96):
                client.socket.sendall(BIG)
            # A client that sends after the server closed may lose the last bytes: a close with unread data sends a reset.
            wait_until(lambda: _unsent(client.socket) == 0, "all of it has arrived")
            upstream.sendall(b"the end")
            upstream.shutdown(socket.SHUT_WR)
            # Behind Envoy it has arrived there, and may not have been read by gate.
            may_be_lost = stage.gate.builder.settings.get("data_plane") == "envoy"
            assert client.ends() in ((b"the end", b"") if may_be_lost else (b"the end",))
            assert stage.resident_bytes() - before < 32 * len(BIG)


@pytest.mark.parametrize(
    ("authority", "lines", "host", "status"),
    [
        (f"{PEOPLE}:{SILENT_PORT}", (), None, 401),
        (f"{PEOPLE}:{SILENT_PORT}", ("Authorization: Gate nonsense",), None, 401),
        (f"{OPEN}:6379", (), None, 404),
        ("127.0.0.1:22", (), None, 404),
        (f"{APP}:443", (), None, 404),
        (f"{OPEN}:{ECHO_PORT}", (), f"{PEOPLE}:{ECHO_PORT}", 400),
        (OPEN, (), None, 400),
        (f"{OPEN}:0", (), None, 400),
        (f"{OPEN}:99999", (), None, 400),
        (f"https://{OPEN}:{ECHO_PORT}/", (), f"{OPEN}:{ECHO_PORT}", 400),
        (f"ann@{OPEN}:{ECHO_PORT}", (), f"{OPEN}:{ECHO_PORT}", 400),
        (f"{OPEN}:{ECHO_PORT}", ("Content-Length: 5",), None, 400),
        (f"{OPEN}:{ECHO_PORT}", ("Transfer-Encoding: chunked",), None, 400),
        (f"{OPEN}:{DEAD_PORT}", (), None, 502),
    ],
)
def test_refusal_ends_connection_and_drops_pipelined_data(
    stage: Stage, authority: str, lines: tuple[str, ...], host: str | None, status: int
) -> None:
    before = stage.echo.count, stage.held.count
    with stage.connect() as client:
        assert client.open(authority, *lines, host=host, ahead=b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n") == status
        rest = client.ends()
        assert b"HTTP/1.1" not in rest
    assert (stage.echo.count, stage.held.count) == before


def test_denial_has_problem_document(stage: Stage) -> None:
    with stage.connect(PEOPLE) as client:
        client.send(f"CONNECT {PEOPLE}:{SILENT_PORT} HTTP/1.1\r\nHost: {PEOPLE}:{SILENT_PORT}\r\n\r\n".encode())
        answer = client.response()
    assert (answer.status, answer.header("www-authenticate")) == (401, f'Gate realm="{PEOPLE}:{SILENT_PORT}"')
    assert f"gate tunnel {PEOPLE}:{SILENT_PORT}" in answer.body.decode()


async def test_a_page_is_none(stage: Stage) -> None:
    async with stage.gate.client() as browser:
        page = await browser.get(stage.gate.url(PEOPLE))
        assert (page.status_code, "serves TCP" in page.text) == (404, True)


def test_an_upstream_that_is_away_is_stood_in_for_by_another(stage: Stage) -> None:
    for _ in range(4):
        with stage.connect("several.localhost") as client:
            assert client.open(f"several.localhost:{ECHO_PORT}") == 200
            assert client.send(b"x").exactly(1) == b"x"


def test_a_timeout_that_was_set_ends_it(stage: Stage) -> None:
    with stage.connect() as client:
        assert client.open(f"{OPEN}:{TIMED_PORT}") == 200
        with stage.held.accepted():
            assert client.breaks_off()
    assert stage.logged(host=f"{OPEN}:{TIMED_PORT}")["ending"] == "timeout"


def test_silence_ends_it(stage: Stage) -> None:
    with stage.connect() as client:
        assert client.open(f"{OPEN}:{SHORT_PORT}") == 200
        with stage.held.accepted(), contextlib.suppress(Broken):
            assert client.ends() == b""
    assert stage.logged(host=f"{OPEN}:{SHORT_PORT}")["ending"] == "idle_timeout"


@pytest.mark.parametrize("header", ["Authorization: Gate", "Authorization: Bearer Gate-", "Proxy-Authorization: Gate"])
async def test_programmatic_access_needs_token_and_policy(stage: Stage, header: str) -> None:
    name, scheme = header.split(" ", 1)
    statuses = {}
    for user in ("alice", "bob"):
        async with stage.gate.client() as browser:
            token = await obtain_token(browser, stage.gate.url(PEOPLE, ""), user)
        with stage.connect(PEOPLE) as client:
            joiner = "" if scheme.endswith("-") else " "
            statuses[user] = client.open(f"{PEOPLE}:{SILENT_PORT}", f"{name} {scheme}{joiner}{token}")
            if statuses[user] == 200:
                stage.held.accepted().close()
                with contextlib.suppress(Broken):
                    client.ends()
        with stage.connect(PEOPLE) as client:
            duplicate = (f"Authorization: Gate {token}", f"Proxy-Authorization: Gate {token}")
            assert client.open(f"{PEOPLE}:{SILENT_PORT}", *duplicate) == 401
        assert token not in stage.gate.child.output
    assert statuses == {"alice": 200, "bob": 403}


@pytest.fixture(params=["embedded", "envoy"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Its own gate, to be changed and stopped."""
    with DevelopmentProvider() as provider, TcpUpstream(is_echo=True) as echo, TcpUpstream() as held:
        builder = GateBuilder(provider.url).setting(groups_claim="groups", data_plane=request.param)
        builder.policy += [
            {"from": f"tcp+https://{PEOPLE}:{ECHO_PORT}", "to": echo.url, "allowed_groups": ["engineering"]},
            {"from": f"tcp+https://{PEOPLE}:{SILENT_PORT}", "to": held.url, "allow_any_authenticated_user": True},
        ]
        with builder.start(tmp_path) as gate:
            yield Stage(gate, echo, held)


async def test_a_tunnel_ends_with_the_session_and_goes_on_with_a_reload_that_leaves_its_route_alone(running: Stage) -> None:
    gate = running.gate
    async with gate.client() as browser:
        token = f"Authorization: Gate {await obtain_token(browser, gate.url(PEOPLE, ''), 'alice')}"
        with running.connect(PEOPLE) as stored, running.connect(PEOPLE) as withdrawn:
            assert stored.open(f"{PEOPLE}:{SILENT_PORT}", token) == withdrawn.open(f"{PEOPLE}:{ECHO_PORT}", token) == 200
            upstream = running.held.accepted()
            gate.builder.policy[0]["allowed_groups"] = ["sales"]
            gate.builder.write(gate.config_file.parent, gate.certificates)
            assert withdrawn.ends() == b""
            upstream.sendall(b"still here")
            assert stored.exactly(10) == b"still here"
            assert running.logged(host=f"{PEOPLE}:{ECHO_PORT}")["ending"] == "access_ended"
            with running.connect(PEOPLE) as again:
                assert again.open(f"{PEOPLE}:{ECHO_PORT}", token) == 403
            await sign_out(browser, gate)
            assert stored.ends() == b""
            upstream.close()
        with running.connect(PEOPLE) as again:
            assert again.open(f"{PEOPLE}:{SILENT_PORT}", token) == 401


async def test_a_stop_lets_tunnels_go_on_for_a_while_and_then_ends_them(running: Stage) -> None:
    gate = running.gate
    async with gate.client() as browser:
        token = f"Authorization: Gate {await obtain_token(browser, gate.url(PEOPLE, ''), 'alice')}"
    with running.connect(PEOPLE) as client:
        assert client.open(f"{PEOPLE}:{ECHO_PORT}", token) == 200
        gate.child.process.send_signal(signal.SIGTERM)
        gate.child.wait_for(lambda: not is_open(gate.port), "gate listens no more")
        assert client.send(b"last words").exactly(10) == b"last words"
        assert client.ends() == b""
    assert running.logged(host=f"{PEOPLE}:{ECHO_PORT}")["ending"] == "shutdown"


def _unsent(sock: socket.socket) -> int:
    """Bytes that the other end has not acknowledged (tcp(7), SIOCOUTQ)."""
    return int.from_bytes(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)), "little")


@pytest.fixture(scope="module")
def alongside_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Envoy reads what comes for a host that has pages, too."""
    all_users = {"allow_public_unauthenticated_access": True}
    with TcpUpstream(is_echo=True) as echo, TcpUpstream() as held:
        builder = GateBuilder("http://127.0.0.1:9").setting(data_plane="envoy")
        builder.route(OPEN, to="http://127.0.0.1:9", **all_users)
        builder.policy += [
            {"from": f"tcp+https://{OPEN}:{ECHO_PORT}", "to": echo.url, **all_users},
            {"from": f"tcp+https://{OPEN}:{SILENT_PORT}", "to": held.url, **all_users},
            {"from": f"tcp+https://{OPEN}:{TIMED_PORT}", "to": held.url, "timeout": "300ms", **all_users},
            {"from": f"tcp+https://{OPEN}:{DEAD_PORT}", "to": f"tcp://127.0.0.1:{_unused_port()}", **all_users},
            {"from": f"tcp+https://{OPEN}:{SHORT_PORT}", "to": held.url, "allow_any_authenticated_user": True},
        ]
        with builder.start(tmp_path_factory.mktemp("beside")) as gate:
            yield Stage(gate, echo, held)


def test_alongside_pages_tunnel_relays_until_both_ends_close(alongside_pages: Stage) -> None:
    with alongside_pages.connect() as client:
        assert client.open(f"{OPEN}:{ECHO_PORT}", ahead=b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n") == 200
        assert client.exactly(35).startswith(b"GET /smuggled")
        client.send(BIG)
        assert client.exactly(len(BIG)) == BIG
    with alongside_pages.connect() as client:
        assert client.open(f"{OPEN}:{SILENT_PORT}") == 200
        with alongside_pages.held.accepted() as upstream:
            upstream.sendall(BIG + b"and no more")
            upstream.close()
            assert client.ends() == BIG + b"and no more"
    for leaves in (TunnelClient.finish, lambda client: client.socket.close()):
        with alongside_pages.connect() as client:
            assert client.open(f"{OPEN}:{SILENT_PORT}") == 200
            with alongside_pages.held.accepted() as upstream:
                client.send(b"the last word")
                leaves(client)
                assert upstream.recv(100) + upstream.recv(100) == b"the last word"
    assert alongside_pages.logged(host=f"{OPEN}:{SILENT_PORT}", bytes_received=13)["ending"] == "client_disconnected"


def test_alongside_pages_tunnel_limits(alongside_pages: Stage) -> None:
    with alongside_pages.connect() as client:
        assert client.open(f"{OPEN}:{TIMED_PORT}") == 200
        with alongside_pages.held.accepted():
            assert client.breaks_off()
    assert alongside_pages.logged(host=f"{OPEN}:{TIMED_PORT}")["ending"] == "timeout"
    before = alongside_pages.echo.count, alongside_pages.held.count
    for port, status in ((DEAD_PORT, 502), (SHORT_PORT, 401), (6379, 404)):
        with alongside_pages.connect() as client:
            assert client.open(f"{OPEN}:{port}", ahead=b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n") == status
            assert b"HTTP/1.1" not in client.ends()
    with alongside_pages.connect() as client:
        ahead = f"GET /smuggled HTTP/1.1\r\nHost: {OPEN}:{alongside_pages.gate.port}\r\n\r\n".encode()
        assert client.open(f"{OPEN}:6379", "Content-Length: 0", ahead=ahead) == 404
        assert b"HTTP/1.1" not in client.ends()
    assert not [entry for entry in alongside_pages.gate.log if entry.get("path") == "/smuggled"]
    certificates = alongside_pages.gate.certificates
    with RawHttp2Client(alongside_pages.gate.port, certificates.client_context(), OPEN) as client:
        answer = client.request("CONNECT", "", f"{OPEN}:{ECHO_PORT}", body=b"ahead")
        assert (answer.status, b"ask by HTTP/1.1" in answer.body) == (501, True)
    assert (alongside_pages.echo.count, alongside_pages.held.count) == before


def test_alongside_pages_identity_headers_of_clients_are_removed(alongside_pages: Stage) -> None:
    """A header with a name of gate's or Envoy's is removed before gate reads it."""
    pretended = ("x-gate-edge-facts: 6.6.6.6:6 6.6.6.6:6 HTTP/1.1 / x", "x-gate-edge-judged: x", "X-Forwarded-For: 6.6.6.6")
    with alongside_pages.connect() as client:
        assert client.open(f"{OPEN}:{ECHO_PORT}", *pretended, "x-envoy-external-address: 6.6.6.6") == 200
        assert client.send(b"12345").exactly(5) == b"12345"
    assert alongside_pages.logged(host=f"{OPEN}:{ECHO_PORT}", bytes_received=5)["client_address"] == "127.0.0.1"


def test_daphne_command_tunnels(tmp_path: Path) -> None:
    with TcpUpstream() as held:
        builder = GateBuilder("http://127.0.0.1:9").setting(data_plane="embedded")
        builder.policy.append({"from": f"tcp+https://{OPEN}:{ECHO_PORT}", "to": held.url, "allow_public_unauthenticated_access": True})
        config = builder.setting(**TLS_ELSEWHERE).write(tmp_path, certificate_files(tmp_path, OPEN))
        arguments = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(builder.port), "gateproject.asgi:application")
        with python(*arguments, environment=clean_environment(GATE_CONFIG=str(config))) as child:
            child.wait_for(lambda: is_open(builder.port), "daphne listens")
            with RawClient(builder.port) as client:
                client.send(f"CONNECT {OPEN}:{ECHO_PORT} HTTP/1.1\r\nHost: {OPEN}:{ECHO_PORT}\r\n\r\n".encode())
                assert client.one_response("HEAD").status == 200
                with held.accepted() as upstream:
                    client.send(b"up").socket.shutdown(socket.SHUT_WR)
                    assert upstream.recv(100) + upstream.recv(100) == b"up"
                    upstream.sendall(b"a late answer")
                    upstream.shutdown(socket.SHUT_WR)
                    assert client.rest() == b"a late answer"
