"""The published families of HTTP/1.1 desync, each written as (family, builder): which line does one reader see, and the other not?

A builder makes the bytes of one connection from the first request's good header lines and the whole second request.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

from tests.attack.http_smuggling_requests import Builder, cl_te, te_cl, te_only

CHUNKED = b"Transfer-Encoding: chunked"
_SPACES = (
    b" ",
    b"\t",
    b"\x0b",
    b"\x0c",
    b"\x00",
    b"\r",
    b"\n",
    b"\r\n ",
    b"\r\n\t",
    b"\x1f",
    b"\x7f",
    b"\x85",
    b"\xa0",
    b"\xff",
    b"  ",
    b" \t",
)
_VALUES = (
    *(b"chunked", b"Chunked", b"CHUNKED", b"cHuNkEd", b"xchunked", b"chunkedx", b"chunke", b"chunk", b"x", b"", b"identity", b"gzip"),
    *(
        b"chunked, identity",
        b"identity, chunked",
        b"chunked,",
        b",chunked",
        b"chunked, chunked",
        b"gzip,chunked",
        b"chunked;q=0",
        b"chunked;",
    ),
    *(
        b'"chunked"',
        b"'chunked'",
        b"[chunked]",
        b"(chunked)",
        b"chunked#",
        b"\\chunked",
        b"chun\\ked",
        b"chunk%65d",
        b"=?utf-8?q?chunked?=",
    ),
    *(
        b"\xef\xbd\x83hunked",
        b"chun\xe2\x84\xaaed",
        b"\xef\xbb\xbfchunked",
        b"\xe3\x80\x80chunked",
        b"chunked\xe2\x80\xa8",
        b"ch\xc2\xadunked",
    ),
)
_NAMES = (
    *(b"Transfer-Encoding", b"transfer-encoding", b"TRANSFER-ENCODING", b"tRANSFER-eNCODING", b"Transfer_Encoding", b"Transfer.Encoding"),
    *(
        b"TransferEncoding",
        b"Transfer Encoding",
        b"Transfer-Encoding-",
        b"-Transfer-Encoding",
        b"X-Transfer-Encoding",
        b"Transfer--Encoding",
    ),
    *(
        b"Transf\xc3\xa9r-Encoding",
        b"Tran\xc5\xbffer-Encoding",
        b"Transfer\xe2\x80\x90Encoding",
        b'"Transfer-Encoding"',
        b"Transfer-Encoding:",
    ),
)
# What stands before the line, as another header's beginning; and behind it.
_BEFORE = (
    b"",
    b"X: y\r\n",
    b"X: y\n",
    b"X: y\r",
    b"X: y\r\n ",
    b"X: y\r\n\t",
    b"X:\r\n",
    b"X\r\n",
    b": y\r\n",
    b"X: y\x00\r\n",
    b"X: y\r\r\n",
    b" X: y\r\n",
)
_BEHIND = (b"", b"\r\nX: y", b"\nX: y", b"\rX: y", b"\r\n X", b"\r\n\tX", b"\r\nX", b"\r", b"\x00", b"\r\n:", b"\r\n chunked")


def single() -> Iterator[bytes]:
    """One Transfer-Encoding line, bent in one place."""
    for value in _VALUES:
        yield b"Transfer-Encoding: " + value
    for name in _NAMES:
        yield name + b": chunked"
    for space in _SPACES:
        yield from (
            b"Transfer-Encoding" + space + b": chunked",
            b"Transfer-Encoding:" + space + b"chunked",
            b"Transfer-Encoding: chunked" + space,
            space + b"Transfer-Encoding: chunked",
            b"Transfer-" + space + b"Encoding: chunked",
            b"Transfer-Encoding: chun" + space + b"ked",
        )
    for before, behind in product(_BEFORE, _BEHIND):
        yield before + CHUNKED + behind


def exhaustive() -> Iterator[bytes]:
    """Two bends in one line: what precedes, the space before or after the colon, and the value or the name."""
    for space, value in product(_SPACES, _VALUES):
        yield b"Transfer-Encoding:" + space + value
    for space, name in product(_SPACES[:6], _NAMES):
        yield name + space + b": chunked"
    for before, value in product(_BEFORE[1:], _VALUES):
        yield before + b"Transfer-Encoding: " + value


def doubles() -> Iterator[bytes]:
    """Two lines, one of them bent: does a reader take the first, the last, both joined, or none?"""
    for line in single():
        for other in (CHUNKED, b"Transfer-Encoding: identity", b"Transfer-Encoding: x"):
            yield line + b"\r\n" + other
            yield other + b"\r\n" + line


def length_lines() -> Iterator[bytes]:
    """Content-Length, seen by one reader only: `%d` is what it says."""
    for before, behind in product(_BEFORE, _BEHIND[:-1]):
        yield before + b"Content-Length: %d" + behind
    for name in _NAMES:
        yield name.replace(b"Transfer", b"Content").replace(b"TRANSFER", b"CONTENT").replace(b"Encoding", b"Length") + b": %d"
    for space in _SPACES:
        yield from (
            b"Content-Length" + space + b": %d",
            b"Content-Length:" + space + b"%d",
            b"Content-Length: %d" + space,
            space + b"Content-Length: %d",
            b"Content-" + space + b"Length: %d",
            b"Content-Length: " + space + b"%d",
        )
    for sign in (b"+", b"-", b"0", b"0x", b"00", b"1,", b"0,", b'"', b"=", b"\\", b"%%", b"\xef\xbc\x90", b"\xd9\xa0"):
        yield b"Content-Length: " + sign + b"%d"
        yield b"Content-Length: %d" + sign
    for other in (b"0", b"1", b"-1", b"", b"x", b"%d"):
        yield b"Content-Length: %d\r\nContent-Length: " + other
        yield b"Content-Length: " + other + b"\r\nContent-Length: %d"
        yield b"Content-Length: %d\r\nX: y\r\ncontent-length: " + other


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
    return b"%b %b HTTP/1.1\r\n%b%b\r\n\r\n%b" % (method, path, head, _told(line, len(second)), second)


def zero_cl(method: bytes, path: bytes, line: bytes, head: bytes, second: bytes) -> bytes:
    """The reader in front sees no length, so the second request is one; the reader behind takes its beginning for a body."""
    start, _, rest = second.partition(b"\r\n")
    return b"%b %b HTTP/1.1\r\n%b%b\r\n\r\n%b\r\n%b" % (method, path, head, _told(line, len(start) + 2), start, rest)


def expecting(method: bytes, expect: bytes, framing: bytes, head: bytes, second: bytes) -> bytes:
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(second), second) if framing == CHUNKED else second
    return b"%b /first HTTP/1.1\r\n%b%b\r\n%b\r\n\r\n%b%b" % (method, head, expect, _told(framing, len(second)), body, second)


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
    """The line that frames stands behind more headers than one reader looks at."""
    body = b"0\r\n\r\n" + second
    more = b"".join(b"X-%d: y\r\n" % number for number in range(count))
    return b"POST /first HTTP/1.1\r\n%b%b%b\r\n\r\n%b" % (head, more, _told(line, len(body)), body)


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
    """What is worth waiting before: the second part is sent when the first has been answered, or given up."""
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


def _told(line: bytes, number: int) -> bytes:
    return line.replace(b"%d", b"%d" % number).replace(b"%%", b"%")
