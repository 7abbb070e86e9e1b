"""Escapes are looked at all at once, and none is taken for what is written plainly."""

import pytest

from authorize.policy.paths.escapes import decoding, encode_private, octets


@pytest.mark.parametrize(
    ("written", "decoded", "canonical"),
    [
        (b"/a", b"/a", "/a"),
        (b"/%61%2f%c3%A4", b"/a/\xc3\xa4", "/a%2F%C3%A4"),
        (b"/%2561", b"/%61", "/%2561"),
        (b"/%00%ff", b"/\x00\xff", "/%00%FF"),
        (rb"/\u0161\x61\\", rb"/\u0161\x61\\", rb"/\u0161\x61\\".decode()),
    ],
)
def test_an_escape_is_one_character_until_it_is_decoded_or_written_again(written: bytes, decoded: bytes, canonical: str) -> None:
    apart = encode_private(written)
    assert octets(apart) == decoded
    assert apart.translate(decoding("a")) == canonical


def test_every_escape_is_itself_in_either_case() -> None:
    written = b"".join(b"%%%02x%%%02X" % (code, code) for code in range(0x100))
    assert octets(encode_private(written)) == bytes(code for code in range(0x100) for _ in range(2))


@pytest.mark.parametrize("written", [b"%", b"%4", b"%4g", b"%%41", b"%u0041", b"% 1", b"%+1", b"a%-1", b"%\\41"])
def test_a_percent_sign_without_two_digits_is_no_escape(written: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        encode_private(written)
