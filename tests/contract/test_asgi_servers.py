"""One policy on every ASGI server: what our listener lets in, and nothing else, passes on any other one, by HTTP and by websocket."""

import asyncio
import hashlib
import re
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.asgi_servers import AT_A_SOCKET, OTHERS, TLS_ELSEWHERE, daphne
from tests.support.browser import headless_browser
from tests.support.certs import certificate_files
from tests.support.children import clean_environment, free_port, wait_until
from tests.support.cookies import client_cookies
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import manage, python
from tests.support.gate import GateBuilder, RunningGate, sign_in, sign_out
from tests.support.raw_http import WAIT, Broken, RawClient
from tests.support.upstream import RecordingUpstream, SampleUpstream, ThreadedUpstream
from tests.support.websockets import BINARY, CLOSE, TEXT, RawWebSocket, SocketUpstream, handshake

SERVERS = {"our listener": daphne, **OTHERS}
PUBLIC, APP, PATHS, SOCKETS, MEMBERS = "public.localhost", "app.localhost", "paths.localhost", "sockets.localhost", "members.localhost"
STREAMS, BREAKS, AUTHENTICATE = "streams.localhost", "breaks.localhost", "authenticate.localhost"
UPLOADS, DRIPS = "uploads.localhost", "drips.localhost"
PIECE = 64 * 1024
# Policies that read the client address, each at a separate host, and whether they allow a client at 127.0.0.1.
ADDRESSES: dict[str, tuple[dict[str, Any], bool]] = {
    "near": ({"allow": {"source_ip": "127.0.0.0/8"}}, True),
    "everywhere": ({"allow": {"source_ip": ["0.0.0.0/0", "::/0"]}}, True),
    "not-there": ({"allow": {"not": {"source_ip": "198.51.100.0/24"}}}, True),
    "there": ({"allow": {"source_ip": "198.51.100.0/24"}}, False),
    "kept-out": ({"allow": {"http_method": "GET"}, "deny": {"source_ip": "198.51.100.0/24"}}, True),
    "only-there": ({"allow": {"http_method": "GET"}, "deny": {"not": {"source_ip": "198.51.100.0/24"}}}, False),
}
# Claims of a client about its address. gate trusts none of them.
PRETENDED = {
    "nothing": "",
    "an address": "X-Forwarded-For: 198.51.100.7",
    "an address and a port": "X-Forwarded-For: 198.51.100.7:4711",
    "an address in brackets and a port": "X-Forwarded-For: [198.51.100.7]:4711",
    "somebody near": "X-Forwarded-For: 127.0.0.1:4711",
    "several": "X-Forwarded-For: 198.51.100.7:4711, 127.0.0.1",
    "two lines": "X-Forwarded-For: 198.51.100.7:4711\nX-Forwarded-For: 127.0.0.1:9",
    "an address, and a port beside it": "X-Forwarded-For: 198.51.100.7\nX-Forwarded-Port: 4711",
    "other words": "Forwarded: for=198.51.100.7\nX-Real-Ip: 198.51.100.7\nX-Forwarded-Port: 4711",
}


def with_addresses(builder: GateBuilder, to: str) -> GateBuilder:
    for name, (policy, _) in ADDRESSES.items():
        builder.route(f"{name}.localhost", to=to, policy=policy, allow_websockets=True)
    return builder


class TakesUploads(ThreadedUpstream):
    """An upstream that counts what has come of a body as it comes, and answers its SHA-256."""

    def __init__(self) -> None:
        upstream = self
        self.taken = 0

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                upstream.taken, length, digest = 0, 0, hashlib.sha256()
                while line := self.rfile.readline().strip().lower():
                    name, _, value = line.partition(b": ")
                    length = int(value) if name == b"content-length" else length
                for piece in self.sized(length) if length else self.chunked():
                    digest.update(piece)
                    upstream.taken += len(piece)
                report = digest.hexdigest().encode()
                self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(report), report))

            def sized(self, left: int) -> Iterator[bytes]:
                while left and (piece := self.rfile.read1(min(left, PIECE))):
                    left -= len(piece)
                    yield piece

            def chunked(self) -> Iterator[bytes]:
                while size := int(self.rfile.readline(), 16):
                    yield self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()

        super().__init__(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))


class BreaksOff(ThreadedUpstream):
    """An upstream whose every answer ends in the middle of its body."""

    def __init__(self) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while self.rfile.readline().strip():
                    pass
                self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

        super().__init__(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))


@dataclass
class Stage:
    server: str
    gate: RunningGate
    recorder: RecordingUpstream
    sockets: SocketUpstream
    uploads: TakesUploads

    @property
    def is_gate_s(self) -> bool:
        return self.server == "our listener"

    def client(self, host: str) -> RawWebSocket:
        return RawWebSocket(self.gate.port, tls=self.gate.certificates.client_context(), server_name=host)

    def name(self, host: str) -> str:
        return f"{host}:{self.gate.port}"

    def ended_requests(self, status: int) -> int:
        """Requests with this status, whose access ended while they were under way."""
        return sum(
            entry["event"] == "request" and entry.get("ending") == "access_ended" and entry["status"] == status for entry in self.gate.log
        )

    def ask(self, host: str, text: str, body: bytes = b"") -> int | None:
        """The status of the answer, None where the connection just ended.  HOST in the text is the name of the host."""
        self.recorder.received.clear()
        with self.client(host) as client:
            client.send(text.replace("HOST", self.name(host)).replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
            try:
                return client.one_response().status
            except (Broken, OSError):
                return None


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    opened = {"allow_public_unauthenticated_access": True}
    with (
        RecordingUpstream() as recorder,
        SocketUpstream() as sockets,
        SampleUpstream() as sample,
        BreaksOff() as breaks,
        TakesUploads() as uploads,
    ):
        builder = GateBuilder(provider.url).setting(jwt_claims_headers=["email"], **TLS_ELSEWHERE)
        builder.setting(grpc_address=f"127.0.0.1:{free_port()}", grpc_insecure=True)  # by which commands find the sessions
        deny = [{"deny": {"or": [{"http_method": {"in": ["DELETE"]}}]}}]
        builder.route(PUBLIC, to=recorder.url, policy=deny, allow_websockets=True, **opened)
        builder.route(APP, to=recorder.url, allow_any_authenticated_user=True, allow_websockets=True, pass_identity_headers=True)
        builder.route(PATHS, to=recorder.url, path="/users", allowed_users=["alice@example.com"])
        builder.route(PATHS, to=recorder.url, **opened)
        builder.route(SOCKETS, to=sockets.url, allow_websockets=True, **opened)
        builder.route(MEMBERS, to=sockets.url, allow_any_authenticated_user=True, allow_websockets=True)
        builder.route(STREAMS, to=sample.url, **opened)
        builder.route(DRIPS, to=sample.url, allow_any_authenticated_user=True)
        builder.route(UPLOADS, to=uploads.url, **opened)
        builder.route(BREAKS, to=breaks.url, **opened)
        with_addresses(builder, recorder.url)
        with builder.start(tmp_path_factory.mktemp("gate"), SERVERS[request.param]) as gate:
            yield Stage(request.param, gate, recorder, sockets, uploads)
            gate.stop()
            if request.param != "Daphne's own classes":  # which have no word for it
                assert "gate stopped" in gate.child.output
                assert tracebacks(gate) == []


FORGED = """X-Gate-Jwt-Assertion: FORGED
X_Gate_Jwt_Assertion: FORGED
X-Gate-Claim-Email: FORGED@example.com
x-gate.claim-email: FORGED@example.com
X-Forwarded-For: 6.6.6.6
X-Forwarded-Host: FORGED.example
X-Real-Ip: 6.6.6.6
Forwarded: for=6.6.6.6
X-Original-Url: /FORGED
X-Http-Method-Override: DELETE
Impersonate-User: FORGED
X-Envoy-Original-Path: /FORGED
Cookie: _gate=FORGED; mine=1; __Host-_gate=FORGED
Connection: x-request-id, x-forwarded-host"""
UPGRADE = handshake("HOST", "/").decode().partition("\r\n\r\n")[0].replace("\r\n", "\n")
HEADS = {"plain": "GET /x HTTP/1.1\nHost: HOST", "websocket": UPGRADE}


@pytest.mark.parametrize(("kind", "status"), [("plain", 200), ("websocket", 101)])
def test_an_upstream_learns_nothing_that_a_client_pretends(stage: Stage, kind: str, status: int) -> None:
    head = "GET /x HTTP/1.1\nHost: HOST" if kind == "plain" else UPGRADE
    lines = FORGED if kind == "plain" else FORGED.rpartition("\n")[0]
    assert stage.ask(PUBLIC, f"{head}\n{lines}") == status
    (received,) = stage.recorder.received
    seen = received.decode("latin-1")
    assert "FORGED" not in seen
    assert "6.6.6.6" not in seen
    assert "override" not in seen.lower()
    assert "cookie: mine=1\r\n" in seen.lower()
    assert re.search(r"^x-request-id: [0-9a-f]{32}\r$", seen.lower(), re.MULTILINE)
    assert f"x-forwarded-host: {stage.name(PUBLIC)}\r\n" in seen.lower()
    assert ("upgrade: websocket" in seen.lower()) == (status == 101)


# (host, request): none of these reaches an application.
REFUSED = {
    "no session": (APP, "GET / HTTP/1.1\nHost: HOST"),
    "a forged cookie": (APP, "GET / HTTP/1.1\nHost: HOST\nCookie: _gate=FORGED; __Host-_gate=FORGED"),
    "a forged token": (APP, "GET / HTTP/1.1\nHost: HOST\nAuthorization: Gate FORGED"),
    "a forged identity header": (APP, f"GET / HTTP/1.1\nHost: HOST\n{FORGED.partition('Cookie')[0].strip()}"),
    "another host": (PUBLIC, "GET / HTTP/1.1\nHost: unknown.example"),
    "two hosts": (PUBLIC, f"GET / HTTP/1.1\nHost: HOST\nHost: {APP}"),
    "no host": (PUBLIC, "GET / HTTP/1.1"),
    "a host that is none": (PUBLIC, "GET / HTTP/1.1\nHost: HOST x"),
    "a user in the host": (PUBLIC, "GET / HTTP/1.1\nHost: x@HOST"),
    "a URL of another host": (PUBLIC, f"GET https://{APP}/ HTTP/1.1\nHost: HOST"),
    "HTTP/1.0": (PUBLIC, "GET / HTTP/1.0\nHost: HOST"),
    "a tunnel": (PUBLIC, "CONNECT db.example.com:5432 HTTP/1.1\nHost: db.example.com:5432"),
    "TRACE": (PUBLIC, "TRACE / HTTP/1.1\nHost: HOST"),
    "a method that is denied": (PUBLIC, "DELETE / HTTP/1.1\nHost: HOST"),
    "the same in small letters": (PUBLIC, "delete / HTTP/1.1\nHost: HOST"),
    "two framings": (PUBLIC, "POST / HTTP/1.1\nHost: HOST\nContent-Length: 5\nTransfer-Encoding: chunked"),
    "two lengths": (PUBLIC, "POST / HTTP/1.1\nHost: HOST\nContent-Length: 5\nContent-Length: 6"),
    "a root path": (PATHS, "GET /users HTTP/1.1\nHost: HOST\nDaphne-Root-Path: /users"),
    "SPDY": (APP, "POST / HTTP/1.1\nHost: HOST\nConnection: Upgrade\nUpgrade: SPDY/3.1\nContent-Length: 0"),
    **{
        f"an ambiguous path: {path}": (PATHS, f"GET {path} HTTP/1.1\nHost: HOST")
        for path in (
            *("/users", "/%75sers", "//users", "/./users", "/x/../users", "/x/%2e%2e/users", "/x/..%2fusers", "/users;%2Fx", "/users;x"),
            *("/%2Fusers", "/users%00", "/users%0d%0aX-Gate: 1", "/users#x", "/users\\", "/users%3Bx"),
        )
    },
}
REFUSED_WEBSOCKETS = {
    "no session": (APP, ""),
    "a forged cookie": (APP, "Cookie: _gate=FORGED"),
    "a page of another origin": (PUBLIC, "Origin: https://evil.example"),
    "two origins": (PUBLIC, "Origin: https://HOST\nOrigin: https://evil.example"),
    "a route without websockets": (PATHS, ""),
    "an unknown host": (PUBLIC, "unknown.example"),
    "a page of gate": (AUTHENTICATE, ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_denied_request_reaches_no_application(stage: Stage, name: str) -> None:
    host, text = REFUSED[name]
    status = stage.ask(host, text)
    assert stage.recorder.received == []
    assert status is None or status >= 300
    assert status != 500


@pytest.mark.parametrize("name", REFUSED_WEBSOCKETS)
def test_a_websocket_that_is_not_let_in_reaches_no_application(stage: Stage, name: str) -> None:
    host, line = REFUSED_WEBSOCKETS[name]
    text = UPGRADE.replace("HOST", line) if name == "an unknown host" else f"{UPGRADE}\n{line}".strip()
    status = stage.ask(host, text)
    assert stage.recorder.received == []
    assert status is None or status >= 300
    assert status != 500


async def test_identity_headers_only_with_a_live_session(stage: Stage) -> None:
    async with stage.gate.client() as client:
        assert (await sign_in(client, stage.gate.url(APP, "/first"), "alice")).status_code == 200
        cookie = client_cookies(client, APP)
        for head in ("GET /x HTTP/1.1\nHost: HOST", UPGRADE):
            assert stage.ask(APP, f"{head}\nCookie: {cookie}\nX-Gate-Claim-Email: FORGED") in (200, 101)
            (received,) = stage.recorder.received
            seen = received.decode("latin-1").lower()
            assert seen.count("x-gate-claim-email: alice@example.com\r\n") == 1
            assert seen.count("x-gate-jwt-assertion: ") == 1
            assert "forged" not in seen
            assert "_gate=" not in seen
        await sign_out(client, stage.gate)
        for head in ("GET /x HTTP/1.1\nHost: HOST", UPGRADE):
            status = stage.ask(APP, f"{head}\nCookie: {cookie}")
            assert stage.recorder.received == []
            assert status in (302, 401, 403)


async def signs_out(stage: Stage, client: httpx.AsyncClient) -> None:
    await sign_out(client, stage.gate)


async def operator_ends(stage: Stage, client: httpx.AsyncClient) -> None:
    with manage("endsessions", "--all", "-config", stage.gate.config_file) as command:
        assert await asyncio.to_thread(command.ended, 60) == 0, command.output


ENDS = {"by its person": signs_out, "by an operator's command": operator_ends}


@pytest.mark.parametrize("way", ENDS)
async def test_the_end_of_a_session_ends_its_websocket(stage: Stage, way: str) -> None:
    async with stage.gate.client() as client:
        await sign_in(client, stage.gate.url(MEMBERS, "/hold"), "bob")
        with stage.client(MEMBERS) as websocket:
            assert websocket.open(stage.name(MEMBERS), "/polite", f"Cookie: {client_cookies(client, MEMBERS)}").status == 101
            websocket.send_frame(TEXT, b"here")
            assert websocket.frame().payload == b"here"
            before = stage.ended_requests(101)
            await ENDS[way](stage, client)
            close = websocket.frame()
            # Daphne's own websockets close with no code between 1000 and 3000.
            assert (close.opcode, close.close_code) == (CLOSE, 4008 if stage.server == "Daphne's own classes" else 1008)
        stage.gate.child.wait_for(lambda: stage.ended_requests(101) == before + 1, "the log says why it ended")


@pytest.mark.parametrize("way", ENDS)
async def test_the_end_of_a_session_breaks_its_download_off(stage: Stage, way: str) -> None:
    async with stage.gate.client() as client:
        await sign_in(client, stage.gate.url(DRIPS, "/"), "bob")
        with stage.client(DRIPS) as download:
            head = f"GET /drip HTTP/1.1\r\nHost: {stage.name(DRIPS)}\r\nCookie: {client_cookies(client, DRIPS)}\r\n\r\n"
            download.send(head.encode())._until(b"\r\n\r\n")
            assert download.chunk()[:1] == b"."
            before = stage.ended_requests(200)
            await ENDS[way](stage, client)
            stage.gate.child.wait_for(lambda: stage.ended_requests(200) == before + 1, "the log says why it ended")
            download.socket.settimeout(2 if stage.server == "Daphne's own classes" else WAIT)  # there, it never ends
            with pytest.raises((Broken, TimeoutError)) as ended:
                list(iter(download.chunk, b""))
            assert isinstance(ended.value, TimeoutError) == (stage.server == "Daphne's own classes")


TALK = """
const [url, done] = arguments, socket = new WebSocket(url);
const received = [];
socket.onopen = () => { socket.send("grüß dich"); socket.send(new Uint8Array(100000)); };
socket.onmessage = async event => {
  received.push(typeof event.data == "string" ? event.data : event.data.size);
  if (received.length == 2) socket.close(4001, "as you wish");
};
socket.onclose = event => done([received, event.wasClean]);
"""


def test_a_browser_talks_to_its_application(stage: Stage, tmp_path: Path) -> None:
    with headless_browser(tmp_path / "profile", trusted_spki=stage.gate.certificates.spki_hash) as browser:
        browser.open(stage.gate.url(SOCKETS, "/not-here"))
        browser.driver.set_script_timeout(20)
        incoming, was_clean = browser.driver.execute_async_script(TALK, f"wss://{stage.name(SOCKETS)}/polite")
    assert incoming == ["grüß dich", 100_000]
    assert was_clean


@pytest.mark.parametrize("size", [0, 5, 70_000, 900_000])
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_messages_pass_completely_in_both_directions(stage: Stage, opcode: int, size: int) -> None:
    with stage.client(SOCKETS) as client:
        assert client.open(stage.name(SOCKETS), "/polite").status == 101
        payload = b"x" * size
        for _ in range(2):
            client.send_frame(opcode, payload)
        client.send_frame(opcode, b"the end")
        incoming = [client.frame()]
        while incoming[-1].payload != b"the end":
            incoming.append(client.frame())
        # Daphne's own websockets drop what is empty.
        expected = [] if size == 0 and stage.server == "Daphne's own classes" else [payload, payload]
        assert [frame.payload for frame in incoming] == [*expected, b"the end"]
        assert {frame.opcode for frame in incoming} == {opcode}
        client.send_frame(CLOSE, b"\x0f\xa2bye")
        # autobahn, which Daphne uses, answers a Close frame with a different code.
        assert client.frame().close_code == (1000 if stage.server == "Daphne's own classes" else 4002)


def test_a_client_that_stops_reading_stops_the_upstream(stage: Stage) -> None:
    if stage.server == "Daphne's own classes":
        return  # they know no back-pressure, which docs/operations/servers.md says
    upstream = stage.sockets
    upstream.forget()
    with stage.client(SOCKETS) as client:
        assert client.open(stage.name(SOCKETS), "/flood").status == 101
        seen = -1
        for _ in range(200):
            if upstream.sent == seen:
                break
            seen = upstream.sent
            threading.Event().wait(0.1)
        assert upstream.sent == seen > 0
        assert upstream.sent < 64 * 2**20
        while upstream.sent == seen:
            client.exactly(65536)


def test_truncated_upstream_response_is_an_error(stage: Stage) -> None:
    with stage.client(SOCKETS) as client:
        assert client.open(stage.name(SOCKETS), "/breaks-off").status == 101
        assert client.frame().payload == b"last words"
        try:
            assert client.frame().close_code not in (1000, 1001)
        except Broken:
            assert stage.is_gate_s


@pytest.mark.parametrize("path", ["wrong-accept", "no-upgrade", "unasked-subprotocol", "unasked-extension", "not-here", "ok-with-upgrade"])
def test_a_websocket_that_its_application_does_not_open_is_not_open(stage: Stage, path: str) -> None:
    with stage.client(SOCKETS) as client:
        answer = client.open(stage.name(SOCKETS), f"/{path}")
        assert answer.status != 101
        assert answer.status >= 400 or stage.is_gate_s


def test_an_answer_comes_as_it_is_made(stage: Stage) -> None:
    with stage.client(STREAMS) as client:
        client.send(f"GET /drip HTTP/1.1\r\nHost: {stage.name(STREAMS)}\r\n\r\n".encode())
        client._until(b"\r\n\r\n")
        assert [client.chunk()[:1] for _ in range(3)] == [b"."] * 3


def test_a_body_reaches_its_application(stage: Stage) -> None:
    body = b"0123456789" * 20_000
    text = f"POST /x HTTP/1.1\nHost: HOST\nContent-Length: {len(body)}"
    assert stage.ask(PUBLIC, text, body) == 200
    assert stage.recorder.received[0].endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("framing", ["with a length", "in chunks"])
def test_an_upload_reaches_its_application_as_it_is_sent(stage: Stage, framing: str) -> None:
    pieces = [bytes((number,)) * PIECE for number in range(16)]
    is_chunked = framing == "in chunks"
    frame = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {16 * PIECE}"
    stage.uploads.taken = 0
    with stage.client(UPLOADS) as client:
        client.send(f"POST /x HTTP/1.1\r\nHost: {stage.name(UPLOADS)}\r\n{frame}\r\n\r\n".encode())
        for number, piece in enumerate(pieces, 1):
            client.send(b"%x\r\n%b\r\n" % (PIECE, piece) if is_chunked else piece)
            if stage.server != "Daphne's own classes":  # which hand a body over after its last byte
                wait_until(lambda number=number: stage.uploads.taken == number * PIECE, f"piece {number} is at the application")  # type: ignore[misc]
        client.send(b"0\r\n\r\n" if is_chunked else b"")
        answer = client.response()
    assert (answer.status, answer.body.decode()) == (200, hashlib.sha256(b"".join(pieces)).hexdigest())
    assert stage.uploads.taken == 2**20


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("report", PRETENDED)
def test_an_address_is_the_connections_or_unknown(stage: Stage, report: str, kind: str) -> None:
    line = PRETENDED[report]
    # uvicorn has put the client's word in the place of the address; and a word that could be where the address is from leaves none.
    is_unknown = (stage.server == "uvicorn" and "X-Forwarded-For" in line) or (not stage.is_gate_s and "127.0.0.1:" in line)
    let_in = set()
    for name in ADDRESSES:
        status = stage.ask(f"{name}.localhost", f"{HEADS[kind]}\n{line}".strip())
        assert bool(stage.recorder.received) == (status in (200, 101))
        let_in |= {name} if stage.recorder.received else set()
    assert let_in == (set() if is_unknown else {name for name, (_, is_let_in) in ADDRESSES.items() if is_let_in})


@pytest.fixture(scope="module", params=AT_A_SOCKET)
def at_a_socket(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, RecordingUpstream, int]]:
    """The name of a unix socket that gate is served at, and what is behind it."""
    directory = tmp_path_factory.mktemp("gate")
    name = str(directory / "socket")
    with RecordingUpstream() as recorder:
        builder = with_addresses(GateBuilder("https://unasked.localhost").setting(**TLS_ELSEWHERE), recorder.url)
        builder.setting(trusted_proxies=["127.0.0.0/8", "198.51.100.0/24"])
        builder.route(PUBLIC, to=recorder.url, allow_public_unauthenticated_access=True, allow_websockets=True)
        path = builder.write(directory, certificate_files(directory, AUTHENTICATE))
        environment = clean_environment(GATE_CONFIG=str(path))
        with python(*AT_A_SOCKET[request.param](name), environment=environment) as child:
            child.wait_for(
                lambda: requested_at(name, recorder, f"GET / HTTP/1.1\nHost: {PUBLIC}:{builder.port}") == 200, "gate answers", 60
            )
            yield name, recorder, builder.port
            assert "Traceback" not in child.output
            child.stop()


def requested_at(name: str, recorder: RecordingUpstream, text: str) -> int | None:
    recorder.received.clear()
    with suppress(OSError, Broken), AtSocket(name) as client:
        client.send(text.strip().replace("\n", "\r\n").encode() + b"\r\n\r\n")
        return client.one_response().status
    return None


class AtSocket(RawClient):
    def __init__(self, name: str):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT)
        self._buffer = b""
        try:
            self.socket.connect(name)
        except OSError:
            self.socket.close()
            raise


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("report", PRETENDED)
def test_a_client_of_a_unix_socket_has_no_address(at_a_socket: tuple[str, RecordingUpstream, int], report: str, kind: str) -> None:
    where, recorder, port = at_a_socket
    let_in = set()
    for name in (*ADDRESSES, "public"):
        status = requested_at(where, recorder, f"{HEADS[kind]}\n{PRETENDED[report]}".replace("HOST", f"{name}.localhost:{port}"))
        assert bool(recorder.received) == (status in (200, 101))
        assert not any(b"198.51.100" in received for received in recorder.received)
        let_in |= {name} if recorder.received else set()
    assert let_in == {"public"}


def test_http2_has_the_same_decisions(stage: Stage) -> None:
    """hypercorn speaks it: a body without a length, a Cookie in pieces, and a Host beside the authority."""
    if stage.server != "hypercorn":
        return
    authority, resolve = stage.gate.certificates.authority, f"{PUBLIC}:{stage.gate.port}:127.0.0.1"
    curl = ["curl", "-sS", "--http2", "--noproxy", "*", "--cacert", str(authority), "--resolve", resolve, "-o", "/dev/null"]
    url = stage.gate.url(PUBLIC, "/x")

    def ask(*more: str, data: bytes | None = None) -> str:
        stage.recorder.received.clear()
        command = [*curl, "-w", "%{http_version} %{http_code}", *more, url]
        return subprocess.run(command, input=data, capture_output=True, timeout=20, check=True).stdout.decode()

    assert ask("-H", "Cookie: _gate=FORGED; mine=1", "-H", "X-Gate-Jwt-Assertion: FORGED") == "2 200"
    assert b"FORGED" not in stage.recorder.received[0]
    assert b"cookie: mine=1\r\n" in stage.recorder.received[0].lower()
    assert ask("-X", "DELETE") == "2 403"
    assert stage.recorder.received == []
    assert ask("-T", "-", data=b"of no length") == "2 200"
    assert b"transfer-encoding: chunked\r\n" in stage.recorder.received[0]
    curl[curl.index("--resolve") + 1] = resolve.replace(PUBLIC, BREAKS)
    assert subprocess.run([*curl, stage.gate.url(BREAKS, "/x")], capture_output=True, timeout=20).returncode == 18


def test_a_broken_answer_does_not_look_finished(stage: Stage) -> None:
    with stage.client(BREAKS) as client:
        client.send(f"GET / HTTP/1.1\r\nHost: {stage.name(BREAKS)}\r\n\r\n".encode())
        client.socket.settimeout(2)  # with Daphne's own classes it never ends
        with pytest.raises((Broken, TimeoutError)):
            client.response()


def tracebacks(gate: RunningGate) -> list[str]:
    """Lines from each Traceback on, so many that its error is among them."""
    lines = [line for line in gate.child.lines if not is_hypercorns_own(line)]
    return [line[-2000:] for at, line in enumerate(lines) if any("Traceback" in each for each in lines[max(at - 40, 0) : at + 1])]


def is_hypercorns_own(line: str) -> bool:
    """Whether the line reports a body chunk that arrived just as its stream ended, which Hypercorn 0.18 does not handle (over HTTP/2)."""
    return "Traceback" in line and "hypercorn/protocol/h2.py" in line and re.search(r"KeyError: \d+\W", line) is not None


def test_missing_feature_is_logged_once(stage: Stage) -> None:
    lines = [line for line in stage.gate.log if "third-party ASGI server" in line["event"]]
    assert len(lines) == (not stage.is_gate_s)
    assert tracebacks(stage.gate) == []


@pytest.mark.parametrize("path", ["/ping", "/.gate/"])
def test_gate_pages_are_served(stage: Stage, path: str) -> None:
    with RawClient(stage.gate.port, tls=stage.gate.certificates.client_context(), server_name=AUTHENTICATE) as client:
        client.send(f"GET {path} HTTP/1.1\r\nHost: {stage.name(AUTHENTICATE)}\r\nAccept: text/html\r\n\r\n".encode())
        assert client.response().status == (302 if path == "/.gate/" else 200)
