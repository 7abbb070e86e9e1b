"""Which responses are in these bytes?  Read strictly, because a lenient reader would not notice an injected one."""

import re
from dataclasses import dataclass

_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) [\t\x20-\x7e\x80-\xff]*")
_HEADER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class Garbled(AssertionError):
    """The bytes are no sequence of whole, well-formed responses."""


@dataclass(frozen=True)
class Response:
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for candidate, value in self.headers if candidate.lower() == name.lower()]

    @property
    def announces_close(self) -> bool:
        return any(b"close" in value.lower() for value in self.values(b"connection"))


def split_responses(raw: bytes, methods: tuple[bytes, ...] = (), *, is_closed: bool) -> list[Response]:
    """The final responses in order; the n-th answers the n-th of `methods` (GET where there are fewer)."""
    found: list[Response] = []
    position = 0
    while position < len(raw):
        method = methods[len(found)] if len(found) < len(methods) else b"GET"
        response, position = _one(raw, position, method, is_closed)
        if response.status >= 200:
            found.append(response)
    return found


def _one(raw: bytes, start: int, method: bytes, is_closed: bool) -> tuple[Response, int]:
    end = raw.find(b"\r\n\r\n", start)
    if end == -1:
        raise Garbled(f"no whole response head in {raw[start : start + 200]!r}")
    line, *lines = raw[start:end].split(b"\r\n")
    match = _STATUS_LINE.fullmatch(line)
    if match is None or not all(map(_HEADER.fullmatch, lines)):
        raise Garbled(f"a malformed response head {raw[start : end + 4][:500]!r}")
    headers = tuple((name, value.strip(b" \t")) for name, _, value in (each.partition(b":") for each in lines))
    response = Response(int(match[1]), headers, b"")
    body, position = _body(raw, end + 4, method, response, is_closed)
    return Response(response.status, headers, body), position


def _body(raw: bytes, start: int, method: bytes, response: Response, is_closed: bool) -> tuple[bytes, int]:
    if method == b"HEAD" or response.status < 200 or response.status in (204, 304):
        return b"", start
    lengths, codings = response.values(b"content-length"), response.values(b"transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise Garbled(f"a response with two framings: {response.headers!r}")
    if codings:
        return _chunked(raw, start)
    if lengths:
        end = start + int(lengths[0])
        if end > len(raw):
            raise Garbled(f"a response body of {len(raw) - start} bytes where {lengths[0]!r} were announced")
        return raw[start:end], end
    if not is_closed or not response.announces_close:
        raise Garbled(f"a response without framing on an open connection: {response.headers!r}")
    return raw[start:], len(raw)


def _chunked(raw: bytes, start: int) -> tuple[bytes, int]:
    body = bytearray()
    while True:
        line_end = raw.find(b"\r\n", start)
        if line_end == -1 or not re.fullmatch(rb"[0-9a-fA-F]{1,15}", raw[start:line_end]):
            raise Garbled(f"a broken chunk at {raw[start : start + 60]!r}")
        size, start = int(raw[start:line_end], 16), line_end + 2
        body += raw[start : start + size]
        if raw[start + size : start + size + 2] != b"\r\n":
            raise Garbled(f"a chunk cut short at {raw[start : start + 60]!r}")
        start += size + 2
        if size == 0:
            return bytes(body), start
