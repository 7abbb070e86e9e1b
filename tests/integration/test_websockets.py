"""Websockets through the running product, by raw bytes and by aiohttp's client: under `rungate` with TLS, and under the stock `daphne`."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web

from tests.support.asgi_servers import TLS_ELSEWHERE
from tests.support.certs import CertificateFiles, certificate_files
from tests.support.children import Child, clean_environment, is_open, wait_until
from tests.support.cookies import client_cookies
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import python
from tests.support.gate import GateBuilder, RunningGate, sign_in, sign_out
from tests.support.raw_http import Broken, RawResponse
from tests.support.websockets import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    RawWebSocket,
    SocketUpstream,
    ended,
    from_client,
)

HOST, FLAGLESS, TIMED, STRICT, LIBRARY = "ws.localhost", "flagless.localhost", "timed.localhost", "strict.localhost", "library.localhost"
MEMBERS = "members.localhost"
BIG = b"0123456789abcdef" * 65536  # 1 MiB


class LibraryUpstream:
    """aiohttp's own websockets, in a thread: echo, subprotocol `chat`, compression where it is offered."""

    def __enter__(self) -> "LibraryUpstream":
        ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _run(self, ready: threading.Event) -> None:
        app = web.Application()
        app.router.add_get("/", self._echo)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.run_until_complete(asyncio.sleep(0.05))  # closed transports say so one turn later

    async def _echo(self, request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse(protocols=("chat",), max_msg_size=2**25)
        await response.prepare(request)
        async for message in response:
            if message.type is aiohttp.WSMsgType.TEXT and message.data == "close":
                await response.close(code=4001, message=b"as you wish")
            elif message.type is aiohttp.WSMsgType.TEXT:
                await response.send_str(message.data)
            else:
                await response.send_bytes(message.data)
        return response


@dataclass
class Server:
    """gate, run one way or the other."""

    builder: GateBuilder
    upstream: SocketUpstream
    child: Child
    certificates: CertificateFiles | None

    def connect(self, host: str = HOST) -> RawWebSocket:
        tls = self.certificates.client_context() if self.certificates else None
        return RawWebSocket(self.builder.port, tls=tls, server_name=host if tls else None)

    def name(self, host: str) -> str:
        return f"{host}:{self.builder.port}"

    @contextmanager
    def opened(self, path: str, host: str = HOST, *lines: str) -> Iterator[RawWebSocket]:
        with self.connect(host) as client:
            assert client.open(self.name(host), path, *lines).status == 101
            yield client

    def refused(self, *lines: str, host: str = HOST, path: str = "/hold", **changed: str) -> RawResponse:
        """The response to a handshake that must not reach the upstream, and after which the connection ends."""
        received = len(self.upstream.heads)
        with self.connect(host) as client:
            sent = client.open(self.name(host), path, *lines, ahead=b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", **changed)
            assert ended(client)
        assert len(self.upstream.heads) == received
        return sent

    def ended_with(self, ending: str, **fields: object) -> dict:
        """The log line of a websocket that ended so."""
        wanted = {"event": "request", "ending": ending, **fields}.items()

        def found() -> list[dict]:
            return [event for event in self.child.events if wanted <= event.items()]

        self.child.wait_for(lambda: bool(found()), f"a log line with {dict(wanted)}")
        return found()[-1]

    @asynccontextmanager
    async def library_client(self, **options) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        url = f"{'wss' if self.certificates else 'ws'}://127.0.0.1:{self.builder.port}/"
        headers = {"Host": self.name(LIBRARY)}
        options |= {"headers": headers, "ssl": False, "max_msg_size": 2**25}
        async with aiohttp.ClientSession() as session, session.ws_connect(url, **options) as websocket:
            yield websocket
        await asyncio.sleep(0.05)  # aiohttp's TLS connections end only after the session has


@pytest.fixture(scope="module")
def upstream() -> Iterator[SocketUpstream]:
    with SocketUpstream() as running:
        yield running


@pytest.fixture(scope="module")
def library() -> Iterator[LibraryUpstream]:
    with LibraryUpstream() as running:
        yield running


@pytest.fixture(scope="module", params=["rungate", "daphne"])
def server(
    request: pytest.FixtureRequest, upstream: SocketUpstream, library: LibraryUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    opened = {"allow_public_unauthenticated_access": True, "allow_websockets": True}
    builder = GateBuilder("http://127.0.0.1:9")
    builder.route(HOST, to=upstream.url, **opened)
    builder.route(LIBRARY, to=library.url, **opened)
    builder.route(FLAGLESS, to=upstream.url, allow_public_unauthenticated_access=True)
    builder.route(TIMED, to=upstream.url, timeout="300ms", **opened)
    builder.route(STRICT, to=upstream.url, websocket_origins=["https://friend.example", "capacitor://localhost"], **opened)
    builder.route(MEMBERS, to=upstream.url, allow_any_authenticated_user=True, allow_websockets=True)
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "rungate":
        with builder.start(directory) as running:
            yield Server(builder, upstream, running.child, running.certificates)
        return
    config = builder.setting(**TLS_ELSEWHERE).write(directory, certificate_files(directory, HOST))
    arguments = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(builder.port), "gateproject.asgi:application")
    with python(*arguments, environment=clean_environment(GATE_CONFIG=str(config))) as child:
        child.wait_for(lambda: is_open(builder.port), "daphne listens")
        yield Server(builder, upstream, child, None)


async def test_text_binary_close_codes_and_subprotocols(server: Server) -> None:
    async with server.library_client(protocols=("other", "chat")) as websocket:
        assert websocket.protocol == "chat"
        await websocket.send_str("grüß dich")
        assert await websocket.receive_str() == "grüß dich"
        await websocket.send_bytes(b"\0\xff")
        assert await websocket.receive_bytes() == b"\0\xff"
        await websocket.send_str("close")
        closing = await websocket.receive()
        assert (closing.data, closing.extra, websocket.close_code) == (4001, "as you wish", 4001)
    server.ended_with("complete")


@pytest.mark.parametrize("compress", [0, 15])
async def test_mebibyte_is_unchanged_with_and_without_compression(server: Server, compress: int) -> None:
    async with server.library_client(compress=compress) as websocket:
        assert websocket.compress == compress
        await websocket.send_bytes(BIG)
        assert await websocket.receive_bytes() == BIG
        assert await websocket.close()


def test_ping_pong_and_fragments_pass_as_they_are(server: Server) -> None:
    with server.opened("/polite") as client:
        client.send_frame(PING, b"are you there")
        assert (client.frame().payload) == b"are you there"
        client.send_frame(TEXT, b"two ", is_final=False)
        client.send_frame(PONG, b"between")
        client.send_frame(CONTINUATION, b"parts")
        frames = [client.frame() for _ in range(3)]
        assert [(frame.opcode, frame.payload) for frame in frames] == [(TEXT, b"two "), (PONG, b"between"), (CONTINUATION, b"parts")]
        client.send_frame(CLOSE, b"\x0f\xa2bye")
        assert client.frame().close_code == 4002
        assert ended(client)
    line = server.ended_with("complete", path="/polite", status=101)
    assert line["bytes_received"] > 40
    assert line["bytes_sent"] > 30


def test_data_sent_with_handshake_reaches_the_upstream_after_its_101(server: Server) -> None:
    with server.connect() as client:
        assert client.open(server.name(HOST), "/polite", ahead=from_client(TEXT, b"early")).status == 101
        assert client.frame().payload == b"early"


def test_bytes_after_101_are_relayed(server: Server) -> None:
    with server.opened("/speaks-first") as client:
        assert client.frame().payload == b"first"


def test_handshake_is_forwarded_unchanged(server: Server, upstream: SocketUpstream) -> None:
    with server.opened("/hold?a=1", HOST, "Sec-WebSocket-Protocol: a, b", "Sec-WebSocket-Extensions: x-one; y", "Cookie: _gate=z; own=1"):
        head = upstream.heads[-1].lower()
    for line in (b"upgrade: websocket", b"connection: upgrade", b"sec-websocket-protocol: a, b", b"sec-websocket-extensions: x-one; y"):
        assert head.count(b"\r\n" + line + b"\r\n") == 1
    assert head.startswith(b"get /hold?a=1 http/1.1\r\n")
    assert b"cookie: own=1\r\n" in head
    assert b"_gate" not in head


def test_the_101_is_cleaned_like_any_answer(server: Server) -> None:
    with server.connect() as client:
        answer = client.open(server.name(HOST), "/cookie")
    assert (answer.status, answer.header("x-own"), answer.header("x-content-type-options")) == (101, "yes", "nosniff")
    assert [value for name, value in answer.headers if name.lower() == "set-cookie"] == ["own=1"]
    assert answer.header("content-length") is None


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"sec_websocket_version": "99"}, 426),
        ({"leave_out": "sec-websocket-version"}, 426),
        ({"leave_out": "sec-websocket-key"}, 400),
        ({"sec_websocket_key": "short"}, 400),
        ({"upgrade": "websocket, h2c"}, 400),
        ({"origin": "https://evil.example"}, 403),
        ({"host": FLAGLESS}, 403),
        ({"host": MEMBERS}, 401),
        *(({"host": STRICT, "origin": origin}, 403) for origin in ("https://enemy.example", "capacitor://other", "null", "file://")),
    ],
)
def test_refused_handshake_closes_the_connection(server: Server, changed: dict[str, str], status: int) -> None:
    answer = server.refused(**changed)
    assert answer.status == status
    assert answer.announces_close
    assert (answer.header("sec-websocket-version") == "13") == (status == 426)


def test_a_post_is_no_handshake(server: Server) -> None:
    with server.connect() as client:
        client.send(f"POST / HTTP/1.1\r\nHost: {server.name(HOST)}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
        assert client.response().status == 400


@pytest.mark.parametrize("host", [HOST, STRICT])
def test_the_hosts_own_pages_may_open_it(server: Server, host: str) -> None:
    with server.opened("/hold", host, f"Origin: https://{server.name(host)}"):
        pass


@pytest.mark.parametrize("origin", ["https://friend.example", "capacitor://localhost"])
def test_pages_of_a_listed_origin_may_open_it(server: Server, origin: str) -> None:
    with server.opened("/hold", STRICT, f"Origin: {origin}"):
        pass


@pytest.mark.parametrize("path", ["wrong-accept", "no-accept", "no-upgrade", "other-protocol", "unasked-subprotocol", "unasked-extension"])
def test_a_101_that_does_not_fit_is_a_502_and_no_byte_passes(server: Server, upstream: SocketUpstream, path: str) -> None:
    upstream.forget()
    with server.connect() as client:
        assert client.open(server.name(HOST), f"/{path}", ahead=b"GET /smuggled HTTP/1.1\r\n\r\n").status == 502
        assert ended(client)
    assert upstream.received == [b""]


@pytest.mark.parametrize(("path", "status", "body"), [("ok-with-upgrade", 200, b"no"), ("not-here", 404, b"nowhere")])
def test_another_answer_than_101_is_an_ordinary_one_and_opens_nothing(
    server: Server, upstream: SocketUpstream, path: str, status: int, body: bytes
) -> None:
    upstream.forget()
    with server.connect() as client:
        answer = client.open(server.name(HOST), f"/{path}", ahead=b"GET /smuggled HTTP/1.1\r\n\r\n")
        assert (answer.status, answer.body, answer.header("upgrade")) == (status, body, None)
        assert ended(client)
    assert upstream.received == [b""]
    assert len(upstream.heads) == 1


def test_an_unmasked_client_is_closed_with_1002_on_both_sides(server: Server, upstream: SocketUpstream) -> None:
    upstream.forget()
    with server.opened("/hold") as client:
        client.send(from_client(TEXT, b"good") + b"\x81\x02no")
        assert client.frame().close_code == 1002
        wait_until(lambda: len(upstream.frames()) == 2, "the upstream receives it")
    valid, close = upstream.frames()
    assert (valid.payload, close.close_code) == (b"good", 1002)
    server.ended_with("websocket_protocol_error")


@pytest.mark.parametrize(("path", "code"), [("masked", 1002), ("huge", 1009)])
def test_a_forbidden_frame_of_the_upstream_does_not_reach_the_client(server: Server, path: str, code: int) -> None:
    with server.opened(f"/{path}") as client:
        assert client.frame().close_code == code


def test_a_frame_of_a_gibibyte_is_1009_before_it_has_come(server: Server, upstream: SocketUpstream) -> None:
    upstream.forget()
    with server.opened("/hold") as client:
        client.send(b"\x82\xff" + (2**30).to_bytes(8, "big"))
        assert client.frame().close_code == 1009
        wait_until(lambda: bool(upstream.frames()), "the upstream receives it")
    assert [frame.close_code for frame in upstream.frames()] == [1009]


def test_a_client_that_stops_reading_stops_the_upstream(server: Server, upstream: SocketUpstream) -> None:
    upstream.forget()
    with server.opened("/flood") as client:
        seen = -1
        for _ in range(200):
            if upstream.sent == seen:
                break
            seen = upstream.sent
            threading.Event().wait(0.05)
        assert upstream.sent == seen > 0
        assert upstream.sent < 64 * 2**20
        while upstream.sent == seen:
            client.exactly(65536)


def test_an_upstream_that_stops_reading_stops_the_client(server: Server) -> None:
    with server.opened("/sleeps") as client:
        taken = client.offer(from_client(BINARY, b"x" * 65526), 256 * 2**20)
    assert taken < 64 * 2**20


def test_a_set_timeout_closes_with_1001(server: Server) -> None:
    with server.opened("/hold", TIMED) as client:
        assert client.frame().close_code == 1001
    server.ended_with("timeout")


def test_an_upstream_that_never_answers_the_handshake_is_a_504(server: Server) -> None:
    with server.connect(TIMED) as client:
        assert client.open(server.name(TIMED), "/silent").status == 504


def test_an_upstream_that_breaks_off_ends_the_clients_connection(server: Server) -> None:
    with server.opened("/breaks-off") as client:
        assert client.frame().payload == b"last words"
        assert ended(client)
    assert server.ended_with("upstream_reset")["level"] == "warning"


def test_a_client_that_leaves_ends_the_upstreams_connection(server: Server) -> None:
    with server.opened("/hold") as client:
        client.send_frame(TEXT, b"and gone")
    server.ended_with("client_disconnected", bytes_received=len(from_client(TEXT, b"and gone")))


# The rest needs a signed-in user, a changed configuration or a stop, and so a separate `rungate`.


@pytest.fixture
def gate(upstream: SocketUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    with DevelopmentProvider() as provider:
        builder = GateBuilder(provider.url).route(MEMBERS, to=upstream.url, allow_any_authenticated_user=True, allow_websockets=True)
        with builder.start(tmp_path) as running:
            yield running


@contextmanager
def member(gate: RunningGate, cookie: str, path: str) -> Iterator[RawWebSocket]:
    with RawWebSocket(gate.port, tls=gate.certificates.client_context(), server_name=MEMBERS) as client:
        assert client.open(f"{MEMBERS}:{gate.port}", path, f"Cookie: {cookie}").status == 101
        yield client


async def signed_in(gate: RunningGate, client) -> str:
    await sign_in(client, gate.url(MEMBERS, "/not-here"), "alice")
    return client_cookies(client, MEMBERS)


async def test_signing_out_closes_open_websockets_with_1008_on_both_sides(gate: RunningGate, upstream: SocketUpstream) -> None:
    async with gate.client() as browser:
        cookie = await signed_in(gate, browser)
        upstream.forget()
        with member(gate, cookie, "/hold") as idle, member(gate, cookie, "/unfinished") as busy:
            assert busy.exactly(42).endswith(b"a" * 40)
            await sign_out(browser, gate)
            assert idle.frame().close_code == 1008
            # The frame that was passing ends before our Close, and what follows it never passes.
            assert busy.exactly(60) == b"b" * 60
            assert busy.frame().close_code == 1008
    wait_until(lambda: upstream.received[0] != b"", "the upstream receives it")
    assert [frame.close_code for frame in upstream.frames()] == [1008]
    gate.wait_for_event("request", lambda event: event.get("ending") == "access_ended")


async def test_a_policy_that_takes_websockets_away_closes_the_open_ones(gate: RunningGate) -> None:
    async with gate.client() as browser:
        cookie = await signed_in(gate, browser)
        with member(gate, cookie, "/hold") as client:
            config = yaml.safe_load(gate.config_file.read_text())
            config["policy"][0]["allow_websockets"] = False
            gate.config_file.write_text(yaml.safe_dump(config))
            assert client.frame().close_code == 1008


def test_a_websocket_ends_when_its_route_closes_for_the_day(upstream: SocketUpstream, tmp_path: Path) -> None:
    policy = [{"allow": {"time_of_day": {"before": "24:00"}}}]
    builder = GateBuilder("http://127.0.0.1:9").route(MEMBERS, to=upstream.url, allow_websockets=True, policy=policy)
    with builder.start(tmp_path) as running:
        # When it closes is written only now: a start takes as long as the machine lets it.
        now = datetime.now(UTC)
        bounds = {"after": now - timedelta(hours=1), "before": now + timedelta(seconds=8)}
        config = yaml.safe_load(running.config_file.read_text())
        config["policy"][0]["policy"] = [{"allow": {"time_of_day": {name: f"{bound:%H:%M:%S}" for name, bound in bounds.items()}}}]
        running.config_file.write_text(yaml.safe_dump(config))
        running.wait_for_event("configuration reloaded")
        with RawWebSocket(running.port, tls=running.certificates.client_context(), server_name=MEMBERS) as client:
            assert client.open(f"{MEMBERS}:{running.port}", "/hold").status == 101
            client.socket.settimeout(30)
            assert client.frame().close_code == 1008
        running.wait_for_event("stream terminated", lambda event: event["reason"] == "access revoked")
        with RawWebSocket(running.port, tls=running.certificates.client_context(), server_name=MEMBERS) as client:
            assert client.open(f"{MEMBERS}:{running.port}", "/hold").status in (401, 403)


async def test_a_stop_closes_websockets_with_1001_on_both_sides_and_exits_0(gate: RunningGate, upstream: SocketUpstream) -> None:
    async with gate.client() as browser:
        cookie = await signed_in(gate, browser)
    upstream.forget()
    with member(gate, cookie, "/hold") as client:
        gate.child.process.send_signal(signal.SIGTERM)
        assert client.frame().close_code == 1001
        client.send_frame(CLOSE, b"\x03\xe9")
        assert ended(client)
    assert gate.child.ended() == 0
    assert [frame.close_code for frame in upstream.frames()] == [1001]


def test_client_ignoring_close_does_not_delay_shutdown(gate: RunningGate) -> None:
    async def cookie() -> str:
        async with gate.client() as browser:
            return await signed_in(gate, browser)

    with member(gate, asyncio.run(cookie()), "/hold") as client:
        gate.child.process.send_signal(signal.SIGTERM)
        assert client.frame().close_code == 1001
        assert gate.child.ended() == 0
        with pytest.raises((Broken, OSError)):
            client.frame()
