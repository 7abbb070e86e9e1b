"""Percent-escapes of a path as private characters, processed by C code.

In the private encoding `%2F` is the character U+012F, for digits of either case.  Other characters remain unchanged.
"""

from collections.abc import Container

_APART = 0x100


def encode_private(written: bytes) -> str:
    """Text with its escapes set apart; UnicodeDecodeError where a "%" is not followed by two hexadecimal digits."""
    return written.replace(b"\\", rb"\\").replace(b"%", rb"\u01").decode("unicode_escape")


def octets(apart: str) -> bytes:
    """Bytes with all escapes decoded."""
    return apart.encode("utf-16-le")[::2]


def decoding(plain: Container[str]) -> tuple[str, ...]:
    """Table for `str.translate` by which escapes of these characters are decoded, and others written in upper case."""
    written = (chr(code) if chr(code) in plain else f"%{code:02X}" for code in range(0x100))
    return (*map(chr, range(_APART)), *written)
