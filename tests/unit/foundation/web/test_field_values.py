import itertools

import pytest

from foundation.web.field_values import has_c1_control

# One byte of each UTF-8 class.
KINDS = bytes.fromhex("41 80 84 85 8f 90 9f a0 bf c1 c2 c3 df e0 e1 ed ee f0 f1 f4 f5 ff")


def has_one(data: bytes) -> bool:
    """Split with Python's decoder; an invalid byte is a unit by itself."""
    return any("\x80" <= letter <= "\x9f" or "\udc80" <= letter <= "\udc9f" for letter in data.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("length", range(4))
def test_a_c1_control_is_found_as_pythons_decoder_finds_it(length: int) -> None:
    for letters in itertools.product(KINDS, repeat=length):
        data = bytes(letters)
        assert has_c1_control(data) is has_one(data), data


def test_four_byte_characters_are_read_completely() -> None:
    for lead in range(0xEF, 0xF6):
        for tail in itertools.product((0x7F, 0x80, 0x8F, 0x90, 0xBF), (0x80, 0x85, 0xA0), (0x85, 0xC2)):
            data = bytes([lead, *tail])
            assert has_c1_control(data) is has_one(data), data


def test_a_long_value_is_read_once() -> None:
    assert not has_c1_control("Å内😅".encode() * 20_000)
    assert has_c1_control(b"\xc3" * 100_000 + b"\x85\x85")
