"""Request body framing of HTTP/1.1 (RFC 9112 6 and 7), byte for byte: where a body ends."""

import re
from typing import Protocol

from foundation.web.field_values import has_c1_control
from proxy.listener.http1.request_head import HEADER_LINE, TOKEN, RequestRejected
from proxy.listener.listener_limits import DRAIN_BYTES, HEADER_COUNT

# RFC 9112 7.1.1: well-formed extensions are ignored.
_EXTENSION = rb';%b++(?:=(?:%b++|"[\t\x20\x21\x23-\x5b\x5d-\x7e]*+"))?' % (TOKEN, TOKEN)
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16}+)(?:%b)*+" % _EXTENSION)
_SIZE_LINE_BYTES = 256
_EXTENSIONS_BYTES = 8 * 1024
_TRAILERS_BYTES = 8 * 1024


class Body(Protocol):
    """Body reader: `feed` takes what arrived and returns (content, what follows the body)."""

    finished: bool

    @property
    def remaining(self) -> int | None:
        """Bytes still to come, None where the client has not said."""

    def feed(self, data: bytes) -> tuple[bytes, bytes]: ...


def is_short(body: Body) -> bool:
    """Whether we would read the rest of it to keep the connection, after an early answer (a 403 to an upload, say)."""
    return body.remaining is not None and body.remaining <= DRAIN_BYTES


class LengthBody:
    """Body whose Content-Length is known (RFC 9112 6.3)."""

    __slots__ = ("finished", "remaining")

    def __init__(self, length: int):
        self.remaining = length
        self.finished = length == 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        content, rest = data[: self.remaining], data[self.remaining :]
        self.remaining -= len(content)
        self.finished = self.remaining == 0
        return content, rest


# enforcement-point: Requests: HTTP/1.1 body framing
class ChunkedBody:
    """Chunked body (RFC 9112 7.1): size line, data, CR LF, ..., zero size, trailers (checked and dropped), CR LF."""

    __slots__ = ("_chunk", "_extensions", "_read", "_tail", "_trailers", "_trailers_bytes", "finished")

    remaining = None

    def __init__(self) -> None:
        self.finished = False
        self._read = self._size_line
        self._tail = b""
        self._chunk = 0
        self._extensions = 0
        self._trailers = 0
        self._trailers_bytes = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        if self._tail:
            data = self._tail + data
        content: list[bytes] = []
        at, before = 0, -1
        while not self.finished and at != before and at < len(data):
            before = at
            at = self._read(data, at, content)
        if self.finished:
            self._tail = b""
            return b"".join(content), data[at:]
        self._tail = data[at:]
        return b"".join(content), b""

    def _size_line(self, data: bytes, at: int, content: list[bytes]) -> int:
        end = _line_end(data, at, _SIZE_LINE_BYTES)
        if end is None:
            return at
        match = _SIZE_LINE.fullmatch(data, at, end)
        if match is None:
            raise RequestRejected(400, "A chunk size is malformed.")
        self._extensions += end - match.end(1)
        if self._extensions > _EXTENSIONS_BYTES:
            raise RequestRejected(400, "The chunk extensions are too large.")
        self._chunk = int(match[1], 16)
        self._read = self._chunk_data if self._chunk else self._trailer
        return end + 2

    def _chunk_data(self, data: bytes, at: int, content: list[bytes]) -> int:
        piece = data[at : at + self._chunk]
        content.append(piece)
        self._chunk -= len(piece)
        if self._chunk == 0:
            self._read = self._chunk_end
        return at + len(piece)

    def _chunk_end(self, data: bytes, at: int, content: list[bytes]) -> int:
        end = data[at : at + 2]
        if end == b"\r\n":
            self._read = self._size_line
            return at + 2
        if end != b"\r":
            raise RequestRejected(400, "A chunk does not end where it says.")
        return at

    def _trailer(self, data: bytes, at: int, content: list[bytes]) -> int:
        end = _line_end(data, at, _TRAILERS_BYTES - self._trailers_bytes)
        if end is None:
            return at
        if end == at:
            self.finished = True
            return end + 2
        self._trailers += 1
        self._trailers_bytes += end + 2 - at
        line = data[at : end + 2]
        if self._trailers > HEADER_COUNT or HEADER_LINE.fullmatch(line) is None or has_c1_control(line):
            raise RequestRejected(400, "A trailer is malformed.")
        return end + 2


def _line_end(data: bytes, at: int, limit: int) -> int | None:
    """Where the line's CR LF is; None when it has not come yet."""
    newline = data.find(b"\n", at)
    end = len(data) if newline == -1 else newline - 1
    if end - at > limit:
        raise RequestRejected(400, "A line within the body is too long.")
    if newline == -1:
        return None
    if end < at or data[end] != 0x0D:
        raise RequestRejected(400, "Lines must end with CR LF.")
    return end
