"""Unsafe characters are replaced, all others stay."""

import pytest

from foundation.web.plain_text import REPLACEMENT, is_sanitized, sanitize_text


@pytest.mark.parametrize("odd", ["\x00", "\x1b", "\n", "\x85", "\u202e", "\u2066", "\u200b", "\u2028", "\ufeff", "\ud800"])
def test_deceptive_characters_are_marked(odd: str) -> None:
    assert sanitize_text(f"a{odd}b") == f"a{REPLACEMENT}b"
    assert not is_sanitized(f"a{odd}b")


@pytest.mark.parametrize("text", ["", "Team wiki", "Zoë – 日本語 العربية 🎉", "<b>&amp;</b>"])
def test_readable_values_are_preserved(text: str) -> None:
    assert sanitize_text(text) == text
    assert is_sanitized(text)
