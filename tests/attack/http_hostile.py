"""B41: can an upstream harm other requests, gate, or the session of its users?"""

import re
from collections.abc import Iterator
from functools import partial

from tests.attack.http_canary import Script
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

OK = b"HTTP/1.1 200 OK\r\n"
SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Injected: 1\r\n\r\nINJECT"
_FIELD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")
OUR_COOKIES = (
    *(
        b"_gate=x",
        b"_gate=x; Path=/",
        b"_gate=; Max-Age=0",
        b"_gate=x; Domain=localhost",
        b" _gate=x",
        b"\t_gate=x",
        b"_gate =x",
        b"_GATE=x",
        b"_gate_0=x",
    ),
    *(
        b"__Host-_gate=x; Path=/; Secure",
        b"__host-_gate_signin_a=x",
        b"_gate_csrf=x",
        b"_gate_signin_a=x",
        b"_gate_admin=x",
        b"_gate_admin_csrf=x",
        b"=_gate=x",
        b"==_gate=x",
        b"_gate",
        b"_gate\t=x",
        b'_gate="x"',
    ),
)
OTHER_COOKIES = (b"mine=1", b"mine=1; Path=/; Domain=localhost", b"my_gate=1", b"gate=1", b"a=_gate=x")


def _answers() -> Iterator[tuple[str, bytes]]:
    """(what is wrong with it, the bytes)."""
    for lines in (
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: 2, 2",
        b"Content-Length: 2\r\nContent-Length: 2",
        b"Content-Length: +2",
    ):
        yield "lengths", OK + lines + b"\r\n\r\nok" + SECOND
    for length in (b"-1", b"x", b"", b"2_0", b"0x2", b" 2 ", b"99999999999999999999", b"1e1", b"\xc2\xb2"):
        yield "length", OK + b"Content-Length: %b\r\n\r\nok" % length + SECOND
    yield "length and chunked", OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + SECOND
    for coding in (
        b"chunked, identity",
        b"identity",
        b"gzip, chunked",
        b"xchunked",
        b"chunked\r\nTransfer-Encoding: chunked",
        b" chunked",
        b"\x0bchunked",
        b"CHUNKED",
    ):
        yield "coding", OK + b"Transfer-Encoding: %b\r\n\r\n2\r\nok\r\n0\r\n\r\n" % coding + SECOND
    for chunks in (
        b"2\r\nokX",
        b"x\r\nok\r\n0\r\n\r\n",
        b"-2\r\nok\r\n0\r\n\r\n",
        b"0x2\r\nok\r\n0\r\n\r\n",
        b"2\nok\n0\n\n",
        b"ffffffffffffffffff\r\nok",
        b"2;a=\nb\r\nok\r\n0\r\n\r\n",
    ):
        yield "chunks", OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + SECOND
    for trailers in (b"X-T: 1\r\n", b"Set-Cookie: _gate=x\r\n", b"Content-Length: 9\r\n", b"bad\r\n", b"X-T: 1\r\n" * 2000):
        yield "trailers", OK + b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\n" + trailers + b"\r\n" + SECOND
    yield "short body", OK + b"Content-Length: 10\r\n\r\nok"
    yield "long body", OK + b"Content-Length: 2\r\n\r\nok" + b"x" * 5000
    yield "a second answer", OK + b"Content-Length: 2\r\n\r\nok" + SECOND
    yield "no framing", OK + b"\r\nok"
    for status in (b"204 No Content", b"304 Not Modified", b"205 Reset"):
        yield "bodyless with a body", b"HTTP/1.1 %b\r\nContent-Length: 2\r\n\r\nok" % status + SECOND
        yield "bodyless, chunked", b"HTTP/1.1 %b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" % status + SECOND
    for line in (
        b"HTTP/1.1 99 x",
        b"HTTP/1.1 1000 x",
        b"HTTP/1.1 abc x",
        b"HTTP/1.1 200",
        b"HTTP/1.0 200 OK",
        b"HTTP/2 200 OK",
        b"HTTP/1.1 -200 x",
        b"GET / HTTP/1.1",
        b"\x00",
        b"ICY 200",
        b"HTTP/1.1 200 \x00",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1 600 x",
        b"HTTP/1.1 200 O\rK",
        b"HTTP/1.1 000 x",
    ):
        yield f"status line {line!r}", line + b"\r\nContent-Length: 2\r\n\r\nok"
    for status in (b"100 Continue", b"102 Processing", b"103 Early Hints", b"199 x"):
        yield "informational storm", b"HTTP/1.1 %b\r\nX: y\r\n\r\n" % status * 500 + OK + b"Content-Length: 2\r\n\r\nok"
        yield "informational and no end", b"HTTP/1.1 %b\r\nSet-Cookie: _gate=x\r\n\r\n" % status
    for status in (b"101 Switching Protocols", b"200 OK"):
        yield "unasked upgrade", b"HTTP/1.1 %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n" % status + SECOND
    for header in (
        b"X: a\nX-Injected: 1",
        b"X: a\rX-Injected: 1",
        b"X: a\x00b",
        b"X\x00: a",
        b"X : a",
        b" X: a",
        b": a",
        b"X",
        b"X: a\r\n X-Injected: 1",
        b"X: \x85X-Injected: 1",
        b"X-Injected\xff: 1",
        b"X: \x0bX-Injected: 1",
        b"X: a\x1b[31m",
    ):
        yield f"header {header!r}", OK + header + b"\r\nContent-Length: 2\r\n\r\nok"
    yield "one large header", OK + b"X: " + b"a" * 70_000 + b"\r\nContent-Length: 2\r\n\r\nok"
    yield "many headers", OK + b"X: a\r\n" * 5000 + b"Content-Length: 2\r\n\r\nok"
    yield "endless headers", OK + b"X: a\r\n" * 200_000
    yield "an endless line", b"HTTP/1.1 200 " + b"a" * 3_000_000
    yield "nothing", b""
    yield "half a head", OK + b"X: y"
    yield (
        "hop-by-hop",
        OK
        + b"Connection: close, X-Gone, content-length\r\nX-Gone: 1\r\nKeep-Alive: x\r\n"
        + b"Proxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nok",
    )
    yield "of gate's kind", OK + b"X-Gate-Jwt-Assertion: x\r\nX-Request-Id: x\r\nContent-Length: 2\r\n\r\nok"


@attack("B41", "hostile upstreams", sample=150)
def hostile(target: Target) -> Iterator[Case]:
    for odd, answer in _answers():
        for closes in (True, False):
            for early in (False, True):
                for method in (b"GET", b"HEAD", b"POST"):
                    if answer or closes:
                        yield Case(f"{odd}, closes={closes}, early={early}, {method!r}", partial(_hostile, answer, closes, early, method))
    for cookie in (*OUR_COOKIES, *OTHER_COOKIES):
        yield Case(f"Set-Cookie: {cookie!r}", partial(_set_cookie, cookie))


async def _hostile(bad: bytes, closes: bool, early: bool, method: bytes, target: Target) -> Outcome:
    marker, follow_up = new_marker(), new_marker()
    target.canaries["hostile"].scripts[marker] = Script(bad, closes, early)
    body = b"x" * 10 if method == b"POST" else b""
    data = target.request(method, b"/bad", "hostile", marker=marker, body=body, close=False)
    reader, writer = await target.open()
    writer.write(data)
    try:
        await _one_answer(reader, method, bad, data)
        writer.write(target.request(b"GET", b"/good-" + follow_up, "hostile", marker=follow_up))
        rest = await _whatever(reader)
    except ConnectionError:
        rest = b""
    finally:
        writer.close()
    expect(b"INJECT" not in rest and b"/bad" not in rest, f"a later answer is not its own: {rest[:300]!r}", bad)
    if rest:
        expect(
            _is_502(rest) or (rest.startswith(b"HTTP/1.1 200") and rest.endswith(b"/good-" + follow_up)),
            f"the next answer: {rest[:300]!r}",
            bad,
        )
    await _next_client(target, bad)
    return ACCEPTED if rest else REFUSED


def _is_502(answer: bytes) -> bool:
    """Gate's own, alone: the upstream's connection broke while this request was put on it."""
    return answer.startswith(b"HTTP/1.1 502") and answer.count(b"HTTP/1.1 ") == 1 and b"x-canary" not in answer


async def _next_client(target: Target, bad: bytes) -> None:
    """A connection that breaks while a request is put on it gives 502, which is honest; a second try must not meet another."""
    for attempt in range(4):
        marker = new_marker()
        clean = await target.send(target.request(b"GET", b"/clean-" + marker, "hostile", marker=marker))
        if clean.statuses == [502] and attempt < 3:
            continue
        expect(clean.statuses == [200] and clean.raw.endswith(b"/clean-" + marker), f"the next client: {clean.raw[:300]!r}", bad)
        return


async def _one_answer(reader, method: bytes, bad: bytes, data: bytes) -> None:
    """Read one response by its framing; ConnectionError where gate cut it."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except EOFError as error:
            raise ConnectionResetError from error
        expect(b"_gate=" not in head.lower(), f"passed on {head[:300]!r}", bad)
        expect(all(map(_FIELD.fullmatch, head.split(b"\r\n")[1:-2])), f"passed on {head[:300]!r}", bad)
        status = int(head.split(b" ")[1])
        if status >= 200:
            break
    lines = head.lower().split(b"\r\n")[1:-2]
    pairs = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    lengths = [value for name, value in pairs if name == b"content-length"]
    is_chunked = (b"transfer-encoding", b"chunked") in pairs
    expect(len(lengths) + is_chunked <= 1, f"two framings: {head!r}", bad)
    if method == b"HEAD" or status in (204, 304):
        return
    try:
        if is_chunked:
            while size := int(await reader.readuntil(b"\r\n"), 16):
                await reader.readexactly(size + 2)
            await reader.readexactly(2)
        elif lengths:
            await reader.readexactly(int(lengths[0]))
        else:
            await reader.read(-1)
    except EOFError as error:
        raise ConnectionResetError from error


async def _whatever(reader) -> bytes:
    try:
        return await reader.read(-1)
    except ConnectionError:
        return b""


async def _set_cookie(cookie: bytes, target: Target) -> Outcome:
    marker = new_marker()
    headers = b"Set-Cookie: mine=1\r\nSet-Cookie: %b\r\nset-cookie: %b\r\n" % (cookie, cookie)
    target.canaries["hostile"].scripts[marker] = Script(OK + headers + b"Content-Length: 2\r\n\r\nok")
    data = target.request(b"GET", b"/", "hostile", marker=marker)
    for _ in range(4):  # the cases beside this one break connections of the same upstream: 502 is honest then
        answer = await target.send(data)
        if answer.statuses != [502]:
            break
    found = answer.responses[0].values(b"set-cookie")
    if cookie in OTHER_COOKIES:
        expect(found.count(cookie) >= 2, f"an application's own cookie was lost: {found!r}", data)
        return ACCEPTED
    expect(found in ([], [b"mine=1"]), f"an upstream set {found!r}", cookie)
    return REFUSED
