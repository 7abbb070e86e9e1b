"""One policy on every ASGI server: what our listener lets in, and nothing else, passes on any other one, by HTTP and by websocket."""

import re
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tests.support.asgi_servers import OTHERS, TLS_ELSEWHERE, daphne
from tests.support.browser import headless_browser
from tests.support.cookies import of_client
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.raw_http import Broken, RawClient
from tests.support.recording_upstream import RecordingUpstream
from tests.support.sample_upstream import SampleUpstream
from tests.support.websockets import BINARY, CLOSE, TEXT, RawWebSocket, SocketUpstream, handshake

pytestmark = pytest.mark.slow

SERVERS = {"our listener": daphne, **OTHERS}
PUBLIC, APP, PATHS, SOCKETS, MEMBERS = "public.localhost", "app.localhost", "paths.localhost", "sockets.localhost", "members.localhost"
STREAMS, BREAKS, AUTHENTICATE = "streams.localhost", "breaks.localhost", "authenticate.localhost"
HTML = {"Accept": "text/html"}


class BreaksOff:
    """An upstream whose every answer ends in the middle of its body."""

    def __enter__(self) -> Self:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while self.rfile.readline().strip():
                    pass
                self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Stage:
    server: str
    gate: RunningGate
    recorder: RecordingUpstream
    sockets: SocketUpstream

    @property
    def is_ours(self) -> bool:
        return self.server == "our listener"

    def client(self, host: str) -> RawWebSocket:
        return RawWebSocket(self.gate.port, tls=self.gate.certificates.client_context(), server_name=host)

    def name(self, host: str) -> str:
        return f"{host}:{self.gate.port}"

    def ask(self, host: str, text: str, body: bytes = b"") -> int | None:
        """The status of the answer, None where the connection just ended.  HOST in the text is the name of the host."""
        self.recorder.received.clear()
        with self.client(host) as client:
            client.send(text.replace("HOST", self.name(host)).replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
            try:
                return client.one_response().status
            except (Broken, OSError):
                return None


@pytest.fixture(scope="module")
def provider() -> Iterator[DevelopmentProvider]:
    with DevelopmentProvider() as running:
        yield running


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    opened = {"allow_public_unauthenticated_access": True}
    with RecordingUpstream() as recorder, SocketUpstream() as sockets, SampleUpstream() as sample, BreaksOff() as breaks:
        builder = GateBuilder(provider.url).setting(jwt_claims_headers=["email"], **TLS_ELSEWHERE)
        deny = [{"deny": {"or": [{"http_method": {"in": ["DELETE"]}}]}}]
        builder.route(PUBLIC, to=recorder.url, policy=deny, allow_websockets=True, **opened)
        builder.route(APP, to=recorder.url, allow_any_authenticated_user=True, allow_websockets=True, pass_identity_headers=True)
        builder.route(PATHS, to=recorder.url, path="/users", allowed_users=["alice@example.com"])
        builder.route(PATHS, to=recorder.url, **opened)
        builder.route(SOCKETS, to=sockets.url, allow_websockets=True, **opened)
        builder.route(MEMBERS, to=sockets.url, allow_any_authenticated_user=True, allow_websockets=True)
        builder.route(STREAMS, to=sample.url, **opened)
        builder.route(BREAKS, to=breaks.url, **opened)
        with builder.start(tmp_path_factory.mktemp("gate"), SERVERS[request.param]) as gate:
            yield Stage(request.param, gate, recorder, sockets)
            gate.stop()
            if request.param != "Daphne's own classes":  # which have no word for it
                assert "gate has stopped" in gate.child.output
                assert "Traceback" not in gate.child.output


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
KEPT_OUT = {
    "nobody is signed in": (APP, "GET / HTTP/1.1\nHost: HOST"),
    "a forged cookie": (APP, "GET / HTTP/1.1\nHost: HOST\nCookie: _gate=FORGED; __Host-_gate=FORGED"),
    "a forged token": (APP, "GET / HTTP/1.1\nHost: HOST\nAuthorization: Gate FORGED"),
    "an identity that somebody writes": (APP, f"GET / HTTP/1.1\nHost: HOST\n{FORGED.partition('Cookie')[0].strip()}"),
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
        f"a path that somebody reads as another: {path}": (PATHS, f"GET {path} HTTP/1.1\nHost: HOST")
        for path in (
            *("/users", "/%75sers", "//users", "/./users", "/x/../users", "/x/%2e%2e/users", "/x/..%2fusers", "/users;%2Fx", "/users;x"),
            *("/%2Fusers", "/users%00", "/users%0d%0aX-Gate: 1", "/users#x", "/users\\", "/users%3Bx"),
        )
    },
}
WEBSOCKETS_KEPT_OUT = {
    "nobody is signed in": (APP, ""),
    "a forged cookie": (APP, "Cookie: _gate=FORGED"),
    "a page of another origin": (PUBLIC, "Origin: https://evil.example"),
    "two origins": (PUBLIC, "Origin: https://HOST\nOrigin: https://evil.example"),
    "a route without websockets": (PATHS, ""),
    "an unknown host": (PUBLIC, "unknown.example"),
    "a page of ours": (AUTHENTICATE, ""),
}


@pytest.mark.parametrize("name", KEPT_OUT)
def test_what_is_not_let_in_reaches_no_application(stage: Stage, name: str) -> None:
    host, text = KEPT_OUT[name]
    status = stage.ask(host, text)
    assert stage.recorder.received == []
    assert status is None or status >= 300
    assert status != 500


@pytest.mark.parametrize("name", WEBSOCKETS_KEPT_OUT)
def test_a_websocket_that_is_not_let_in_reaches_no_application(stage: Stage, name: str) -> None:
    host, line = WEBSOCKETS_KEPT_OUT[name]
    text = UPGRADE.replace("HOST", line) if name == "an unknown host" else f"{UPGRADE}\n{line}".strip()
    status = stage.ask(host, text)
    assert stage.recorder.received == []
    assert status is None or status >= 300
    assert status != 500


async def test_who_is_signed_in_is_told_to_the_application_and_who_was_is_not(stage: Stage) -> None:
    async with stage.gate.client() as client:
        assert (await sign_in(client, stage.gate.url(APP, "/first"), "alice")).status_code == 200
        cookie = of_client(client, APP)
        for head in ("GET /x HTTP/1.1\nHost: HOST", UPGRADE):
            assert stage.ask(APP, f"{head}\nCookie: {cookie}\nX-Gate-Claim-Email: FORGED") in (200, 101)
            (received,) = stage.recorder.received
            seen = received.decode("latin-1").lower()
            assert seen.count("x-gate-claim-email: alice@example.com\r\n") == 1
            assert seen.count("x-gate-jwt-assertion: ") == 1
            assert "forged" not in seen
            assert "_gate=" not in seen
        page = await client.get(stage.gate.url(AUTHENTICATE, "/.gate/"), headers=HTML)
        (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
        await client.post(stage.gate.url(AUTHENTICATE, "/.gate/signout/"), data={"_gate_csrf": token})
        for head in ("GET /x HTTP/1.1\nHost: HOST", UPGRADE):
            status = stage.ask(APP, f"{head}\nCookie: {cookie}")
            assert stage.recorder.received == []
            assert status in (302, 401, 403)


async def test_the_end_of_a_session_ends_its_websocket(stage: Stage) -> None:
    async with stage.gate.client() as client:
        await sign_in(client, stage.gate.url(MEMBERS, "/hold"), "bob")
        with stage.client(MEMBERS) as websocket:
            assert websocket.open(stage.name(MEMBERS), "/polite", f"Cookie: {of_client(client, MEMBERS)}").status == 101
            websocket.say(TEXT, b"here")
            assert websocket.frame().payload == b"here"
            page = await client.get(stage.gate.url(AUTHENTICATE, "/.gate/"), headers=HTML)
            (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
            await client.post(stage.gate.url(AUTHENTICATE, "/.gate/signout/"), data={"_gate_csrf": token})
            close = websocket.frame()
            # Daphne's own websockets close with no code between 1000 and 3000.
            assert (close.opcode, close.close_code) == (CLOSE, 4008 if stage.server == "Daphne's own classes" else 1008)
        stage.gate.wait_for_event("request", lambda line: line.get("ending") == "access ended" and line["status"] == 101)


TALK = """
const [url, done] = arguments, socket = new WebSocket(url);
const heard = [];
socket.onopen = () => { socket.send("grüß dich"); socket.send(new Uint8Array(100000)); };
socket.onmessage = async event => {
  heard.push(typeof event.data == "string" ? event.data : event.data.size);
  if (heard.length == 2) socket.close(4001, "as you wish");
};
socket.onclose = event => done([heard, event.wasClean]);
"""


@pytest.mark.browser
def test_a_browser_talks_to_its_application(stage: Stage, tmp_path: Path) -> None:
    with headless_browser(tmp_path / "profile", trusted_spki=stage.gate.certificates.spki_hash) as browser:
        browser.open(stage.gate.url(SOCKETS, "/not-here"))
        browser.driver.set_script_timeout(20)
        heard, was_clean = browser.driver.execute_async_script(TALK, f"wss://{stage.name(SOCKETS)}/polite")
    assert heard == ["grüß dich", 100_000]
    assert was_clean


@pytest.mark.parametrize("size", [0, 5, 70_000, 900_000])
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_messages_pass_whole_both_ways(stage: Stage, opcode: int, size: int) -> None:
    with stage.client(SOCKETS) as client:
        assert client.open(stage.name(SOCKETS), "/polite").status == 101
        payload = b"x" * size
        for _ in range(2):
            client.say(opcode, payload)
        client.say(opcode, b"the end")
        heard = [client.frame()]
        while heard[-1].payload != b"the end":
            heard.append(client.frame())
        # Daphne's own websockets drop what is empty.
        expected = [] if size == 0 and stage.server == "Daphne's own classes" else [payload, payload]
        assert [frame.payload for frame in heard] == [*expected, b"the end"]
        assert {frame.opcode for frame in heard} == {opcode}
        client.say(CLOSE, b"\x0f\xa2bye")
        # autobahn, of Daphne's own, answers a Close with a code of its own.
        assert client.frame().close_code == (1000 if stage.server == "Daphne's own classes" else 4002)


def test_a_client_that_stops_reading_stops_the_upstream(stage: Stage) -> None:
    if stage.server == "Daphne's own classes":
        return  # they know no back-pressure, which docs/servers.md says
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


def test_an_upstream_that_breaks_off_is_not_a_good_end(stage: Stage) -> None:
    with stage.client(SOCKETS) as client:
        assert client.open(stage.name(SOCKETS), "/breaks-off").status == 101
        assert client.frame().payload == b"last words"
        try:
            assert client.frame().close_code not in (1000, 1001)
        except Broken:
            assert stage.is_ours


@pytest.mark.parametrize("path", ["wrong-accept", "no-upgrade", "unasked-subprotocol", "unasked-extension", "not-here", "ok-with-upgrade"])
def test_a_websocket_that_its_application_does_not_open_is_not_open(stage: Stage, path: str) -> None:
    with stage.client(SOCKETS) as client:
        answer = client.open(stage.name(SOCKETS), f"/{path}")
        assert answer.status != 101
        assert answer.status >= 400 or stage.is_ours


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


def test_http_2_is_judged_alike(stage: Stage) -> None:
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


def test_a_broken_answer_does_not_look_finished(stage: Stage) -> None:
    with stage.client(BREAKS) as client:
        client.send(f"GET / HTTP/1.1\r\nHost: {stage.name(BREAKS)}\r\n\r\n".encode())
        client.socket.settimeout(2)  # with Daphne's own classes it never ends
        with pytest.raises((Broken, TimeoutError)):
            client.response()


def test_what_is_missing_is_said_once(stage: Stage) -> None:
    lines = [line for line in stage.gate.log if "docs/servers.md" in line["event"]]
    assert len(lines) == (not stage.is_ours)
    assert not any("Traceback" in line for line in stage.gate.child.lines)


@pytest.mark.parametrize("path", ["/ping", "/.gate/"])
def test_pages_of_ours_are_served(stage: Stage, path: str) -> None:
    with RawClient(stage.gate.port, tls=stage.gate.certificates.client_context(), server_name=AUTHENTICATE) as client:
        client.send(f"GET {path} HTTP/1.1\r\nHost: {stage.name(AUTHENTICATE)}\r\nAccept: text/html\r\n\r\n".encode())
        assert client.response().status == (302 if path == "/.gate/" else 200)
