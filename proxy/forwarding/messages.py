"""Websocket messages and the frames that they are (RFC 6455 5), where a server has taken the client's frames apart already."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from proxy.forwarding.frames import close_frame

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NO_STATUS, ABNORMAL = 1005, 1006
_FIN, _MASKED, _LENGTH = 0x80, 0x80, 0x7F


@dataclass(frozen=True, slots=True)
class FrameMessage:
    """Message, or a control frame.  `payload` of a Close begins with its code."""

    opcode: int
    payload: bytes

    @property
    def close_code(self) -> int:
        return int.from_bytes(self.payload[:2], "big") if len(self.payload) >= 2 else NO_STATUS

    @property
    def close_reason(self) -> str:
        return self.payload[2:].decode("utf-8", "replace")


class MessageAssembler:
    """Assembler of messages from the frames of a server, which have no mask.  They were checked before: by a FrameWalker."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._opcode = TEXT
        self._fragments: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[FrameMessage]:
        self._data += data
        while (frame := self._next_frame()) is not None:
            first, payload = frame
            opcode = first & 0x0F
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
        """(first byte, payload) of a frame that is there as a whole."""
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


def client_frame(opcode: int, payload: bytes) -> bytes:
    """Frame of a client's whole message, masked by what nobody can foresee (RFC 6455 10.3)."""
    length = len(payload)
    if length <= 125:
        header = bytes((_FIN | opcode, _MASKED | length))
    elif length < 0x10000:
        header = bytes((_FIN | opcode, _MASKED | 126)) + length.to_bytes(2, "big")
    else:
        header = bytes((_FIN | opcode, _MASKED | 127)) + length.to_bytes(8, "big")
    mask = os.urandom(4)
    key = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
    return header + mask + (int.from_bytes(payload, "big") ^ key).to_bytes(length, "big")


def client_close(code: int) -> bytes:
    """Close frame of a client; without a code where it has said none."""
    return client_frame(CLOSE, b"") if code == NO_STATUS else close_frame(code, "", is_masked=True)
