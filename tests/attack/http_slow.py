"""B21: do slow clients end at their deadline, and are other clients unaffected?  (timeout_read is 2 s here.)

Two thousand of them are held for five minutes (GATE_ATTACK_SLOW_SECONDS).  Each is cut at its deadline
(timeout_read 5 s for heads and bodies; a reader that takes nothing ends by itself), and another one takes its place.
"""

import asyncio
import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from tests.attack.http_canary import Script
from tests.attack.http_load import UntilTime
from tests.attack.http_stage import BIG, Stage, stage
from tests.attack.http_stage import READ_LIMIT as HELD_LIMIT
from tests.attack.run import ACCEPTED, REFUSED, Case, Indexed, Outcome, attack, expect, not_built
from tests.attack.target import IDLE_LIMIT, READ_LIMIT, Target, new_marker

GRACE = 6.0
PATIENCE = 5.0  # seconds that a good client may wait while hundreds of slow ones are there; no speed is measured here
TOGETHER = 400
HELD_TOGETHER = 2000
MAX_EACH = 64 << 10  # bytes of memory for one of them, as for an idle websocket (B23)
HELD_PATIENCE = 20.0  # seconds; the attacker's own thousands of connections delay it, too
HELD_SECONDS = float(os.environ.get("GATE_ATTACK_SLOW_SECONDS", "300"))
HELD_MODES = ("head", "body", "chunked body", "no end of head", "reader")
READING = 8.0  # seconds that a slow reader stays
MODES = ("head", "no end of head", "body", "chunked body", "nothing", "range flood", "half request line")


@attack("B21", "slow clients", together=TOGETHER + 8, sample=21)
def slow(target: Target) -> Iterator[Case]:
    for number in range(TOGETHER):
        mode = MODES[number % len(MODES)]
        yield Case(f"slow {mode} {number}", partial(_slow, mode))
        if number % 50 == 0:
            yield Case(f"good client {number}", _valid)


@attack("B21", "two thousand slow clients, held", together=HELD_TOGETHER, sample=21, minutes=5.5)
def held(target: Target) -> Indexed:
    home, cut, waits, lags = stage(), Counter[str](), list[float](), list[float]()
    maximum = [0]

    def case(number: int) -> Case:
        if number % 500 == 499:
            return Case(f"good client {number}", partial(_normal_among, waits, lags, maximum, home))
        mode = HELD_MODES[number % len(HELD_MODES)]
        return Case(f"held {mode} {number}", partial(_held, mode, cut, home))

    def summary() -> str:
        slow = ", ".join(f"{number} {mode}" for mode, number in cut.items())
        return (
            f"ended: {slow}; {len(waits)} good answers after {_times(waits)}, of which the attacker itself was late {_times(lags)}; "
            f"gate grew by {maximum[0] >> 20} MiB at most"
        )

    return UntilTime(HELD_TOGETHER * (2 + int(HELD_SECONDS / HELD_LIMIT)), case, HELD_SECONDS, summary)


def _times(found: list[float]) -> str:
    found.sort()
    return f"{found[len(found) // 2]:.3f} s (p99 {found[len(found) * 99 // 100]:.3f} s)" if found else "nothing"


async def _held(mode: str, cut: Counter[str], target: Stage, _: Target) -> Outcome:
    started = time.monotonic()
    await (_slow_reader(target) if mode == "reader" else _slow(mode, target, HELD_LIMIT + 2 * GRACE))
    cut[mode] += 1
    expect(time.monotonic() - started > HELD_LIMIT / 2, f"{mode}: cut after {time.monotonic() - started:.1f} s")
    return REFUSED


async def _slow_reader(target: Stage) -> None:
    """Takes a hundred bytes now and then, of an answer that does not fit into the buffers between."""
    marker = new_marker()
    data = target.request(b"GET", b"/%b/big" % marker, "public", marker=marker)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    with connection:
        await loop.sock_connect(connection, ("127.0.0.1", target.port))
        await loop.sock_sendall(connection, data)
        received, end = 0, time.monotonic() + READING
        while time.monotonic() < end:
            more = await asyncio.wait_for(loop.sock_recv(connection, 100), 20)
            received += len(more)
            expect(more and received < BIG, "a slow reader was cut", data)
            await asyncio.sleep(1)


async def _normal_among(waits: list[float], lags: list[float], maximum: list[int], target: Stage, _: Target) -> Outcome:
    for _again in range(40):
        marker, started = new_marker(), time.monotonic()
        data = target.request(b"GET", b"/%b" % marker, "any", user="alice")
        answer = await target.send(data, wait=2 * HELD_PATIENCE)
        waits.append(time.monotonic() - started)
        started = time.monotonic()
        await asyncio.sleep(0)
        lags.append(time.monotonic() - started)
        maximum[0] = max(maximum[0], target.growth())
        expect(maximum[0] < HELD_TOGETHER * MAX_EACH, f"gate grew by {maximum[0] >> 20} MiB")
        expect(
            answer.statuses == [200] and waits[-1] < HELD_PATIENCE, f"a good client waited {waits[-1]:.1f} s: {answer.raw[:100]!r}", data
        )
        await asyncio.sleep(0.25)
    return ACCEPTED


async def _slow(mode: str, target: Target, maximum: float = 0.0) -> Outcome:
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
    started, limit = time.monotonic(), maximum or (IDLE_LIMIT if mode == "nothing" else READ_LIMIT) + GRACE
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


WAITERS = 300


@attack("B21", "a slow upstream delays no other client", together=WAITERS + 4, sample=60)
def starving(target: Target) -> Iterator[Case]:
    """The route `hostile` gives its upstream one second; others share gate with hundreds who wait for that."""
    for number in range(WAITERS):
        yield Case(f"waiting {number}", partial(_waits, number))
        if number % 75 == 0:
            yield Case(f"good client {number}", _valid)


async def _waits(number: int, target: Target) -> Outcome:
    marker, started = new_marker(), time.monotonic()
    # It says nothing, or stops in its head, or in its body.
    output = (b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")[number % 3]
    target.canaries["hostile"].scripts[marker] = Script(output, early=True)
    data = target.request(b"GET", b"/wait", "hostile", marker=marker)
    answer = await target.send(data, wait=PATIENCE + GRACE)
    del target.canaries["hostile"].scripts[marker]
    expect(answer.is_closed, f"still open after {time.monotonic() - started:.1f} s", data)
    expect(answer.raw.startswith(b"HTTP/1.1 504 " if number % 3 < 2 else b"HTTP/1.1 200 "), f"answered {answer.raw[:100]!r}", data)
    expect(not answer.raw.endswith(b"0\r\n\r\n"), "half an answer looks whole", data)
    return REFUSED


@attack("B21", "TLS handshakes that never end", together=64, sample=6)
def handshakes(target: Target) -> Iterator[Case]:
    if target.tls is None:
        yield not_built("handshakes are tried with --tls only")
        return
    hello = _client_hello()
    for number in range(64):
        yield Case(f"a hello cut at {number}", partial(_no_handshake, hello[: len(hello) * number // 64]))


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="public.localhost").do_handshake()
    return outgoing.read()


async def _no_handshake(start: bytes, target: Target) -> Outcome:
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    writer.write(start)
    try:
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), IDLE_LIMIT + GRACE)
    except TimeoutError:
        expect(False, f"still open after {IDLE_LIMIT + GRACE:.0f} s", start)
    finally:
        writer.close()
    return REFUSED


async def _drip(writer: asyncio.StreamWriter, start: bytes, drop: bytes) -> None:
    writer.write(start)
    with suppress(ConnectionError):
        while not writer.is_closing():
            await asyncio.sleep(0.5)
            writer.write(drop)
            await writer.drain()


async def _valid(target: Target) -> Outcome:
    for _ in range(40):
        marker, started = new_marker(), time.monotonic()
        data = target.request(b"GET", b"/good", "any", user="alice", marker=marker)
        answer = await target.send(data)
        expect(
            answer.statuses == [200] and time.monotonic() - started < PATIENCE,
            f"a good client waited {time.monotonic() - started:.1f} s",
            data,
        )
        await asyncio.sleep(0.1)
    return ACCEPTED
