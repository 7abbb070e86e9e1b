"""Sanitization of external text, such as names, so that it cannot change the layout or direction of a page."""

import re

# Controls, lone surrogates, bidirectional controls, and line and paragraph separators.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]")
REPLACEMENT = "\ufffd"


def is_sanitized(text: str) -> bool:
    return _UNSAFE.search(text) is None


def sanitize_text(text: str) -> str:
    """Replace each unsafe character with U+FFFD."""
    return _UNSAFE.sub(REPLACEMENT, text)
