"""Strict HTTP/1.1 request body framing (RFC 9112 6 and 7)."""

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
    """Body reader. `feed` takes received bytes and returns (content, bytes after the body)."""

    finished: bool

    @property
    def remaining(self) -> int | None:
        """Bytes still to come, None if the length is not declared."""

    def feed(self, data: bytes) -> tuple[bytes, bytes]: ...


def is_drainable(body: Body) -> bool:
    """Return whether the rest of the body is drained to keep the connection after an early response, such as a 403 to an upload."""
    return body.remaining is not None and body.remaining <= DRAIN_BYTES


class LengthBody:
    """Body with a Content-Length (RFC 9112 6.3)."""

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
    """Chunked body (RFC 9112 7.1): size line, data, CR LF, ..., zero size, trailers (validated and dropped), CR LF."""

    __slots__ = ("_chunk", "_extensions", "_state", "_tail", "_trailers", "_trailers_bytes", "finished")

    remaining = None

    def __init__(self) -> None:
        self.finished = False
        self._state = self._size_line
        self._tail = b""
        self._chunk = 0
        self._extensions = 0
        self._trailers = 0
        self._trailers_bytes = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        if self._tail:
            data = self._tail + data
        content: list[bytes] = []
        offset, previous = 0, -1
        while not self.finished and offset != previous and offset < len(data):
            previous = offset
            offset = self._state(data, offset, content)
        if self.finished:
            self._tail = b""
            return b"".join(content), data[offset:]
        self._tail = data[offset:]
        return b"".join(content), b""

    def _size_line(self, data: bytes, offset: int, content: list[bytes]) -> int:
        end = _line_end(data, offset, _SIZE_LINE_BYTES)
        if end is None:
            return offset
        match = _SIZE_LINE.fullmatch(data, offset, end)
        if match is None:
            raise RequestRejected(400, "A chunk size is malformed.")
        self._extensions += end - match.end(1)
        if self._extensions > _EXTENSIONS_BYTES:
            raise RequestRejected(400, "The chunk extensions are too large.")
        self._chunk = int(match[1], 16)
        self._state = self._chunk_data if self._chunk else self._trailer
        return end + 2

    def _chunk_data(self, data: bytes, offset: int, content: list[bytes]) -> int:
        piece = data[offset : offset + self._chunk]
        content.append(piece)
        self._chunk -= len(piece)
        if self._chunk == 0:
            self._state = self._chunk_end
        return offset + len(piece)

    def _chunk_end(self, data: bytes, offset: int, content: list[bytes]) -> int:
        end = data[offset : offset + 2]
        if end == b"\r\n":
            self._state = self._size_line
            return offset + 2
        if end != b"\r":
            raise RequestRejected(400, "A chunk does not end where it says.")
        return offset

    def _trailer(self, data: bytes, offset: int, content: list[bytes]) -> int:
        end = _line_end(data, offset, _TRAILERS_BYTES - self._trailers_bytes)
        if end is None:
            return offset
        if end == offset:
            self.finished = True
            return end + 2
        self._trailers += 1
        self._trailers_bytes += end + 2 - offset
        line = data[offset : end + 2]
        if self._trailers > HEADER_COUNT or HEADER_LINE.fullmatch(line) is None or has_c1_control(line):
            raise RequestRejected(400, "A trailer is malformed.")
        return end + 2


def _line_end(data: bytes, offset: int, limit: int) -> int | None:
    """Return the offset of the line's CR LF, or None if it has not arrived."""
    newline = data.find(b"\n", offset)
    end = len(data) if newline == -1 else newline - 1
    if end - offset > limit:
        raise RequestRejected(400, "A line within the body is too long.")
    if newline == -1:
        return None
    if end < offset or data[end] != 0x0D:
        raise RequestRejected(400, "Lines must end with CR LF.")
    return end
