"""B7: do bytes flow as a tunnel only after a handshake that both ends meant, and is nothing behind it ever a request?"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import product

from tests.attack.http_canary import Script
from tests.attack.http_stage import OPENED, SWITCHING, UPGRADE, Stage, stage
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker
from tests.support.websockets import ACCEPT, CLOSE, KEY, PING, TEXT, from_client, from_server

ENDS = b"\r\n\r\n"
ACCEPTED_KEY = b"Sec-WebSocket-Accept: %b\r\n" % ACCEPT


def handshake(
    target: Target,
    site: str,
    marker: bytes,
    *,
    user: str | None = None,
    way: bytes = b"hold",
    method: bytes = b"GET",
    upgrade: bytes = b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
    version: bytes = b"Sec-WebSocket-Version: 13\r\n",
    key: bytes = b"Sec-WebSocket-Key: %b\r\n" % KEY,
    headers: bytes = b"",
    protocol: bytes = b"HTTP/1.1",
) -> bytes:
    data = target.request(method, b"/%b/%b" % (marker, way), site, user=user, close=False, headers=upgrade + version + key + headers)
    return data.replace(b"HTTP/1.1", protocol, 1)


def what_is_behind(target: Target, site: str, user: str | None) -> dict[str, tuple[bytes, bytes]]:
    """Bytes sent in the same segment: (bytes, the marker of the request among them)."""
    made = {}
    for name in (
        "nothing",
        "a request",
        "two requests",
        "a request in a frame",
        "a request behind a Close",
        "a ping and a request",
        "half",
    ):
        marker = new_marker()
        request = target.request(b"GET", b"/" + marker, site, user=user, marker=marker, close=False)
        unmasked = b"\x82\xfe" + len(request).to_bytes(2, "big") + bytes(4) + request  # a mask of zeros: as readable as without
        made[name] = (
            {
                "nothing": b"",
                "a request": request,
                "two requests": request * 2,
                "a request in a frame": unmasked,
                "a request behind a Close": from_client(CLOSE, b"\x03\xe8") + request,
                "a ping and a request": from_client(PING, b"x") + request,
                "half": unmasked[: len(unmasked) // 2],
            }[name],
            marker,
        )
    return made


BEHIND = ("nothing", "a request", "two requests", "a request in a frame", "a request behind a Close", "a ping and a request", "half")

# Response of an upstream to a valid handshake, and the expected status: 101, 502 for an invalid 101, else the upstream's.
ANSWERS: tuple[tuple[bytes, int], ...] = (
    (OPENED + b"\r\n", 101),
    (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OPENED + b"\r\n", 101),
    (OPENED + b"Content-Length: 5\r\n\r\n", 101),
    (OPENED + b"Transfer-Encoding: chunked\r\n\r\n", 101),
    (OPENED.replace(b"websocket", b"WebSocket") + b"\r\n", 101),
    (OPENED + b"\r\n" + from_server(TEXT, b"first"), 101),
    *((SWITCHING + UPGRADE + line + b"\r\n", 502) for line in (
        b"",
        b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n",
        b"Sec-WebSocket-Accept: %b\r\n" % ACCEPT.lower(),
        b"Sec-WebSocket-Accept: %b\r\n" % ACCEPT.rstrip(b"="),
        b"Sec-WebSocket-Accept: %b=\r\n" % ACCEPT,
        b"Sec-WebSocket-Accept: \r\n",
        b"Sec-WebSocket-Accept: %b\r\n" % KEY,
        b"Sec-WebSocket-Accept: %b, %b\r\n" % (ACCEPT, ACCEPT),
        ACCEPTED_KEY * 2,
        ACCEPTED_KEY + b"Sec-WebSocket-Accept: x\r\n",
        ACCEPTED_KEY + b"Sec-WebSocket-Protocol: unasked\r\n",
        ACCEPTED_KEY + b"Sec-WebSocket-Protocol: \r\n",
        ACCEPTED_KEY + b"Sec-WebSocket-Extensions: permessage-deflate\r\n",
        ACCEPTED_KEY + b"Upgrade: h2c\r\n",
        ACCEPTED_KEY + b"Upgrade: websocket\r\n",
        b"Sec_WebSocket_Accept: %b\r\n" % ACCEPT,
        b"X: y\r\nSec-WebSocket-Accept : %b\r\n" % ACCEPT,
    )),
    *((SWITCHING + lines + ACCEPTED_KEY + b"\r\n", 502) for lines in (
        b"",
        b"Upgrade: websocket\r\n",
        b"Connection: Upgrade\r\n",
        b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
        b"Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n",
        b"Upgrade: websocket\r\nConnection: close\r\n",
        b"Upgrade: websocket\r\nConnection: keep-alive\r\n",
        b"Upgrade: websocket/13\r\nConnection: Upgrade\r\n",
        b"Upgrade: \r\nConnection: Upgrade\r\n",
    )),
    *((b"HTTP/1.1 %d Odd\r\nContent-Length: 2\r\n%b%b\r\nno" % (status, UPGRADE, ACCEPTED_KEY), status) for status in (
        200, 201, 202, 206, 300, 302, 400, 401, 403, 404, 426, 500, 503,
    )),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + UPGRADE + ACCEPTED_KEY + b"\r\n2\r\nno\r\n0\r\n\r\n", 200),
    (b"HTTP/1.1 200 OK\r\n" + UPGRADE + ACCEPTED_KEY + b"\r\nno", 200),
    (b"HTTP/1.1 204 No Content\r\n" + UPGRADE + ACCEPTED_KEY + b"\r\n", 204),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + UPGRADE + ACCEPTED_KEY + b"\r\nno" + OPENED + b"\r\n", 200),
    (b"\x81\x05hello", 502),
    (b"", 502),
)  # fmt: skip


@attack("B7", "upstreams that misunderstand a handshake", together=24)
def upstreams(target: Target) -> Iterator[Case]:
    for number, (answer, _) in enumerate(ANSWERS):
        for (site, user), behind in product((("public", None), ("any", "alice"), ("group", "alice")), BEHIND):
            yield Case(f"{answer[:60]!r} at {site}, behind it {behind}", partial(_answered, number, site, user, behind, stage()))


async def _answered(number: int, site: str, user: str | None, behind: str, target: Stage, _: Target) -> Outcome:
    answer, status = ANSWERS[number]
    marker = new_marker()
    more, second = what_is_behind(target, site, user)[behind]
    data = handshake(target, site, marker, user=user) + more
    closes = status != 101 and b"Content-Length" not in answer
    target.canaries[site].scripts[marker] = Script(answer, closes=closes)
    try:
        raw, is_closed = await _talk(target, data, wait=0.4 if status == 101 else 8.0)
    finally:
        target.canaries[site].scripts.pop(marker)
    sent_up = target.received(marker)
    got = _final_status(raw)
    expect(got == status, f"answered {raw[:300]!r}, not {status}, to {answer!r}", data)
    expect(len(target.ledger.hits(marker)) == 1, "the handshake did not arrive once", data)
    expect(not target.ledger.hits(second), "what was behind the handshake became a request", data)
    if status == 101:
        _expect_a_tunnel_alone(raw, sent_up, behind, data)
        return ACCEPTED
    expect(not sent_up, f"the upstream received {sent_up[:100]!r}", data)
    expect(is_closed and raw.count(b"HTTP/1.1 ") == 1 + raw.count(b"HTTP/1.1 1"), f"another answer, or no end: {raw!r}", data)
    expect(not re.search(rb"(?im)^upgrade:", raw) or status == 426, f"promises an upgrade: {raw!r}", data)
    return REFUSED


def _expect_a_tunnel_alone(raw: bytes, sent_up: bytes, behind: str, data: bytes) -> None:
    frames = raw.split(ENDS)[-1]
    expect(b"HTTP/1." not in frames, f"an answer within the tunnel: {frames[:100]!r}", data)
    is_bare = behind in ("a request", "two requests", "a request behind a Close", "a ping and a request")
    expect(not (is_bare and b"GET /" in sent_up), f"bytes that are no frame went up: {sent_up[:100]!r}", data)


async def _talk(target: Stage, data: bytes, *, wait: float) -> tuple[bytes, bool]:
    reader, writer = await target.open()
    received, loop = bytearray(), asyncio.get_running_loop()
    writer.write(data)
    end = loop.time() + wait
    is_closed = False
    with suppress(TimeoutError):
        while not is_closed:
            # Until something has come, however long a busy machine takes.
            more = await asyncio.wait_for(some_bytes(reader), 10 if not received else max(end - loop.time(), 0.01))
            received += more
            is_closed = not more
            end = end if len(received) > len(more) else loop.time() + wait
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    target.look()
    return bytes(received), is_closed


async def some_bytes(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1 << 16)
    except ConnectionError:
        return b""


def _final_status(raw: bytes) -> int:
    found = [int(status) for status in re.findall(rb"(?:^|\r\n\r\n)HTTP/1\.1 ([0-9]{3}) ", raw)]
    return next((status for status in found if status == 101 or status >= 200), 0)


@attack("B7", "an unsolicited 101", together=24)
def unasked(target: Target) -> Iterator[Case]:
    requested = (
        b"",
        b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
        b"Upgrade: websocket\r\n",
        b"Connection: Upgrade\r\n",
        b"Upgrade: foo\r\n",
    )
    requested += (b"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",)  # the last one counts, and is not supported
    for method, lines, behind in product((b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT"), requested, BEHIND):
        for site, user in (("public", None), ("plain", None), ("any", "alice"), ("bare", "alice")):
            yield Case(f"{method!r} {lines!r} at {site}, {behind}", partial(_unasked, method, lines, behind, site, user, stage()))


async def _unasked(method: bytes, lines: bytes, behind: str, site: str, user: str | None, target: Stage, _: Target) -> Outcome:
    marker = new_marker()
    more, second = what_is_behind(target, site, user)[behind]
    key = b"Sec-WebSocket-Key: %b\r\nSec-WebSocket-Version: 13\r\n" % KEY
    data = target.request(method, b"/%b/hold" % marker, site, user=user, headers=lines + key, close=False) + more
    raw, _closed = await _talk(target, data, wait=0.3)
    sent_up = target.received(marker)
    hits = target.ledger.hits(second)
    expect(b" 101 " not in raw and not sent_up, f"switched: {raw[:200]!r}, heard {sent_up[:100]!r}", data)
    expect(400 <= _final_status(raw) < 600, f"answered {raw[:200]!r}", data)
    expect(len(hits) <= 2 and all(hit.line.startswith(b"GET /" + second) for hit in hits), f"the second came as {hits}", data)
    expect(behind in ("a request", "two requests") or not hits, "a frame was taken for a request", data)
    return REFUSED


async def attempt_to_open(
    target: Stage,
    offer: tuple[bytes, bytes],
    opens: bool | None,
    site: str,
    user: str | None,
    behind: str,
    statuses: range | tuple[int, ...] = range(400, 506),
) -> Outcome:
    """`opens` false: refused with one of the statuses, nothing of it reached an upstream, and the connection is over."""
    head, marker = offer
    more, second = what_is_behind(target, site, user)[behind]
    data = head + more
    raw, is_closed = await _talk(target, data, wait=0.4 if opens or opens is None else 8.0)
    sent_up, hits = target.received(marker), target.ledger.hits(marker)
    status = _final_status(raw)
    expect(not target.ledger.hits(second), "what was behind the handshake became a request", data)
    for hit in hits:
        emails = [f"{user}@example.com".encode()] if user and site != "plain" else []
        expect(hit.values(b"x-gate-claim-email") in (emails, []), f"an upstream saw {hit.head!r}", data)
    if status == 101:
        expect(opens is not False and len(hits) == 1, f"opened: {raw[:200]!r}", data)
        expect(b"\r\nSec-WebSocket-Accept: %b\r\n".lower() % ACCEPT.lower() in raw.lower(), f"opened without an accept: {raw!r}", data)
        _expect_a_tunnel_alone(raw, sent_up, behind, data)
        return ACCEPTED
    expect(opens is not True, f"answered {raw[:300]!r}", data)
    expect(not hits and not sent_up, f"an upstream received it: {hits}", data)
    expect(status in statuses and is_closed and len(re.findall(rb"HTTP/1\.1 [0-9]{3} ", raw)) == 1, f"answered {raw[:300]!r}", data)
    return REFUSED
