"""Header field values (RFC 9110 5.5): the bytes above ASCII that may pass in either direction."""

import re

# Well-formed UTF-8 (RFC 3629 4) without U+0080 to U+009F, the C1 controls.
_UTF8 = (
    rb"\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]"
    rb"|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
# Possessive: each byte belongs to one character at most, so nothing is tried twice.
_WITHOUT_C1 = re.compile(rb"(?:[\x00-\x7f]++|%b|[\xa0-\xff])*+" % _UTF8)


def has_c1_control(data: bytes) -> bool:
    """Whether a byte of 0x80 to 0x9f is in no UTF-8 character, or encodes a C1 control.

    0x85 is a line end to Latin-1 text functions (CVE-2026-44546).  Within UTF-8 the same byte is part of a letter: `Å` is C3 85.
    """
    return not data.isascii() and _WITHOUT_C1.fullmatch(data) is None
