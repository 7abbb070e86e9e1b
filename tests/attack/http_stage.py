"""A second gate for what the first does not carry: websockets, ten hosts with a session each, an administrator, and longer deadlines."""

import asyncio
import atexit
import re
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import httpx

from tests.attack.http_canary import Canary, CanaryServer, Hit, Ledger, Script, _Connection
from tests.attack.run import expect
from tests.attack.target import ALL_USERS, ANY_USER, ENGINEERS, IDENTITY, Target, _PlainBuilder
from tests.support.cookies import gate_values
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import AUTHENTICATE_HOST, HTML, GateBuilder, follow, sign_in
from tests.support.websockets import ACCEPT, CLOSE, TEXT, Frame, from_server, read_frame

READ_LIMIT, IDLE_LIMIT = 5.0, 10.0  # seconds
FRIEND = "https://friend.example"
SOCKETS = {"allow_websockets": True}
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\n"
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
OPENED = SWITCHING + UPGRADE + b"Sec-WebSocket-Accept: %b\r\n" % ACCEPT
BIG = 300 << 10  # bytes of an answer that a slow reader does not take at once

# site: what its route says.  `bare` and `plain` carry no websockets.
ROUTES = {
    "any": ANY_USER | IDENTITY | SOCKETS,
    "group": ENGINEERS | IDENTITY | SOCKETS,
    "bare": ANY_USER | IDENTITY,
    "public": ALL_USERS | IDENTITY | SOCKETS,
    "plain": ALL_USERS,
    "friend": ALL_USERS | SOCKETS | {"websocket_origins": [FRIEND]},
    "default": ALL_USERS | SOCKETS,
}
# Ten hosts, of which three differ by their port alone.
PLACES = ("any", "group", "bare", *(f"other{number}.localhost" for number in range(3)))
PORTED = ("any.localhost:9443", "any.localhost:8443", "any.localhost", "other0.localhost:9443")


class SocketCanary(Canary):
    """Without a script, the last part of a path selects the response.  `received`: bytes after a 101, by marker."""

    def __init__(self, name: str, ledger: Ledger):
        super().__init__(name, ledger)
        self.received: dict[bytes, bytearray] = defaultdict(bytearray)

    def script(self, hit: Hit) -> Script:
        scripted = super().script(hit)
        way = hit.target.rpartition(b"/")[2]
        whole = self._received(hit)
        answers = {
            b"echo": Script(OPENED + b"\r\n"),
            b"hold": Script(OPENED + b"\r\n"),
            b"die": Script(b"", closes=True),
            b"half": Script(whole[:-5], closes=True),
            b"garbage": Script(b"\x00\x01 no answer\r\n\r\n", closes=True),
            b"surplus": Script(whole + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"),
            b"closing": Script(whole.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1), closes=True),
            b"private": Script(whole.replace(b"\r\n\r\n", b"\r\nCache-Control: private, max-age=60\r\n\r\n", 1)),
            b"big": Script(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BIG + bytes(BIG)),
        }
        is_scripted = any(marker in hit.head for marker in self.scripts) if self.scripts else False
        return scripted if is_scripted else answers.get(way, Script(whole))

    def _received(self, hit: Hit) -> bytes:
        """The request's target and its person."""
        body = b" ".join([hit.target, *hit.values(b"x-gate-claim-email")])
        head = b"HTTP/1.1 200 OK\r\nX-Canary: %b\r\nContent-Length: %d\r\n\r\n" % (self.name.encode(), len(body))
        return head if hit.method == b"HEAD" else head + body


class _SocketConnection(_Connection):
    """Once a 101 was answered, bytes are a websocket's; with a path that ends in `echo`, texts come back."""

    _is_open = False

    def data_received(self, data: bytes) -> None:
        if not self._is_open:
            super().data_received(data)
            return
        self._canary.received[self._marker] += data
        if self._echoes:
            self._buffer += data
            while (frame := take_frame(self._buffer)) is not None:
                if frame.opcode in (TEXT, CLOSE):
                    self._transport.write(from_server(frame.opcode, frame.payload))

    def _answer(self) -> None:
        super()._answer()
        assert self._hit is not None
        if b"HTTP/1.1 101 " in self._script.answer:
            self._is_open = True
            self._echoes = self._hit.target.endswith(b"/echo")
            self._marker = self._hit.target.split(b"/")[1]
            if self._buffer:
                self._object("bytes of a websocket before its 101", bytes(self._buffer))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_open:
            super().connection_lost(error)


class _SocketServer(CanaryServer):
    async def _open(self, canary: Canary) -> asyncio.Server:
        server = await self._loop.create_server(lambda: _SocketConnection(canary), "127.0.0.1", 0, backlog=2048)
        canary.port = server.sockets[0].getsockname()[1]
        return server


class Stage(Target):
    """`at_rest`: gate's resident bytes once everybody was signed in."""

    at_rest = 0
    admin_jar = httpx.Cookies()

    def received(self, marker: bytes) -> bytes:
        """Bytes that any upstream received after the 101 to this handshake."""
        return b"".join(bytes(canary.received.pop(marker, b"")) for canary in self.canaries.values())

    def look(self) -> None:
        """Raises Failed where gate has died, or sent an upstream what a strict reader would not take."""
        expect(self.is_alive(), "gate has died")
        while self.ledger.violations:
            what, raw = self.ledger.violations.pop()
            expect(False, what, raw)

    def growth(self) -> int:
        return self.memory() - self.at_rest

    async def sessions(self) -> int:
        """How many the administrator sees."""
        async with self.browser() as client:
            client.cookies.update(self.admin_jar)
            page = await follow(
                client, await client.get(self.gate.url(AUTHENTICATE_HOST, "/.gate/admin/databroker/session/"), headers=HTML)
            )
        return int(re.findall(r"\b(\d+) sessions?\b", page.text)[-1])

    async def cookies_of_all_places(self, user: str) -> dict[str, bytes]:
        """One session's cookie at each of ten hosts.  Browsers know no ports: each is taken from the jar before the next overwrites it."""
        found = {}
        async with self.browser() as client:
            for number, place in enumerate(self.places()):
                url = f"https://{place}/"
                await (follow(client, await client.get(url, headers=HTML)) if number else sign_in(client, url, user))
                name = place.partition(":")[0]
                found[place] = gate_values(client, name)
                client.cookies.delete("_gate", domain=name, path="/")
        return found

    def places(self) -> list[str]:
        return [f"{place.removesuffix('.localhost')}.localhost:{self.port}" for place in PLACES] + list(PORTED)

    async def begin(self) -> None:
        for user in ("alice", "carol"):
            self.cookies[user] = await self.sign_in(user, "any", "group", "bare")
        async with self.browser() as client:
            await sign_in(client, self.gate.url(AUTHENTICATE_HOST, "/.gate/admin/"), "alice")
            self.admin_jar = client.cookies
        self.ledger.forget()
        while await self.sessions() < 3:
            await asyncio.sleep(0.05)
        self.at_rest = self.memory()


@cache
def stage() -> Stage:
    """Started when it is first asked for, and kept to the end."""
    stack = ExitStack()
    atexit.register(stack.close)
    ledger = Ledger()
    canaries: dict[str, Canary] = {name: SocketCanary(name, ledger) for name in (*ROUTES, "elsewhere")}
    server = _SocketServer(list(canaries.values()))
    server.start()
    stack.callback(server.stop)
    provider = stack.enter_context(DevelopmentProvider())
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate-attack-")))
    gate = stack.enter_context(_with_routes(_PlainBuilder(provider.url), canaries).start(directory))
    made = Stage(gate, canaries, ledger, None)
    asyncio.run(made.begin())
    return made


def _with_routes(gate: GateBuilder, canaries: dict[str, Canary]) -> GateBuilder:
    to = {name: f"http://127.0.0.1:{canary.port}" for name, canary in canaries.items()}
    gate.setting(groups_claim="groups", jwt_claims_headers=["email"], admin_allowed_users=["alice@example.com"])
    gate.setting(timeout_read=f"{READ_LIMIT:.0f}s", timeout_idle=f"{IDLE_LIMIT:.0f}s")
    for site, rules in ROUTES.items():
        origin = "https://default.localhost" if site == "default" else gate.url(f"{site}.localhost", "")
        gate.policy.append({"from": origin, "to": to[site], **rules})
    for place in (*(f"{place}:{gate.port}" for place in PLACES if "." in place), *PORTED):
        gate.policy.append({"from": f"https://{place}", "to": to["elsewhere"], **ANY_USER, **IDENTITY})
    return gate


def take_frame(buffer: bytearray) -> Frame | None:
    """The next frame where it is there whole; it is taken out."""
    at = 0

    def exactly(size: int) -> bytes:
        nonlocal at
        at += size
        if at > len(buffer):
            raise EOFError
        return bytes(buffer[at - size : at])

    try:
        frame = read_frame(exactly)
    except EOFError:
        return None
    del buffer[:at]
    return frame
