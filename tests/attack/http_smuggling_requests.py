"""Two requests around a doubtful line: the second must not count where it is part of a body.

Each builder gets the first request's good header lines, and the whole second request.
"""

from collections.abc import Callable, Iterator

Builder = Callable[[bytes, bytes], bytes]


def cl_te(line: bytes, head: bytes, second: bytes) -> bytes:
    body = b"0\r\n\r\n" + second
    return b"POST /first HTTP/1.1\r\n%b%b\r\nContent-Length: %d\r\n\r\n%b" % (head, line, len(body), body)


def te_cl(line: bytes, head: bytes, second: bytes) -> bytes:
    chunk = b"%x\r\n" % len(second)
    return b"POST /first HTTP/1.1\r\n%bContent-Length: %d\r\n%b\r\n\r\n%b%b\r\n0\r\n\r\n" % (head, len(chunk), line, chunk, second)


def te_only(line: bytes, head: bytes, second: bytes) -> bytes:
    return b"POST /first HTTP/1.1\r\n%b%b\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (head, line, len(second), second)


def fill(form: bytes, number: int) -> bytes:
    count = form.count(b"%d") + form.count(b"%x") + form.count(b"%o") + form.count(b"%X")
    return form % ((number,) * count)


def length(line: bytes, head: bytes, second: bytes) -> bytes:
    return b"POST /first HTTP/1.1\r\n%b%b\r\n\r\n%b" % (head, fill(line, len(second)), second)


def chunk(size: bytes, after_size: bytes, after_data: bytes, trailers: bytes, head: bytes, second: bytes) -> bytes:
    start = b"POST /first HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n" % head
    return start + fill(size, len(second)) + after_size + second + after_data + b"0\r\n" + trailers + b"\r\n" + second


def last_chunk(end: bytes, head: bytes, second: bytes) -> bytes:
    return b"POST /first HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0%b%b" % (head, end, second)


def odd_heads() -> Iterator[tuple[bytes, bytes]]:
    """(request line, more header lines)."""
    for line in (
        b"POST /first HTTP/1.0",
        b"POST /first HTTP/1.1 ",
        b" POST /first HTTP/1.1",
        b"POST  /first HTTP/1.1",
        b"POST\t/first\tHTTP/1.1",
    ):
        yield line, b"Transfer-Encoding: chunked\r\n"
        yield line, b"Content-Length: 5\r\n"
    for path in (b"/a\r\nX: y", b"/a HTTP/1.1\r\nX: y\r\n\r\nGET /b", b"http://a\r\nb/", b"/a%0d%0aX:%20y", b"/a\x85b", b"/a b"):
        yield b"POST %b HTTP/1.1" % path, b"Content-Length: 5\r\n"
    for more in (
        b"Content-Length: 5\r\nX\r\n",
        b"Content-Length: 5\r\n: y\r\n",
        b"X: y\r\n\tz\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
    ):
        yield b"POST /first HTTP/1.1", more
    yield b"POST /first HTTP/1.1", b"Connection: content-length\r\nContent-Length: 5\r\n"
    yield b"POST /first HTTP/1.1", b"Connection: close, content-length\r\nContent-Length: 5\r\n"


def odd_head(line: bytes, more: bytes, head: bytes, second: bytes) -> bytes:
    return line + b"\r\n" + head + more + b"\r\n0\r\n\r\n" + second


def expecting(value: bytes, head: bytes, second: bytes) -> bytes:
    return b"POST /first HTTP/1.1\r\n%bExpect: %b\r\nContent-Length: %d\r\n\r\n%b%b" % (head, value, len(second), second, second)


def early(method: bytes, head: bytes, second: bytes) -> bytes:
    return b"%b /first HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n%b" % (
        method,
        head,
        len(second),
        second,
        second,
    )


def get_with_body(head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b%b" % (head, len(second), second, second)


def refused_with_body(head: bytes, second: bytes) -> bytes:
    return b"POST /first HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (head, 200_000, second * 2)


def unread_body(head: bytes, second: bytes) -> bytes:
    return b"POST /first HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b%b" % (head, 70_000, second.ljust(70_000, b"x"), second)


def upgrade(head: bytes, second: bytes) -> bytes:
    wanted = b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
    return b"GET /first HTTP/1.1\r\n%b%b\r\n%b" % (head, wanted, second)


def connect(head: bytes, second: bytes) -> bytes:
    return b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n%b\r\n%b" % (head, second)


def pipelined(head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%b\r\n%b" % (head, second)


def half_pipelined(head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%b\r\n%b" % (head, second[:-2])


def blank_lines(head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%b\r\n\r\n\r\n%b" % (head, second)


def between(odd: bytes, head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%b\r\n%b%b" % (head, odd, second)


def before_first(odd: bytes, head: bytes, second: bytes) -> bytes:
    return b"%bGET /first HTTP/1.1\r\n%b\r\n%b" % (odd, head, second)


def in_request_line(odd: bytes, head: bytes, second: bytes) -> bytes:
    return b"GET /fi%brst HTTP/1.1\r\n%b\r\n%b" % (odd, head, second)


def in_header_name(odd: bytes, head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%bX-O%bdd: y\r\n\r\n%b" % (head, odd, second)


def in_header_value(odd: bytes, head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%bX-Odd: y%bContent-Length: 30\r\n\r\n%b" % (head, odd, second)


def after_value(odd: bytes, head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%bContent-Length: 30%b\r\n\r\n%b" % (head, odd, second)


def for_cr(odd: bytes, head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%bX-Odd: y%b\n\r\n%b" % (head, odd, second)


def for_lf(odd: bytes, head: bytes, second: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n%bX-Odd: y\r%b\r\n%b" % (head, odd, second)
