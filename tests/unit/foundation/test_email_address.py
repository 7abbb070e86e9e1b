"""Equal addresses, and addresses that match nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.email_address import canonical_domain, canonical_email, display_name, unambiguous_name


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ann@corp.com", "ann@corp.com"),
        ("Ann.B+tag@CORP.com", "ann.b+tag@corp.com"),
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),
        ("ann@BÜCHER.example", "ann@xn--bcher-kva.example"),
        ("ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"),
        ("ann@ｃｏｒｐ.com", "ann@corp.com"),
        ("änn@corp.com", "änn@corp.com"),
        ("\u212aen@corp.com", "\u212aen@corp.com"),  # KELVIN SIGN is not a K in a mailbox
    ],
)
def test_an_address_has_one_canonical_form(text: str, canonical: str) -> None:
    assert canonical_email(text) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "a",
        "a@",
        "@corp.com",
        "a@evil@corp.com",
        '"a@corp.com"@evil',
        '"a"@corp.com',
        "a@corp.com ",
        " a@corp.com",
        "a b@corp.com",
        "a@corp.com.",
        "a@.corp.com",
        "a@corp..com",
        "a@co rp.com",
        "a@corp.com\n",
        "a\n@corp.com",
        "a\x00@corp.com",
        "a@corp.com\x00",
        "a@corp\u200b.com",
        "a\u200b@corp.com",
        "a@stra\u00dfe.de",
        "a@corp\u3002com",
        "a@corp\u2024com",
        "a@corp\u2025com",
        "a@corp\uff0ecom",
        "a@corp\ufe52com",
        "a@corp\u2488com",  # DIGIT ONE FULL STOP
        "a@corp\ufe6bevil.com",
        "ceo\uff20corp.com@evil.com",
        "ceo\ufe6bcorp.com@evil.com",
        "a@corp.com\uff20evil.com",
        "a@corp.com%00",
        "a@[127.0.0.1]",
        "a@-corp.com",
        "a@corp-.com",
        "<a@corp.com>",
        "a,b@corp.com",
        "a@" + "b" * 64 + ".com",
        "a" * 65536 + "@corp.com",
        "a@" + "b." * 32768 + "com",
        None,
        1,
        True,
        ["a@corp.com"],
        {"a": "a@corp.com"},
        b"a@corp.com",
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_address_in_doubt_has_none(text: object) -> None:
    assert canonical_email(text) == ""


@pytest.mark.parametrize("domain", ["cоrp.com", "cоrp.cоm", "corp.c\u0131m", "\u0131corp.com", "corр.com"], ids=ascii)
def test_a_look_alike_is_another_domain(domain: str) -> None:
    assert canonical_domain(domain) not in ("corp.com", "icorp.com")


@given(st.text(max_size=5), st.characters(), st.text(max_size=5))
def test_an_address_has_the_labels_that_are_written(first: str, middle: str, last: str) -> None:
    domain = canonical_domain(f"{first}{middle}{last}")
    assert not domain or domain.count(".") == f"{first}{middle}{last}".count(".")


@pytest.mark.parametrize(
    ("name", "displayed"),
    [
        ("Ann", "Ann"),
        ("Ann (Sales)", "Ann (Sales)"),
        ("Mustermann, Ann / Extern", "Mustermann, Ann / Extern"),
        ("ceo@corp.com", ""),
        ("ceo\uff20corp.com", ""),
        ("CEO <ceo@corp.com>", ""),
        ("corp/ceo", ""),
        ("The Boss (corp/ceo)", ""),
        ("The Boss (corp\u2215ceo)", ""),
        ("The Boss (corp\uff0fceo)", ""),
        ("service_account/ci", ""),
        ("Ann@Own.com", "Ann@Own.com"),
        ("", ""),
    ],
    ids=ascii,
)
def test_a_name_is_no_address_or_id_of_another_user(name: str, displayed: str) -> None:
    assert display_name(name, "ann@own.com") == displayed
    assert unambiguous_name("", name, "corp/1") == (f"{displayed} (corp/1)" if displayed and "@" not in displayed else "corp/1")
    assert unambiguous_name("ann@own.com", name, "corp/1") == "ann@own.com"


def test_an_address_that_looks_like_an_id_is_no_name() -> None:
    assert unambiguous_name("service_account/ci@own.com", "Ann", "corp/1") == "Ann (corp/1)"


@pytest.mark.parametrize(("length", "is_valid"), [(253, True), (254, False)])
def test_maximum_length_of_a_domain(length: int, is_valid: bool) -> None:
    domain = ("a" * 49 + ".") * 5 + "b" * (length - 250)
    assert canonical_domain(domain) == (domain if is_valid else "")


@given(st.text(max_size=40))
def test_canonical_path_is_unchanged(text: str) -> None:
    domain = canonical_domain(text)
    assert domain == "" or (domain.isascii() and canonical_domain(domain) == domain)
