"""WebSocket frames (RFC 6455 5): scans relayed bytes for frame boundaries and invalid frames, without reading payloads.

For third-party ASGI servers, which parse the client's frames themselves, it converts between frames and messages.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_CONTROL_BYTES = 125

# RFC 6455 7.4.1.  No frame may contain the last two, which mean that a Close had no code, and that there was no Close.
NORMAL, GOING_AWAY, PROTOCOL_ERROR, INVALID_TEXT, POLICY_VIOLATION, MESSAGE_TOO_BIG, INTERNAL_ERROR = (
    1000,
    1001,
    1002,
    1007,
    1008,
    1009,
    1011,
)
NO_STATUS_RECEIVED, ABNORMAL_CLOSURE = 1005, 1006

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_FIN, _RSV, _OPCODE, _MASKED, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_KNOWN = frozenset((CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
_MASK_BYTES = 4


@dataclass(frozen=True, slots=True)
class FrameError:
    """Error of a frame.  `code` is the status of the Close frame that reports it."""

    code: int
    reason: str


# enforcement-point: Upstream requests: WebSocket frames
class FrameScanner:
    """Frame scanner of one direction.  `feed` returns the bytes that may pass: up to an invalid frame, or to the end of a Close frame.

    An incomplete frame header is buffered, so that the passed bytes end within a payload or between two frames.
    """

    __slots__ = (
        "_allows_rsv",
        "_buffered",
        "_frame_bytes",
        "_is_fragmented",
        "_mask",
        "_message_bytes",
        "_message_length",
        "_remaining",
        "close_seen",
        "error",
        "frames",
    )

    def __init__(self, *, is_masked: bool, allows_rsv: bool, frame_bytes: int = MAX_FRAME_BYTES, message_bytes: int = MAX_MESSAGE_BYTES):
        self._mask = _MASKED if is_masked else 0
        self._allows_rsv = allows_rsv
        self._frame_bytes = frame_bytes
        self._message_bytes = message_bytes
        self._buffered = b""
        self._remaining = 0  # bytes of the current frame that have not arrived
        self._message_length = 0
        self._is_fragmented = False
        self.frames = 0
        self.error: FrameError | None = None
        self.close_seen = False

    @property
    def is_at_frame_boundary(self) -> bool:
        return self._remaining == 0

    def feed(self, data: bytes) -> bytes:
        if self._buffered:
            data, self._buffered = self._buffered + data, b""
        offset, end = self._remaining, len(data)
        while offset < end:
            if self.close_seen or self.error is not None:
                # RFC 6455 5.5.1: nothing follows a Close frame.
                data, end = data[:offset], offset
                break
            size = self._frame_size(data, offset, end)
            if size == 0:
                if self.error is None:
                    self._buffered = data[offset:]
                data, end = data[:offset], offset
                break
            offset += size
        self._remaining = offset - end
        return data

    def drain_frame(self, data: bytes) -> bytes:
        """Return the bytes of `data` that belong to the current frame.  The rest is scanned for a Close, but may not pass."""
        passed, rest = data[: self._remaining], data[self._remaining :]
        self._remaining -= len(passed)
        if rest:
            self.feed(rest)
        return passed

    def _frame_size(self, data: bytes, offset: int, end: int) -> int:
        """Return the size of the frame at `offset`, or 0 if its header is incomplete or invalid."""
        if end - offset < 2:
            return 0
        first, second = data[offset], data[offset + 1]
        length = second & _LENGTH
        header = 2
        if length > MAX_CONTROL_BYTES:
            header = 4 if length == 126 else 10
            if end - offset < header:
                return 0
            shortest = 126 if header == 4 else 0x10000
            length = int.from_bytes(data[offset + 2 : offset + header], "big")
            if length < shortest:
                return self._reject(PROTOCOL_ERROR, "a frame's length is not written in the shortest form")
        if not self._is_allowed(first, second, length, header):
            return 0
        self.frames += 1
        return header + length + (_MASK_BYTES if self._mask else 0)

    def _is_allowed(self, first: int, second: int, length: int, header: int) -> bool:
        opcode = first & _OPCODE
        if second & _MASKED != self._mask:
            self._reject(PROTOCOL_ERROR, "a frame is not masked as its sender must")
        elif opcode not in _KNOWN or (first & _RSV and not self._allows_rsv):
            self._reject(PROTOCOL_ERROR, "a frame uses what was not negotiated")
        elif opcode >= CLOSE:
            if not first & _FIN or header > 2:
                self._reject(PROTOCOL_ERROR, "a control frame is fragmented or too long")
            else:
                self.close_seen = opcode == CLOSE
        elif (opcode == CONTINUATION) != self._is_fragmented:
            self._reject(PROTOCOL_ERROR, "the fragments of a message are out of order")
        else:
            self._message_length = self._message_length + length if self._is_fragmented else length
            self._is_fragmented = not first & _FIN
            if length > self._frame_bytes or self._message_length > self._message_bytes:
                self._reject(MESSAGE_TOO_BIG, "a message is too big")
        return self.error is None

    def _reject(self, code: int, reason: str) -> int:
        self.error = FrameError(code, reason)
        return 0


def client_frame(opcode: int, payload: bytes) -> bytes:
    """Return a client's frame with a complete message, masked by unpredictable bytes (RFC 6455 10.3)."""
    length = len(payload)
    if length <= 125:
        header = bytes((_FIN | opcode, _MASKED | length))
    elif length < 0x10000:
        header = bytes((_FIN | opcode, _MASKED | 126)) + length.to_bytes(2, "big")
    else:
        header = bytes((_FIN | opcode, _MASKED | 127)) + length.to_bytes(8, "big")
    mask = os.urandom(_MASK_BYTES)
    key = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
    return header + mask + (int.from_bytes(payload, "big") ^ key).to_bytes(length, "big")


def close_frame(code: int, reason: str, *, is_masked: bool) -> bytes:
    """Return a Close frame (RFC 6455 5.5.1).  `reason` is short ASCII, because a control frame has at most 125 bytes."""
    payload = code.to_bytes(2, "big") + reason.encode("ascii")
    return client_frame(CLOSE, payload) if is_masked else bytes((_FIN | CLOSE, len(payload))) + payload


def client_close(code: int) -> bytes:
    """Return a client's Close frame; without a code if the client sent none."""
    return client_frame(CLOSE, b"") if code == NO_STATUS_RECEIVED else close_frame(code, "", is_masked=True)


@dataclass(frozen=True, slots=True)
class FrameMessage:
    """Message or control frame.  The payload of a Close starts with its code."""

    opcode: int
    payload: bytes

    @property
    def close_code(self) -> int:
        return int.from_bytes(self.payload[:2], "big") if len(self.payload) >= 2 else NO_STATUS_RECEIVED

    @property
    def close_reason(self) -> str:
        return self.payload[2:].decode("utf-8", "replace")


class MessageAssembler:
    """Assembler of messages from a server's unmasked frames, which a FrameScanner has checked."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._opcode = TEXT
        self._fragments: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[FrameMessage]:
        self._data += data
        while (frame := self._next_frame()) is not None:
            first, payload = frame
            opcode = first & _OPCODE
            if opcode >= CLOSE:
                yield FrameMessage(opcode, payload)
                continue
            if opcode != CONTINUATION:
                self._opcode = opcode
            self._fragments.append(payload)
            if first & _FIN:
                message, self._fragments = b"".join(self._fragments), []
                yield FrameMessage(self._opcode, message)

    def _next_frame(self) -> tuple[int, bytes] | None:
        """Return (first byte, payload) of the next complete frame, or None."""
        data = self._data
        if len(data) < 2:
            return None
        length, header = data[1] & _LENGTH, 2
        if length > 125:
            header = 4 if length == 126 else 10
            length = int.from_bytes(data[2:header], "big")
        if len(data) < header or len(data) < header + length:
            return None
        frame = data[0], bytes(data[header : header + length])
        del data[: header + length]
        return frame
