"""B20, B22: do large, many and compressed things meet their limit, and cost gate no memory?"""

import asyncio
import gzip
import hashlib
from collections.abc import Iterator
from functools import partial

from tests.attack.http_canary import Script
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

KIB = 1024
MAX_GROWTH = 64 << 20
SLACK = 24 << 20  # what ten megabytes in flight may cost
FLOOD = 2000


@attack("B20", "decompression bombs", together=1, sample=3)
def bombs(target: Target) -> Iterator[Case]:
    for coding in (b"gzip", b"deflate", b"br", b"gzip, gzip", b"x-gzip", b"zstd"):
        for framing in ("length", "chunked"):
            yield Case(f"answer, {coding!r}, {framing}", partial(_bomb_answer, coding, framing))
            yield Case(f"upload, {coding!r}, {framing}", partial(_bomb_upload, coding, framing))


def _bomb() -> bytes:
    """Ten megabytes that become ten gigabytes: a gzip of zeros, member after member."""
    member = gzip.compress(b"\0" * (10 << 20), 9, mtime=0)
    return member * ((10 << 20) // len(member))


async def _bomb_answer(coding: bytes, framing: str, target: Target) -> Outcome:
    bomb, marker, before = _bomb(), new_marker(), target.memory()
    frame = (
        b"Content-Length: %d\r\n\r\n%b" % (len(bomb), bomb)
        if framing == "length"
        else b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(bomb), bomb)
    )
    target.canaries["public"].scripts[marker] = Script(b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\n%b" % (coding, frame))
    data = target.request(b"GET", b"/bomb", "public", marker=marker, headers=b"Accept-Encoding: gzip\r\n")
    answer = await target.send(data, wait=30)
    del target.canaries["public"].scripts[marker]
    (response,) = answer.responses
    expect(
        response.values(b"content-encoding") == [coding] and response.body == bomb, f"{len(response.body)} of {len(bomb)} bytes came", data
    )
    expect(target.memory() - before < SLACK, f"gate grew by {(target.memory() - before) >> 20} MiB", data)
    return ACCEPTED


async def _bomb_upload(coding: bytes, framing: str, target: Target) -> Outcome:
    bomb, marker, before = _bomb()[: 1 << 20], new_marker(), target.memory()
    header = b"Content-Encoding: %b\r\n" % coding
    header += b"Content-Length: %d\r\n" % len(bomb) if framing == "length" else b"Transfer-Encoding: chunked\r\n"
    body = bomb if framing == "length" else b"%x\r\n%b\r\n0\r\n\r\n" % (len(bomb), bomb)
    data = target.request(b"POST", b"/bomb", "public", marker=marker, headers=header)
    answer = await target.send(data, body, wait=30)
    (hit,) = target.ledger.hits(marker)
    expect(answer.statuses == [200] and hit.values(b"content-encoding") == [coding], f"answered {answer.raw[:100]!r}", data)
    expect(hashlib.sha256(hit.body).digest() == hashlib.sha256(bomb).digest(), f"{len(hit.body)} of {len(bomb)} bytes came", data)
    expect(target.memory() - before < SLACK, f"gate grew by {(target.memory() - before) >> 20} MiB", data)
    return ACCEPTED


@attack("B22", "large and many", together=4, sample=12, minutes=2)
def large(target: Target) -> Iterator[Case]:
    heads = [
        (b"/" + b"a" * size, b"", 200 if size + 1 <= 8 * KIB else 414) for size in (8000, 8191, 8192, 8193, 9000, 16_000, 60_000, 1_000_000)
    ]
    heads += [(b"/?" + b"a" * size, b"", 200 if size + 2 <= 8 * KIB else 414) for size in (8190, 8191, 100_000)]
    heads += [
        (b"/x", b"X: %b\r\n" % (b"a" * size), 200 if size < 16 * KIB - 8 else 431)
        for size in (10_000, 16_000, 16_384, 17_000, 60_000, 1_000_000)
    ]
    heads += [(b"/x", b"X: %b\r\n" % (b"a" * 1000) * count, 200 if count <= 30 else 431) for count in (20, 30, 33, 40, 1000)]
    heads += [(b"/x", b"X: y\r\n" * count, 200 if count <= 96 else 431) for count in (90, 96, 101, 500, 5_000, 50_000)]
    heads += [(b"/x", b"%b: y\r\n" % (b"a" * size), 200 if size < 16_000 else 431) for size in (1000, 17_000, 100_000)]
    heads += [
        (b"/x", b"Cookie: %b\r\n" % b"; ".join(b"c%d=%b" % (n, b"v" * 80) for n in range(count)), 200 if count <= 150 else 431)
        for count in (150, 400, 5000)
    ]
    for path, headers, status in heads:
        for site, user in (("public", None), ("group", None), ("any", "alice")):
            yield Case(
                f"{len(path)} bytes of URL, {len(headers)} of headers at {site}", partial(_large_head, path, headers, status, site, user)
            )
    for path in (b"/.gate/", b"/.gate/signout/", b"/.gate/sign_in", b"/ping", b"/oauth2/callback", b"/.gate/admin/login/", b"/nothing"):
        for size in (1 << 16, (1 << 16) + 1, 1 << 22):
            for chunked in (False, True):
                yield Case(f"{size} bytes to our own {path!r}", partial(_own_body, path, size, chunked))
    for chunked in (False, True):
        for site, user in (("public", None), ("group", "alice")):
            yield Case(f"1 GiB upload, chunked={chunked} at {site}", partial(_upload, 1 << 30, chunked, site, user))
        yield Case(f"64 MiB upload to a refusal, chunked={chunked}", partial(_refused_upload, 64 << 20, chunked))
    yield Case("a reader that stops", _stopped_reader)
    for number in range(20):
        yield Case(f"anonymous flood {number}", partial(_flood, FLOOD // 20))


async def _large_head(path: bytes, headers: bytes, status: int, site: str, user: str | None, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(b"GET", path, site, user=user, marker=marker, headers=headers, accept=b"")
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    wanted = {200: [401]}.get(status, [status]) if site == "group" else [status]
    expect(
        answer.is_closed and answer.statuses in (wanted, [431]) if status == 200 and user else answer.statuses == wanted,
        f"answered {answer.raw[:100]!r}, not {wanted}",
        data,
    )
    expect(not hits or status == 200, "an upstream saw it", data)
    return ACCEPTED if hits else REFUSED


async def _own_body(path: bytes, size: int, chunked: bool, target: Target) -> Outcome:
    before = target.memory()
    framing = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % size
    data = target.request(b"POST", path, "authenticate", headers=framing + b"Content-Type: application/x-www-form-urlencoded\r\n")
    body = b"a=" + b"b" * (size - 2)
    answer = await target.send(data, b"%x\r\n%b\r\n0\r\n\r\n" % (size, body) if chunked else body, wait=20)
    expect(
        answer.is_closed and (not answer.raw or 400 <= answer.statuses[0] < 500 or answer.statuses[0] in (200, 302)),
        f"answered {answer.raw[:100]!r}",
        data,
    )
    expect(target.memory() - before < SLACK, "grew", data)
    return REFUSED


async def _upload(size: int, chunked: bool, site: str, user: str | None, target: Target) -> Outcome:
    marker, before, maximum = new_marker(), target.memory(), 0
    framing = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % size
    data = target.request(b"POST", b"/up", site, user=user, marker=marker, headers=framing)
    reader, writer = await target.open()
    writer.write(data)
    block = b"x" * (1 << 20)
    for _ in range(size >> 20):
        writer.write(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
        await writer.drain()
        maximum = max(maximum, target.memory() - before)
    writer.write(b"0\r\n\r\n" if chunked else b"")
    answer = await reader.read()
    writer.close()
    expect(answer.startswith(b"HTTP/1.1 200"), f"answered {answer[:100]!r}", data)
    expect(maximum < MAX_GROWTH, f"gate grew by {maximum >> 20} MiB", data)
    return ACCEPTED


async def _refused_upload(size: int, chunked: bool, target: Target) -> Outcome:
    marker = new_marker()
    framing = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % size
    data = target.request(b"POST", b"/up", "group", marker=marker, headers=framing, close=False)
    reader, writer = await target.open()
    writer.write(data)
    block = b"x" * (1 << 20)
    try:
        for _ in range(size >> 20):
            writer.write(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
            await writer.drain()
    except ConnectionError:
        pass
    try:
        answer = await reader.read()
    except ConnectionError:
        answer = b"HTTP/1.1 401 (reset)"
    writer.close()
    expect(answer.startswith(b"HTTP/1.1 401") and answer.count(b"HTTP/1.1 ") == 1, f"answered {answer[:200]!r}", data)
    expect(not target.ledger.hits(marker), "an upstream saw it", data)
    return REFUSED


async def _stopped_reader(target: Target) -> Outcome:
    marker, before = new_marker(), target.memory()
    size = 128 << 20
    target.canaries["public"].scripts[marker] = Script(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size), closes=True)
    data = target.request(b"GET", b"/down", "public", marker=marker)
    _, writer = await target.open()
    writer.transport.pause_reading()
    writer.write(data)
    maximum = 0
    for _ in range(40):
        await asyncio.sleep(0.05)
        maximum = max(maximum, target.memory() - before)
    writer.close()
    del target.canaries["public"].scripts[marker]
    expect(maximum < MAX_GROWTH, f"gate grew by {maximum >> 20} MiB", data)
    return ACCEPTED


async def _flood(count: int, target: Target) -> Outcome:
    """Unauthenticated requests leave no records; the class's memory check covers the rest."""
    for number in range(count):
        marker = new_marker()
        data = target.request(
            b"GET", b"/%d" % number, "group", marker=marker, headers=b"Cookie: _gate=%d; _gate_signin_%d=x\r\n" % (number, number)
        )
        answer = await target.send(data)
        expect(answer.statuses == [302] and not target.ledger.hits(marker), f"answered {answer.raw[:100]!r}", data)
    return REFUSED
