"""B21: do slow clients end at their deadline, and does everybody else notice nothing meanwhile?  (timeout_read is 2 s here.)"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

READ_LIMIT = 2.0  # seconds, as target.py sets it
IDLE_LIMIT = 6.0
GRACE = 6.0
PATIENCE = 5.0  # seconds that a good client may wait while hundreds of slow ones are there; no speed is measured here
TOGETHER = 400
MODES = ("head", "no end of head", "body", "chunked body", "nothing", "range flood", "half request line")


@attack("B21", "slow clients", together=TOGETHER + 8)
def slow(target: Target) -> Iterator[Case]:
    for number in range(TOGETHER):
        mode = MODES[number % len(MODES)]
        yield Case(f"slow {mode} {number}", partial(_slow, mode))
        if number % 50 == 0:
            yield Case(f"good client {number}", _good)


async def _slow(mode: str, target: Target) -> Outcome:
    marker = new_marker()
    host = target.host("public").encode()
    start, drop = {
        "head": (b"GET / HTTP/1.1\r\nHost: %b\r\nX-Marker: %b\r\n" % (host, marker), b"X: y\r\n"),
        "no end of head": (b"GET / HTTP/1.1\r\nHost: %b\r\nX: " % host, b"a"),
        "half request line": (b"GET /", b"a"),
        "body": (b"POST / HTTP/1.1\r\nHost: %b\r\nX-Marker: %b\r\nContent-Length: 100000\r\n\r\n" % (host, marker), b"a"),
        "chunked body": (
            b"POST / HTTP/1.1\r\nHost: %b\r\nX-Marker: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % (host, marker),
            b"1\r\na\r\n",
        ),
        "nothing": (b"", b""),
        "range flood": (
            b"GET / HTTP/1.1\r\nHost: %b\r\nX-Marker: %b\r\nRange: bytes=%b\r\n" % (host, marker, b",".join([b"0-"] * 3000)),
            b"",
        ),
    }[mode]
    reader, writer = await target.open()
    started, limit = time.monotonic(), (IDLE_LIMIT if mode == "nothing" else READ_LIMIT) + GRACE
    dripping = asyncio.ensure_future(_drip(writer, start, drop))
    try:
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), limit)
    except TimeoutError:
        expect(False, f"{mode}: still open after {limit:.0f} s", start)
    finally:
        dripping.cancel()
        writer.close()
    expect(time.monotonic() - started > 0.5, f"{mode}: closed at once", start)
    return REFUSED


async def _drip(writer: asyncio.StreamWriter, start: bytes, drop: bytes) -> None:
    writer.write(start)
    with suppress(ConnectionError):
        while not writer.is_closing():
            await asyncio.sleep(0.5)
            writer.write(drop)
            await writer.drain()


async def _good(target: Target) -> Outcome:
    for _ in range(40):
        marker, started = new_marker(), time.monotonic()
        data = target.request(b"GET", b"/good", "any", person="alice", marker=marker)
        answer = await target.send(data)
        expect(
            answer.statuses == [200] and time.monotonic() - started < PATIENCE,
            f"a good client waited {time.monotonic() - started:.1f} s",
            data,
        )
        await asyncio.sleep(0.1)
    return ACCEPTED
