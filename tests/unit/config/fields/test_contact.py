"""A contact is a mailbox or a page, and nothing that runs."""

import pytest

from config.fields.contact import contact


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("help@example.com", "mailto:help@example.com"),
        ("mailto:it+gate@a.example.com", "mailto:it+gate@a.example.com"),
        ("https://help.example.com/new?topic=access", "https://help.example.com/new?topic=access"),
        ("http://help.internal/", "http://help.internal/"),
    ],
)
def test_contact_urls(written: str, url: str) -> None:
    assert contact(written) == url


@pytest.mark.parametrize(
    "written",
    ["", "help", "help@localhost", "javascript:alert(1)", "data:text/html,x", "a@b.c?subject=x", "ftp://a.example/"],
)
def test_invalid_contacts(written: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are the setting's own
        contact(written)
