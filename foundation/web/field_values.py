"""Header field values (RFC 9110 5.5): check of the bytes above ASCII, in requests and responses."""

import re

# Well-formed UTF-8 (RFC 3629 4) without U+0080 to U+009F, the C1 controls.
_UTF8 = (
    rb"\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]"
    rb"|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
# Possessive, so that there is no backtracking: each byte belongs to at most one character.
_WITHOUT_C1 = re.compile(rb"(?:[\x00-\x7f]++|%b|[\xa0-\xff])*+" % _UTF8)


def has_c1_control(data: bytes) -> bool:
    """Return whether a byte from 0x80 to 0x9f is outside a UTF-8 character, or a character is a C1 control.

    Latin-1 text functions treat 0x85 as a line end (CVE-2026-44546). Within UTF-8 it may be part of a letter: `Å` is C3 85.
    """
    return not data.isascii() and _WITHOUT_C1.fullmatch(data) is None
