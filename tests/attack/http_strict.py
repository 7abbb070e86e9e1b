"""What would a reader see in these bytes that forgives nothing?  The second opinion beside gate's own, written apart from it."""

import re
from dataclasses import dataclass

_TOKEN = rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_LINE = re.compile(rb"(%b) (\S+) HTTP/1\.1" % _TOKEN)
_FIELD = re.compile(rb"(%b):([^\x00-\x08\x0a-\x1f\x7f]*)" % _TOKEN)
_SIZE = re.compile(rb"([0-9A-Fa-f]+)([ \t]*;[^\r\n\x00]*)?")


@dataclass(frozen=True)
class StrictRequest:
    method: bytes
    target: bytes
    body: bytes
    head: bytes
    is_last: bool = False  # it asks to close


def strict_requests(data: bytes) -> list[StrictRequest]:
    """The requests up to the first that is malformed, ambiguous or unfinished."""
    found: list[StrictRequest] = []
    while data:
        data = data.removeprefix(b"\r\n")  # RFC 9112 2.2: one empty line before a request line is nothing
        head, separator, rest = data.partition(b"\r\n\r\n")
        read = _request(head, rest) if separator else None
        if read is None:
            break
        request, data = read
        found.append(request)
        if request.is_last:
            break
    return found


def _request(head: bytes, rest: bytes) -> tuple[StrictRequest, bytes] | None:
    line, *lines = head.split(b"\r\n")
    started, fields = _LINE.fullmatch(line), [_FIELD.fullmatch(each) for each in lines]
    if started is None or not all(fields):
        return None
    pairs = [(field[1].lower(), field[2].strip(b" \t")) for field in fields if field]
    values = {
        name: [value for key, value in pairs if key == name] for name in (b"host", b"content-length", b"transfer-encoding", b"connection")
    }
    if len(values[b"host"]) != 1:
        return None
    cut = _body(values[b"content-length"], values[b"transfer-encoding"], rest)
    if cut is None:
        return None
    is_last = any(b"close" in re.split(rb"[ \t]*,[ \t]*", value.lower()) for value in values[b"connection"])
    return StrictRequest(started[1], started[2], cut[0], head, is_last), cut[1]


def _body(lengths: list[bytes], codings: list[bytes], rest: bytes) -> tuple[bytes, bytes] | None:
    if not lengths and not codings:
        return b"", rest
    if len(lengths) + len(codings) != 1:
        return None
    if codings:
        return _chunks(rest) if codings[0].lower() == b"chunked" else None
    if not re.fullmatch(rb"[0-9]{1,18}", lengths[0]) or len(rest) < int(lengths[0]):
        return None
    return rest[: int(lengths[0])], rest[int(lengths[0]) :]


def _chunks(rest: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while True:
        line, found, rest = rest.partition(b"\r\n")
        size = _SIZE.fullmatch(line)
        if not found or size is None or len(size[1]) > 16:
            return None
        length = int(size[1], 16)
        if length == 0:
            return _trailers(body, rest)
        if rest[length : length + 2] != b"\r\n":
            return None
        body, rest = body + rest[:length], rest[length + 2 :]


def _trailers(body: bytes, rest: bytes) -> tuple[bytes, bytes] | None:
    while True:
        line, found, rest = rest.partition(b"\r\n")
        if not found:
            return None
        if not line:
            return body, rest
        if _FIELD.fullmatch(line) is None:
            return None
