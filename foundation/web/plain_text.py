"""Plain text: what others call themselves, as a page may show it without being turned, broken or made to look like something else."""

import re

# Controls, lone surrogates, and what changes the direction of the text around it or breaks its line.
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]")
INSTEAD = "\ufffd"


def is_plain(text: str) -> bool:
    return _ODD.search(text) is None


def plain_text(text: str) -> str:
    """Text with a mark in the place of each character that is none to be read."""
    return _ODD.sub(INSTEAD, text)
