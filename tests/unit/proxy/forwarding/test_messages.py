"""Messages are the frames that a walker lets pass, in both directions, in whatever pieces they come."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.forwarding.frames import FrameWalker, close_frame
from proxy.forwarding.messages import BINARY, CLOSE, NO_STATUS, PING, TEXT, FrameMessage, MessageAssembler, client_close, client_frame


def of_a_server(opcode: int, payload: bytes, *, is_final: bool = True) -> bytes:
    length = len(payload)
    if length >= 0x10000:
        size = b"\x7f" + length.to_bytes(8, "big")
    else:
        size = bytes((length,)) if length <= 125 else b"\x7e" + length.to_bytes(2, "big")
    return bytes(((0x80 if is_final else 0) | opcode,)) + size + payload


def unmasked(frame: bytes) -> tuple[int, bytes]:
    length, at = frame[1] & 0x7F, 2
    if length > 125:
        at = 4 if length == 126 else 10
    mask, payload = frame[at : at + 4], frame[at + 4 :]
    return frame[0], bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


@pytest.mark.parametrize("size", [0, 1, 3, 125, 126, 65_535, 65_536, 70_001])
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_clients_message_is_one_masked_frame(opcode: int, size: int) -> None:
    payload = os.urandom(size)
    frame = client_frame(opcode, payload)
    walker = FrameWalker(is_masked=True, allows_rsv=False)
    assert walker.feed(frame) == frame
    assert walker.fault is None
    assert walker.is_between_frames
    assert unmasked(frame) == (0x80 | opcode, payload)


def test_no_mask_is_foreseen() -> None:
    assert len({client_frame(TEXT, b"")[2:6] for _ in range(9)}) == 9


@given(
    st.lists(st.tuples(st.sampled_from([TEXT, BINARY]), st.lists(st.binary(max_size=300), min_size=1, max_size=4)), max_size=5), st.data()
)
def test_messages_come_whole_from_any_pieces(messages: list[tuple[int, list[bytes]]], data: st.DataObject) -> None:
    sent = b""
    for opcode, parts in messages:
        for number, part in enumerate(parts):
            sent += of_a_server(opcode if number == 0 else 0, part, is_final=number == len(parts) - 1) + of_a_server(PING, b"between")
    assembler, heard = MessageAssembler(), []
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        heard += assembler.feed(sent[:size])
        sent = sent[size:]
    assert [message for message in heard if message.opcode != PING] == [FrameMessage(opcode, b"".join(parts)) for opcode, parts in messages]


def test_a_large_message_of_a_server() -> None:
    payload = os.urandom(70_000)
    assert list(MessageAssembler().feed(of_a_server(BINARY, payload))) == [FrameMessage(BINARY, payload)]


def test_a_close_says_its_code_or_none() -> None:
    (close,) = MessageAssembler().feed(close_frame(4001, "as you wish", is_masked=False))
    assert (close.opcode, close.close_code, close.close_reason) == (CLOSE, 4001, "as you wish")
    (close,) = MessageAssembler().feed(of_a_server(CLOSE, b""))
    assert (close.close_code, close.close_reason) == (NO_STATUS, "")
    assert unmasked(client_close(4001)) == (0x88, b"\x0f\xa1")
    assert unmasked(client_close(NO_STATUS)) == (0x88, b"")
