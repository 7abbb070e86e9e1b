"""The published families of HTTP/1.1 desync, each written as (family, builder): which line does one reader see, and the other not?

A builder makes the bytes of one connection from the first request's good header lines and the whole second request.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

from tests.attack.http_smuggling_bends import CHUNKED, doubles, exhaustive, length_lines, single
from tests.attack.http_smuggling_requests import Builder, cl_te, te_cl, te_only

_METHODS = (b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT", b"DELETE", b"TRACE", b"CONNECT", b"get", b"PRI")
# Paths that are answered before a body is read: our own pages, static answers, redirects, nothing.
_UNREAD = (
    b"/",
    b"/ping",
    b"/robots.txt",
    b"/.gate/",
    b"/.gate/signout/",
    b"/.gate/jwt",
    b"/oauth2/callback",
    b"/.well-known/gate/",
    b"*",
    b"/a//b;x",
)
_EXPECT = (
    *(
        b"Expect: 100-continue",
        b"Expect: 100-Continue",
        b"Expect:100-continue",
        b"Expect: y 100-continue",
        b"Expect: 100-continue,",
        b"Expect: x",
    ),
    *(
        b"Expect:\r\n 100-continue",
        b" Expect: 100-continue",
        b"Expect : 100-continue",
        b"Expect: 100-continue\r\nExpect: x",
        b"Expect: \x00",
    ),
    *(b"X: y\r\n Expect: 100-continue", b"Expect: 200-ok", b"Expect: 100-continue\r", b'Expect: "100-continue"', b"Expect;: 100-continue"),
)
_ENDS = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\n\n",
    b"\r\r",
    b"\r\n ",
    b" \r\n",
    b"\x00\r\n",
    b";\r\n",
    b";\n",
    b";a\n",
    b";a=\r",
    b';"\r\n"',
    b"; \r\n",
    b"\t\r\n",
    b";\r",
)


def cl_0(method: bytes, path: bytes, line: bytes, head: bytes, second: bytes) -> bytes:
    """The reader behind ignores the length: is the body a request to it?"""
    return b"%b %b HTTP/1.1\r\n%b%b\r\n\r\n%b" % (method, path, head, _received(line, len(second)), second)


def zero_cl(method: bytes, path: bytes, line: bytes, head: bytes, second: bytes) -> bytes:
    """The reader in front sees no length, so the second request is one; the reader behind takes its beginning for a body."""
    start, _, rest = second.partition(b"\r\n")
    return b"%b %b HTTP/1.1\r\n%b%b\r\n\r\n%b\r\n%b" % (method, path, head, _received(line, len(start) + 2), start, rest)


def expecting(method: bytes, expect: bytes, framing: bytes, head: bytes, second: bytes) -> bytes:
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(second), second) if framing == CHUNKED else second
    return b"%b /first HTTP/1.1\r\n%b%b\r\n%b\r\n\r\n%b%b" % (method, head, expect, _received(framing, len(second)), body, second)


def te_0(method: bytes, path: bytes, line: bytes, head: bytes, second: bytes) -> bytes:
    """The reader behind ignores the coding: the chunk's size is a broken request line, what is in it a whole request."""
    return b"%b %b HTTP/1.1\r\n%b%b\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (method, path, head, line, len(second), second)


def line_end(size_end: bytes, data_end: bytes, last_end: bytes, head: bytes, second: bytes) -> bytes:
    """TERM.EXT, EXT.TERM, TERM.SPILL, SPILL.TERM: who takes what for the end of a chunk's line?"""
    start = b"POST /first HTTP/1.1\r\n%b%b\r\n\r\n" % (head, CHUNKED)
    return start + b"2" + size_end + b"hi" + data_end + b"%x\r\n%b\r\n0" % (len(second), second) + last_end + b"\r\n" + second


def extension(text: bytes, head: bytes, second: bytes) -> bytes:
    """A chunk extension that one reader ends at another line end: what follows is its data, or a request."""
    start = b"POST /first HTTP/1.1\r\n%b%b\r\n\r\n" % (head, CHUNKED)
    return start + b"2;%b\r\nhi\r\n0\r\n\r\n%b" % (text.replace(b"{}", second), second)


def spill(size: int, head: bytes, second: bytes) -> bytes:
    """A chunk whose data is longer or shorter than it says."""
    start = b"POST /first HTTP/1.1\r\n%b%b\r\n\r\n" % (head, CHUNKED)
    return start + b"%x\r\n%b\r\n0\r\n\r\n%b" % (max(len(second) + size, 0), second, second)


def trailer(text: bytes, head: bytes, second: bytes) -> bytes:
    start = b"POST /first HTTP/1.1\r\n%b%b\r\n\r\n" % (head, CHUNKED)
    return start + b"2\r\nhi\r\n0\r\n" + text.replace(b"{}", second) + b"\r\n" + second


def connection_state(first: bytes, head: bytes, second: bytes) -> bytes:
    """A first request that is liked well says nothing about the second, to another host."""
    return b"GET /first HTTP/1.1\r\n%b\r\n%b" % (head, second.replace(b"\r\nHost: ", b"\r\n" + first + b"Host: ", 1))


def many_headers(count: int, line: bytes, head: bytes, second: bytes) -> bytes:
    """The framing header comes after more headers than one parser reads."""
    body = b"0\r\n\r\n" + second
    more = b"".join(b"X-%d: y\r\n" % number for number in range(count))
    return b"POST /first HTTP/1.1\r\n%b%b%b\r\n\r\n%b" % (head, more, _received(line, len(body)), body)


def families() -> Iterator[tuple[str, Builder]]:
    """TE.CL, CL.TE and TE.TE around each mutated line first; then the families that need no second framing."""
    for name, lines in (("single", single()), ("two bends", exhaustive()), ("double", doubles())):
        for line in lines:
            for make in (te_cl, cl_te, te_only):
                yield f"{make.__name__}, {name} {line[:50]!r}", partial(make, line)
    yield from _without_a_length()
    yield from _within_chunks()
    for method, expect in product(_METHODS[:6], _EXPECT):
        for framing in (b"Content-Length: %d", CHUNKED):
            yield f"{method!r} {expect!r} {framing!r}", partial(expecting, method, expect, framing)
    for first in (b"", b"X: y\r\n", b"Host: other.localhost\r\n", b"Connection: close\r\n", b"Connection: host\r\n", b"Host:\r\n", b" "):
        yield f"connection state {first!r}", partial(connection_state, first)
    for count in (20, 50, 97, 99, 100, 101, 128, 200, 1000):
        for line in (CHUNKED, b"Content-Length: %d", b"Content-Length : %d"):
            yield f"{count} headers before {line!r}", partial(many_headers, count, line)


def pauses() -> Iterator[tuple[str, Builder]]:
    """Parts that are sent after a pause: the second part is sent when the first has been answered, or given up."""
    for method, path in product(_METHODS[:6], _UNREAD):
        yield f"CL.0 {method!r} {path!r}", partial(cl_0, method, path, b"Content-Length: %d")
        yield f"TE.0 {method!r} {path!r}", partial(te_0, method, path, CHUNKED)
    for expect in _EXPECT[:3]:
        for framing in (b"Content-Length: %d", CHUNKED):
            yield f"{expect!r} {framing!r}", partial(expecting, b"POST", expect, framing)


def _without_a_length() -> Iterator[tuple[str, Builder]]:
    for line in length_lines():
        for method in (b"GET", b"POST", b"OPTIONS"):
            yield f"CL.0 {method!r} {line[:50]!r}", partial(cl_0, method, b"/first", line)
            yield f"0.CL {method!r} {line[:50]!r}", partial(zero_cl, method, b"/first", line)
    for method, path in product(_METHODS, _UNREAD):
        yield f"CL.0 {method!r} {path!r}", partial(cl_0, method, path, b"Content-Length: %d")
        yield f"0.CL {method!r} {path!r}", partial(zero_cl, method, path, b"Content-Length : %d")
        yield f"TE.0 {method!r} {path!r}", partial(te_0, method, path, CHUNKED)
    for method, line in product((b"OPTIONS", b"GET", b"HEAD"), single()):
        yield f"TE.0 {method!r} {line[:50]!r}", partial(te_0, method, b"/first", line)


def _within_chunks() -> Iterator[tuple[str, Builder]]:
    for ends in product(_ENDS, _ENDS[:8], (b"\r\n", b"\n", b"\r", b" \r\n", b";a\r\n")):
        yield f"chunk line ends {ends!r}", partial(line_end, *ends)
    for text in (
        b"\n{}",
        b"\r{}",
        b"a\n{}",
        b'a="\n{}"',
        b'a="\r\n{}"',
        b"a=\\\n{}",
        b"\x00{}",
        b"\n\n{}",
        b"a\r\r\n{}",
        b"\nxx\r\n4c\r\n{}",
        b"a=" + b"b" * 70_000,
    ):
        yield f"chunk extension {text[:40]!r}", partial(extension, text)
    for size in (-3, -2, -1, 1, 2, 3, 7, -10_000):
        yield f"chunk data of {size:+} bytes", partial(spill, size)
    for text in (
        b"{}",
        b"X: y\n{}",
        b"X: y\r{}",
        b"\n{}",
        b" \r\n{}",
        b"X\r\n{}",
        b"Content-Length: 30\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Host: evil\r\n",
        b"\r\n{}",
    ):
        yield f"trailer {text[:40]!r}", partial(trailer, text)


def _received(line: bytes, number: int) -> bytes:
    return line.replace(b"%d", b"%d" % number).replace(b"%%", b"%")
