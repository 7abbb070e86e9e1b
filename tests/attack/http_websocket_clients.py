"""B7: does a websocket open only for a whole handshake, from a page that may, for a person who may, and only while they may?"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import product

from tests.attack.http_stage import FRIEND, Stage, stage, take_frame
from tests.attack.http_websocket import BEHIND, ENDS, attempt_to_open, handshake, some_bytes
from tests.attack.run import Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker
from tests.support.cookies import gate_values
from tests.support.gate import AUTHENTICATE_HOST, sign_in, sign_out
from tests.support.websockets import ACCEPT, CLOSE, KEY, TEXT, from_client

CLOSED_WITHIN = 3.0  # seconds; one is promised, the rest is for a busy machine
TIMES = 12

_VERSIONS = (
    "99",
    "0",
    "-1",
    "7",
    "8",
    "12",
    "14",
    "13, 8",
    "8, 13",
    "013",
    "+13",
    "0x0d",
    "",
    "13.0",
    "13;",
    "13\r\nSec-WebSocket-Version: 8",
)
_KEYS = (
    *("", "short", "AAAA", "A" * 20 + "==", "A" * 22 + "=", "A" * 23 + "=", "A" * 24, "A" * 22, "A" * 10 + " " + "A" * 11 + "=="),
    *("_" * 22 + "==", "A" * 21 + "B==", KEY.decode() + ", " + KEY.decode(), KEY.decode() + "x", '"' + KEY.decode() + '"', "A" * 4000),
    *(f"{KEY.decode()}\r\nSec-WebSocket-Key: {KEY.decode()}", "\xff" * 22 + "=="),
)
_UPGRADES = (
    *("websocket, h2c", "h2c, websocket", "websocket/13", "websocket;x", '"websocket"', "xwebsocket", "websockets", "websocket,"),
    *("h2c\r\nUpgrade: websocket", "websocket\r\nUpgrade: websocket", ",websocket", "web\tsocket websocket"),
)
_METHODS = (b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"PATCH", b"CONNECT", b"TRACE", b"get", b"WEBSOCKET")
_BODIES = (
    *(
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 0\r\nContent-Length: 5\r\n",
        b"Content-Length: -0\r\n",
    ),
    *(
        b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 00005\r\n",
        b"Expect: 100-continue\r\nContent-Length: 5\r\n",
    ),
)
# These may open it or not; either way nothing but a tunnel may come of them.
_EITHER = (
    *(b"X-A: a%bX-Gate-Claim-Email: forged@example.com\r\n" % odd for odd in (b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e", b"\x85")),
    *(
        b"Connection: %b\r\n" % value
        for value in (b"close", b"Sec-WebSocket-Key", b"X-Gate-Claim-Email", b"keep-alive, x-upgrade", b"host")
    ),
    *(b"Content-Length: 0\r\n", b"Sec-WebSocket-Accept: %b\r\n" % ACCEPT, b"Sec_WebSocket_Key: %b\r\n" % KEY, b"TE: trailers\r\n"),
    *(
        b"Sec-WebSocket-Protocol: a, b\r\n",
        b"Sec-WebSocket-Extensions: permessage-deflate\r\n",
        b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    ),
)
_OPEN = (b"WebSocket", b"WEBSOCKET", b"websocket ", b"\twebsocket")


@attack("B7", "malformed handshakes", together=24)
def handshakes(target: Target) -> Iterator[Case]:
    for (site, user), behind in product((("public", None), ("any", "alice"), ("group", "alice")), ("a request", "a request in a frame")):
        for label, changed, opens in _changed_handshakes():
            yield Case(f"{label[:80]} at {site}, behind it {behind}", partial(_shaken, changed, opens, site, user, behind, stage()))


def _changed_handshakes() -> Iterator[tuple[str, dict[str, bytes], bool | None]]:
    """(label, what differs, whether it opens: None where either is right)."""
    for value in (*_VERSIONS, None):
        yield f"version {value!r}", {"version": b"" if value is None else b"Sec-WebSocket-Version: %b\r\n" % value.encode("latin-1")}, False
    for value in (*_KEYS, None):
        yield f"key {value!r}", {"key": b"" if value is None else b"Sec-WebSocket-Key: %b\r\n" % value.encode("latin-1")}, False
    for value in _UPGRADES:
        yield f"Upgrade: {value!r}", {"upgrade": b"Upgrade: %b\r\nConnection: Upgrade\r\n" % value.encode("latin-1")}, False
    for method in _METHODS:
        yield f"method {method!r}", {"method": method}, False
    for lines in _BODIES:
        yield f"body {lines!r}", {"headers": lines}, False
    for protocol in (b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"WS/1.1"):
        yield f"protocol {protocol!r}", {"protocol": protocol}, False
    for value in _OPEN:
        yield f"Upgrade: {value!r}", {"upgrade": b"Upgrade: %b\r\nConnection: keep-alive, UPGRADE\r\n" % value}, True
    for lines in _EITHER:
        yield f"with {lines!r}", {"headers": lines}, None


async def _shaken(
    changed: dict[str, bytes], opens: bool | None, site: str, user: str | None, behind: str, target: Stage, _: Target
) -> Outcome:
    return await attempt_to_open(target, _handshake_of(target, site, user, changed), opens, site, user, behind)


def _handshake_of(target: Stage, site: str, user: str | None, changed: dict) -> tuple[bytes, bytes]:
    marker = new_marker()
    return handshake(target, site, marker, user=user, **changed), marker


@attack("B7", "who may open one, and from which page", together=24)
def permitted(target: Target) -> Iterator[Case]:
    home = stage()
    refused = (("bare", "alice", 403), ("plain", None, 403), ("group", "carol", 403), ("group", None, 401), ("any", None, 401))
    for (site, user, status), behind in product((*refused, ("nowhere", None, 404), ("bare", None, 401)), BEHIND):
        own = b"Origin: https://%b\r\n" % home.host(site).encode()
        for lines in (b"", own, b"Cookie: _gate=junk\r\n" if user is None else own + b"Sec-Fetch-Mode: websocket\r\n"):
            yield Case(f"{user} at {site}, {lines!r}, {behind}", partial(_not_permitted, site, user, lines, status, behind, home))
    for site, user in (("public", None), ("any", "alice"), ("group", "alice"), ("friend", None), ("default", None)):
        for (origin, opens), behind in product(_origins(home.host(site), site), ("nothing", "a request")):
            yield Case(f"{origin!r} at {site}, {behind}", partial(_from_page, site, user, origin, opens, behind, home))


def _origins(host: str, site: str) -> Iterator[tuple[bytes, bool | None]]:
    """(the lines, whether it opens; None where either is right)."""
    name, _, port = host.partition(":")
    own = f"https://{host}"
    yield f"Origin: {own}\r\n".encode(), True
    yield b"", True
    yield f"Origin: {FRIEND}\r\n".encode(), site == "friend"
    yield f"Origin: {own.upper()}\r\n".encode(), None
    foreign = [
        *("null", "", "*", "https://evil.example", f"http://{host}", f"wss://{host}", f"ws://{host}", f"file://{host}", host, f"//{host}"),
        *(f"{own}.evil.example", f"{own}/", f"{own}/path", f"{own}?", f"{own}#", f"https://{name}.:{port or 443}", f"https://evil.{host}"),
        *(
            f"https://x@{host}",
            f"https://{host}@evil.example",
            f"{own} https://evil.example",
            f"https://evil.example {own}",
            f"{own},{own}",
        ),
        *(
            f"https://evil.example,{own}",
            f"https://{name}:1",
            f"https://{name}:0{port or 443}",
            f"https://{name}:",
            f'"{own}"',
            f"{own}%00",
        ),
        *(
            f"https://{AUTHENTICATE_HOST}:{port or 443}",
            "https://localhost",
            f"https://x{host}",
            FRIEND + ":443",
            FRIEND + ".evil",
            "http:" + FRIEND[6:],
        ),
        f"https://{name}" if port else f"https://{name}:443",
    ]
    for origin in foreign:
        yield f"Origin: {origin}\r\n".encode(), False
        yield f"Origin: {own}\r\nOrigin: {origin}\r\n".encode(), False
        yield f"Origin: {origin}\r\nOrigin: {own}\r\n".encode(), False


async def _not_permitted(site: str, user: str | None, lines: bytes, status: int, behind: str, target: Stage, _: Target) -> Outcome:
    changed = _handshake_of(target, site, user, {"headers": lines})
    return await attempt_to_open(target, changed, False, site, user, behind, (status,))


async def _from_page(site: str, user: str | None, lines: bytes, opens: bool | None, behind: str, target: Stage, _: Target) -> Outcome:
    changed = _handshake_of(target, site, user, {"headers": lines})
    return await attempt_to_open(target, changed, opens, site, user, behind, (400, 403))


@attack("B7", "tunnels whose session ends", together=4)
def ended(target: Target) -> Iterator[Case]:
    for number in range(TIMES):
        yield Case(f"sign-out {number}", partial(_signed_out, ("alice", "bob")[number % 2], (b"hold", b"echo")[number // 2 % 2], stage()))


async def _signed_out(user: str, way: bytes, target: Stage, _: Target) -> Outcome:
    async with target.browser() as client:
        await sign_in(client, f"https://{target.host('any')}/", user)
        cookie = b"Cookie: _gate=%b\r\n" % gate_values(client, "any.localhost")
        tunnels = [await _opened(target, way, cookie) for _ in range(3)]
        await sign_out(client, target.gate)
    started = asyncio.get_running_loop().time()
    for reader, writer, marker in tunnels:
        expect(await _close_code(reader, started + CLOSED_WITHIN) == 1008, f"open {CLOSED_WITHIN} s after the sign-out", marker)
        await _send_more(writer, from_client(TEXT, b"too late"))
        # The mask is the same for all frames: as bytes, too, this must not have passed.
        expect(from_client(TEXT, b"too late") not in target.received(marker), "a frame passed after the Close", marker)
        writer.close()
    changed = _handshake_of(target, "any", None, {"headers": cookie})
    return await attempt_to_open(target, changed, False, "any", None, "a request", (401,))


async def _opened(target: Stage, way: bytes, cookie: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    marker = new_marker()
    reader, writer = await target.open()
    writer.write(handshake(target, "any", marker, way=way, headers=cookie) + from_client(TEXT, b"before"))
    head = await asyncio.wait_for(reader.readuntil(ENDS), 10)
    expect(head.startswith(b"HTTP/1.1 101 "), f"answered {head!r}")
    return reader, writer, marker


async def _send_more(writer: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(ConnectionError):
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.05)


async def _close_code(reader: asyncio.StreamReader, until: float) -> int:
    received, loop = bytearray(), asyncio.get_running_loop()
    with suppress(TimeoutError):
        while more := await asyncio.wait_for(some_bytes(reader), max(until - loop.time(), 0.01)):
            received += more
            while (frame := take_frame(received)) is not None:
                if frame.opcode == CLOSE:
                    return frame.close_code
    return 0
