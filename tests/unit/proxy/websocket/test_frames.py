"""Frames that pass, in any pieces, frames that are refused, and the messages that passed frames form."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.websocket.frames import (
    MESSAGE_TOO_BIG,
    NO_STATUS_RECEIVED,
    PROTOCOL_ERROR,
    FrameMessage,
    FrameScanner,
    MessageAssembler,
    client_close,
    client_frame,
    close_frame,
)
from tests.support.websockets import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Frame, frames_in, from_client, from_server

VALID = from_client(TEXT, b"hello") + from_client(BINARY, b"x" * 300) + from_client(PING) + from_client(BINARY, b"y" * 70_000)


def walker(**options) -> FrameScanner:
    return FrameScanner(**{"is_masked": True, "allows_rsv": False, **options})


@given(st.lists(st.integers(1, 400), max_size=30))
def test_valid_frames_pass_byte_for_byte_in_any_chunks(sizes: list[int]) -> None:
    walk, passed, at = walker(), b"", 0
    for size in [*sizes, len(VALID)]:
        passed += walk.feed(VALID[at : at + size])
        at += size
    assert passed == VALID
    assert (walk.error, walk.frames, walk.is_at_frame_boundary) == (None, 4, True)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (from_server(TEXT, b"not masked"), PROTOCOL_ERROR),
        (from_client(3, b""), PROTOCOL_ERROR),
        (from_client(11, b""), PROTOCOL_ERROR),
        (from_client(TEXT, b"", rsv=0x40), PROTOCOL_ERROR),
        (from_client(PING, b"x" * 126), PROTOCOL_ERROR),
        (from_client(PING, b"", is_final=False), PROTOCOL_ERROR),
        (from_client(CONTINUATION, b"of nothing"), PROTOCOL_ERROR),
        (from_client(TEXT, b"a", is_final=False) + from_client(TEXT, b"b"), PROTOCOL_ERROR),
        (b"\x82\xfe\x00\x7d" + b"m" * 129, PROTOCOL_ERROR),
        (b"\x82\xff\x00\x00\x00\x00\x00\x00\xff\xff" + b"m" * 9, PROTOCOL_ERROR),
        (b"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00" + b"m" * 9, MESSAGE_TOO_BIG),
        (b"\x82\xff" + (16 * 2**20 + 1).to_bytes(8, "big"), MESSAGE_TOO_BIG),
    ],
)
def test_a_forbidden_frame_does_not_pass_and_those_before_it_do(frames: bytes, code: int) -> None:
    before = from_client(TEXT, b"before")
    for cut in range(len(before), len(before) + 12):
        walk = walker()
        data = before + frames + from_client(TEXT, b"after")
        passed = walk.feed(data[:cut]) + walk.feed(data[cut:])
        assert walk.error is not None
        assert walk.error.code == code
        assert passed.startswith(before)
        assert b"after" not in passed
        assert all(frame.is_final or frame.opcode == TEXT for frame in frames_in(passed))


def test_a_server_must_not_mask() -> None:
    walk = walker(is_masked=False)
    assert walk.feed(from_server(TEXT, b"good") + from_client(TEXT, b"bad")) == from_server(TEXT, b"good")
    assert walk.error is not None


def test_reserved_bits_pass_where_an_extension_was_agreed_upon() -> None:
    walk, compressed = walker(allows_rsv=True), from_client(TEXT, b"deflated", rsv=0x40)
    assert walk.feed(compressed) == compressed


def test_fragments_count_as_one_message_and_control_frames_may_come_between() -> None:
    walk = walker(message_bytes=10)
    valid = from_client(TEXT, b"12345", is_final=False) + from_client(PING, b"ping") + from_client(CONTINUATION, b"67890", is_final=False)
    assert walk.feed(valid) == valid
    assert walk.feed(from_client(CONTINUATION, b"!")) == b""
    assert walk.error is not None
    assert walk.error.code == MESSAGE_TOO_BIG


def test_next_message_resets_the_count() -> None:
    walk = walker(message_bytes=10)
    for _ in range(3):
        assert walk.feed(from_client(TEXT, b"1234567890"))
    assert walk.error is None


def test_nothing_passes_after_a_close() -> None:
    walk = walker()
    close = from_client(CLOSE, b"\x03\xe8")
    assert walk.feed(close + from_client(TEXT, b"smuggled")) == close
    assert walk.feed(from_client(TEXT, b"smuggled")) == b""
    assert walk.close_seen


def test_close_in_pieces_is_forwarded_completely() -> None:
    walk, close = walker(), from_client(CLOSE, b"\x03\xe8bye")
    assert b"".join(walk.feed(close[at : at + 1]) for at in range(len(close))) == close
    assert walk.is_at_frame_boundary


def test_finishing_passes_only_the_rest_of_the_current_frame_and_notices_the_close_behind_it() -> None:
    walk, whole = walker(), from_client(BINARY, b"x" * 100)
    passed = walk.feed(whole[:50])
    assert not walk.is_at_frame_boundary
    passed += walk.drain_frame(whole[50:80])
    passed += walk.drain_frame(whole[80:] + from_client(PONG) + from_client(CLOSE))
    assert passed == whole
    assert walk.close_seen


def test_delayed_header_is_not_started() -> None:
    walk = walker()
    assert walk.feed(from_client(BINARY, b"x" * 300)[:3]) == b""
    assert walk.is_at_frame_boundary


@pytest.mark.parametrize("is_masked", [True, False])
def test_sent_close_has_code_and_reason_and_is_masked_for_servers(is_masked: bool) -> None:
    (frame,) = frames_in(close_frame(1008, "access has ended", is_masked=is_masked))
    assert (frame.opcode, frame.is_final, frame.is_masked) == (CLOSE, True, is_masked)
    assert (frame.close_code, frame.payload[2:]) == (1008, b"access has ended")


@pytest.mark.parametrize("size", [0, 1, 3, 125, 126, 65_535, 65_536, 70_001])
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_clients_message_is_one_masked_frame(opcode: int, size: int) -> None:
    payload = os.urandom(size)
    frame = client_frame(opcode, payload)
    walker = FrameScanner(is_masked=True, allows_rsv=False)
    assert walker.feed(frame) == frame
    assert walker.error is None
    assert walker.is_at_frame_boundary
    assert frames_in(frame) == [Frame(opcode, payload, is_masked=True)]


def test_no_mask_is_foreseen() -> None:
    assert len({client_frame(TEXT, b"")[2:6] for _ in range(9)}) == 9


@given(
    st.lists(st.tuples(st.sampled_from([TEXT, BINARY]), st.lists(st.binary(max_size=300), min_size=1, max_size=4)), max_size=5), st.data()
)
def test_messages_are_complete_from_any_chunks(messages: list[tuple[int, list[bytes]]], data: st.DataObject) -> None:
    sent = b""
    for opcode, parts in messages:
        for number, part in enumerate(parts):
            sent += from_server(opcode if number == 0 else 0, part, is_final=number == len(parts) - 1) + from_server(PING, b"between")
    assembler, received = MessageAssembler(), []
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        received += assembler.feed(sent[:size])
        sent = sent[size:]
    assert [message for message in received if message.opcode != PING] == [
        FrameMessage(opcode, b"".join(parts)) for opcode, parts in messages
    ]


def test_a_large_message_from_server() -> None:
    payload = os.urandom(70_000)
    assert list(MessageAssembler().feed(from_server(BINARY, payload))) == [FrameMessage(BINARY, payload)]


def test_close_has_its_code_or_none() -> None:
    (close,) = MessageAssembler().feed(close_frame(4001, "as you wish", is_masked=False))
    assert (close.opcode, close.close_code, close.close_reason) == (CLOSE, 4001, "as you wish")
    (close,) = MessageAssembler().feed(from_server(CLOSE, b""))
    assert (close.close_code, close.close_reason) == (NO_STATUS_RECEIVED, "")
    assert frames_in(client_close(4001)) == [Frame(CLOSE, b"\x0f\xa1", is_masked=True)]
    assert frames_in(client_close(NO_STATUS_RECEIVED)) == [Frame(CLOSE, b"", is_masked=True)]
