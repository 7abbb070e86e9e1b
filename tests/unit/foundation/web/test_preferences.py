import pytest

from foundation.web.preferences import LONGEST_HEADER, preferred_language, preferred_type


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "html"),
        ("application/json", "json"),
        ("application/problem+json", "json"),
        ("application/json, text/html;q=0.5", "json"),
        ("text/html, application/json;q=0.9", "html"),
        ("text/html;q=0", "text"),
        ("text/html;q=nonsense", "text"),
        ("*/*", "text"),
        ("", "text"),
        (",,;;=", "text"),
    ],
)
def test_the_client_gets_the_form_it_likes_best(accept: str, kind: str) -> None:
    assert preferred_type(accept) == kind


@pytest.mark.parametrize(
    ("accept_language", "language"),
    [
        ("de", "de"),
        ("de-AT,de;q=0.9,en;q=0.5", "de"),
        ("FR-ca", "fr"),
        ("es-419, en;q=0.9", "es"),
        ("en-GB,en;q=0.9,de;q=0.8", "en"),
        ("it,de;q=0.4,fr;q=0.7", "fr"),
        ("de;q=0.5, fr;q=0.5", "de"),  # of those wanted alike the first
        ("de-DE;q=0, de;q=0.3", "de"),
        ("it, ja;q=0.9", "en"),
        ("ast, dev, frr, eso", "en"),  # other languages, which begin alike
        ("*", "en"),
        ("fr;q=0.1, *;q=0.2", "en"),
        ("en;q=0, *", "de"),
        ("en;q=0", "en"),  # none of ours is wanted, and some answer there must be
        ("de;q=0, fr;q=0", "en"),
        ("", "en"),
        (";;,,q=1;=", "en"),
        ("de;q=nonsense, fr;q=0.1", "fr"),
        ("de;q=nan, es;q=inf, fr;q=0.001", "fr"),
        ("de;q=7, fr;q=-1, es;q=0.2", "es"),
        ("de; q=0.2 ; x=y, fr ;q=0.3", "fr"),
        ("d\u00e9,\x00de,../de", "en"),
    ],
)
def test_a_reader_gets_the_language_wanted_most_of_those_there_are(accept_language: str, language: str) -> None:
    assert preferred_language(accept_language) == language


def test_of_a_very_long_header_only_the_beginning_is_read() -> None:
    assert preferred_language("it," * 200 + "de") == "en"
    assert preferred_language("de;q=0.1," + "it," * 10**6 + "fr") == "de"
    assert preferred_language(" " * (LONGEST_HEADER - 2) + "de") == "de"
