"""Accent: whatever colour is chosen, what is written in it, and on it, can be read in light and in dark."""

import random
import re

import pytest

from foundation.web.accent import ENOUGH, accent_style, contrast, grounds, readable
from foundation.web.brand import ACCENT, STYLESHEET

LIGHT, DARK = grounds(STYLESHEET)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("#000000", "#ffffff", 21.0), ("#777777", "#ffffff", 4.48), ("#0000ff", "#ffffff", 8.59), ("#abcdef", "#abcdef", 1)],
)
def test_contrast_is_that_of_wcag(one: str, other: str, expected: float) -> None:
    assert contrast(one, other) == contrast(other, one) == pytest.approx(expected, abs=0.01)


def both(accent: str) -> list[str]:
    return re.findall(r"--brand: (#[0-9a-f]{6});", accent_style(accent, STYLESHEET))


def test_every_colour_becomes_one_that_can_be_read() -> None:
    choose = random.Random(4)
    for accent in ("#000000", "#ffffff", "#ffff00", "#808080", *(f"#{choose.randrange(1 << 24):06x}" for _ in range(300))):
        light, dark = both(accent)
        assert min(contrast(light, ground) for ground in LIGHT) >= ENOUGH, accent
        assert min(contrast(dark, ground) for ground in DARK) >= ENOUGH, accent


def test_a_colour_that_can_be_read_stays_as_it_was_chosen() -> None:
    assert both(ACCENT)[0] == ACCENT
    assert both("#8aa4ff")[1] == "#8aa4ff"
    assert readable("#ffff00", ["#000000"], "#ffffff") == "#ffff00"


def test_the_grounds_are_those_of_the_stylesheet() -> None:
    assert (LIGHT, DARK) == (["#f4f6f9", "#ffffff"], ["#12161d", "#1a2029"])
    with pytest.raises(ValueError, match="grounds"):
        grounds("")
