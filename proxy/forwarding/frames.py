"""Websocket frames in passing bytes (RFC 6455 5.2): where they begin and end, which are refused.  Payloads are never read."""

import os
from dataclasses import dataclass

FRAME_BYTES = 16 * 1024 * 1024
MESSAGE_BYTES = 16 * 1024 * 1024
CONTROL_BYTES = 125

NORMAL, GOING_AWAY, PROTOCOL_ERROR, POLICY, TOO_BIG = 1000, 1001, 1002, 1008, 1009

_FIN, _RSV, _OPCODE, _MASKED, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_KNOWN = frozenset((_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG))
_MASK_BYTES = 4


@dataclass(frozen=True, slots=True)
class FrameFault:
    """Refusal of a frame, and why; `code` is the status of the Close frame that says so."""

    code: int
    reason: str


class FrameWalker:
    """Frame parser of one direction.  `feed` gives back what may pass: up to the first refused frame, or to the end of a Close frame.

    A header of which only a part has arrived is held back, so that what has passed ends within a payload or between two frames.
    """

    __slots__ = (
        "_allows_rsv",
        "_frame_bytes",
        "_held",
        "_is_fragmented",
        "_left",
        "_mask",
        "_message",
        "_message_bytes",
        "fault",
        "frames",
        "has_closed",
    )

    def __init__(self, *, is_masked: bool, allows_rsv: bool, frame_bytes: int = FRAME_BYTES, message_bytes: int = MESSAGE_BYTES):
        self._mask = _MASKED if is_masked else 0
        self._allows_rsv = allows_rsv
        self._frame_bytes = frame_bytes
        self._message_bytes = message_bytes
        self._held = b""
        self._left = 0  # bytes of the current frame that have not come yet
        self._message = 0
        self._is_fragmented = False
        self.frames = 0
        self.fault: FrameFault | None = None
        self.has_closed = False

    @property
    def is_between_frames(self) -> bool:
        return self._left == 0

    def feed(self, data: bytes) -> bytes:
        if self._held:
            data, self._held = self._held + data, b""
        at, end = self._left, len(data)
        while at < end:
            if self.has_closed or self.fault is not None:
                # RFC 6455 5.5.1: nothing follows a Close frame.
                data, end = data[:at], at
                break
            size = self._frame(data, at, end)
            if size == 0:
                if self.fault is None:
                    self._held = data[at:]
                data, end = data[:at], at
                break
            at += size
        self._left = at - end
        return data

    def finish_frame(self, data: bytes) -> bytes:
        """Bytes of `data` that still belong to the current frame.  The rest is walked, so that a Close is noticed, and may not pass."""
        passed, rest = data[: self._left], data[self._left :]
        self._left -= len(passed)
        if rest:
            self.feed(rest)
        return passed

    def _frame(self, data: bytes, at: int, end: int) -> int:
        """The size of the frame at `at`, 0 where its header is incomplete or refused."""
        if end - at < 2:
            return 0
        first, second = data[at], data[at + 1]
        length = second & _LENGTH
        header = 2
        if length > CONTROL_BYTES:
            header = 4 if length == 126 else 10
            if end - at < header:
                return 0
            shortest = 126 if header == 4 else 0x10000
            length = int.from_bytes(data[at + 2 : at + header], "big")
            if length < shortest:
                return self._refuse(PROTOCOL_ERROR, "a frame's length is not written in the shortest form")
        if not self._is_allowed(first, second, length, header):
            return 0
        self.frames += 1
        return header + length + (_MASK_BYTES if self._mask else 0)

    def _is_allowed(self, first: int, second: int, length: int, header: int) -> bool:
        opcode = first & _OPCODE
        if second & _MASKED != self._mask:
            self._refuse(PROTOCOL_ERROR, "a frame is not masked as its sender must")
        elif opcode not in _KNOWN or (first & _RSV and not self._allows_rsv):
            self._refuse(PROTOCOL_ERROR, "a frame uses what was not negotiated")
        elif opcode >= _CLOSE:
            if not first & _FIN or header > 2:
                self._refuse(PROTOCOL_ERROR, "a control frame is fragmented or too long")
            else:
                self.has_closed = opcode == _CLOSE
        elif (opcode == _CONTINUATION) != self._is_fragmented:
            self._refuse(PROTOCOL_ERROR, "the fragments of a message are out of order")
        else:
            self._message = self._message + length if self._is_fragmented else length
            self._is_fragmented = not first & _FIN
            if length > self._frame_bytes or self._message > self._message_bytes:
                self._refuse(TOO_BIG, "a message is too big")
        return self.fault is None

    def _refuse(self, code: int, reason: str) -> int:
        self.fault = FrameFault(code, reason)
        return 0


def close_frame(code: int, reason: str, *, is_masked: bool) -> bytes:
    """Close frame (RFC 6455 5.5.1).  `reason` is ASCII and short: a control frame holds 125 bytes."""
    payload = code.to_bytes(2, "big") + reason.encode("ascii")
    if not is_masked:
        return bytes((_FIN | _CLOSE, len(payload))) + payload
    mask = os.urandom(_MASK_BYTES)
    masked = bytes(byte ^ mask[index % _MASK_BYTES] for index, byte in enumerate(payload))
    return bytes((_FIN | _CLOSE, _MASKED | len(payload))) + mask + masked
