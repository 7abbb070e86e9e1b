import random
import re

import pytest

from foundation.web.brand import (
    ACCENT,
    EMPTY_SITE_INFO,
    MIN_CONTRAST,
    NO_BRAND,
    STYLESHEET,
    Brand,
    SiteInfo,
    accent_style,
    adjust_for_contrast,
    backgrounds,
    contrast,
    csp_hash,
)


def test_an_accent_comes_after_gates_own_style_and_has_its_own_hash() -> None:
    brand = Brand.from_options("Example Corp", "", "#0b6e4f")
    assert brand.stylesheet.startswith(STYLESHEET)
    assert "--brand: #0b6e4f" in brand.stylesheet
    assert brand.style == csp_hash(brand.stylesheet) != NO_BRAND.style


def test_without_an_accent_the_style_is_gates_own() -> None:
    brand = Brand.from_options("Example Corp", "data:image/png;base64,AA==", None)
    assert (brand.stylesheet, brand.style, brand.accent) == (STYLESHEET, NO_BRAND.style, NO_BRAND.accent)


LIGHT, DARK = backgrounds(STYLESHEET)


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
        assert min(contrast(light, ground) for ground in LIGHT) >= MIN_CONTRAST, accent
        assert min(contrast(dark, ground) for ground in DARK) >= MIN_CONTRAST, accent


def test_a_colour_that_can_be_read_stays_as_it_was_chosen() -> None:
    assert both(ACCENT)[0] == ACCENT
    assert both("#8aa4ff")[1] == "#8aa4ff"
    assert adjust_for_contrast("#ffff00", ["#000000"], "#ffffff") == "#ffff00"


def test_the_grounds_are_those_of_the_stylesheet() -> None:
    assert (LIGHT, DARK) == (["#f4f6f9", "#ffffff"], ["#12161d", "#1a2029"])
    with pytest.raises(ValueError, match="grounds"):
        backgrounds("")


def test_page_without_contact_links_to_none() -> None:
    assert EMPTY_SITE_INFO.help_links("app.example.com", "id1") == ()


def test_mail_has_a_subject_and_page_link_is_unchanged() -> None:
    ((_, mail),) = SiteInfo("mailto:help@corp.com").help_links("app.example.com:8443", "id1")
    assert mail == "mailto:help@corp.com?subject=Help%20with%20app.example.com%3A8443%2C%20request%20id1"
    ((_, page),) = SiteInfo("https://help.corp.com/new?a=b").help_links("app.example.com", "id1")
    assert page == "https://help.corp.com/new?a=b"


def test_a_host_that_a_client_made_up_adds_nothing_to_a_mail() -> None:
    ((_, mail),) = SiteInfo("mailto:help@corp.com").help_links("a&cc=evil@example.com\r\nBcc: x", "id1")
    assert mail.count("?") == 1
    assert not set("&\r\n ") & set(mail)
