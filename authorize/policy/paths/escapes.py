"""Percent-escapes of a path as private characters, processed by C code.

The private encoding of `%2F` is the character U+012F, for digits of either case.  Other characters remain unchanged.
"""

from collections.abc import Container

_APART = 0x100


def encode_private(written: bytes) -> str:
    """Return the text with escapes as private characters.  Raises UnicodeDecodeError for an invalid escape."""
    return written.replace(b"\\", rb"\\").replace(b"%", rb"\u01").decode("unicode_escape")


def octets(apart: str) -> bytes:
    """Return the bytes with all escapes decoded."""
    return apart.encode("utf-16-le")[::2]


def decoding(plain: Container[str]) -> tuple[str, ...]:
    """Return a table for `str.translate` that decodes escapes of these characters, and writes others in upper case."""
    written = (chr(code) if chr(code) in plain else f"%{code:02X}" for code in range(0x100))
    return (*map(chr, range(_APART)), *written)
