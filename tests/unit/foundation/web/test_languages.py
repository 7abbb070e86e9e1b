import pytest

from foundation.web.languages import (
    LANGUAGES,
    MAX_HEADER_LENGTH,
    TRANSLATED_LANGUAGES,
    catalog,
    format_number,
    preferred_language,
    preferred_media_type,
    translate,
)
from foundation.web.message import Message
from foundation.web.pages import ERROR_TITLES, error_response


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Sie haben keinen Zugriff"),
        ("fr", "Vous n\u2019avez pas acc\u00e8s"),
        ("es", "No tiene acceso"),
        ("en", "You don't have access"),
        ("tlh", "You don't have access"),
    ],
)
def test_an_error_page_is_in_its_readers_language(language: str, text: str) -> None:
    assert translate(ERROR_TITLES[403], language) == text
    _, body = error_response(403, "x", "id", "text/html", language=language)
    assert text.replace("'", "&#39;") in body.decode()
    assert f'<html lang="{language}">' in body.decode()


@pytest.mark.parametrize("language", LANGUAGES)
def test_message_content_is_no_markup_in_any_language(language: str) -> None:
    (known,) = [msgid for msgid in catalog(TRANSLATED_LANGUAGES[0])._catalog if "%(user)s" in msgid and "%(advice)s" in msgid]  # type: ignore[attr-defined]
    reason = Message(known, user="<script>alert(1)</script>", advice="<b>%(x)s</b>")
    _, body = error_response(403, reason, "<i>", "text/html", language=language, advice=reason, links=((reason, "/"),))
    assert b"<script" not in body
    assert b"<b>" not in body
    assert b"<i>" not in body
    assert b"&lt;script&gt;alert(1)&lt;/script&gt;" in body


@pytest.mark.parametrize("accept", ["application/json", "application/problem+json", "text/plain", ""])
def test_programmatic_output_is_english(accept: str) -> None:
    for language in TRANSLATED_LANGUAGES:
        assert error_response(403, ERROR_TITLES[403], "id", accept, language=language) == error_response(
            403, ERROR_TITLES[403], "id", accept
        )


def test_numbers_choose_their_form_as_the_language_does() -> None:
    forms = {language: [catalog(language).ngettext("one", "many", number) for number in (0, 1, 2)] for language in LANGUAGES}
    assert forms == {
        "en": ["many", "one", "many"],
        "de": ["many", "one", "many"],
        "es": ["many", "one", "many"],
        "fr": ["many", "one", "many"],
    }


def test_thousands_are_grouped_as_the_language_does() -> None:
    written = {language: [format_number(language, number) for number in (7, 1000, 1234567)] for language in LANGUAGES}
    assert written == {
        "en": ["7", "1,000", "1,234,567"],
        "de": ["7", "1.000", "1.234.567"],
        "es": ["7", "1000", "1.234.567"],
        "fr": ["7", "1\u202f000", "1\u202f234\u202f567"],
    }


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
    assert preferred_media_type(accept) == kind


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
        ("en;q=0", "en"),  # no supported language is accepted, so the default applies
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
def test_reader_gets_the_available_language_with_highest_preference(accept_language: str, language: str) -> None:
    assert preferred_language(accept_language) == language


def test_of_a_very_long_header_only_the_beginning_is_read() -> None:
    assert preferred_language("it," * 200 + "de") == "en"
    assert preferred_language("de;q=0.1," + "it," * 10**6 + "fr") == "de"
    assert preferred_language(" " * (MAX_HEADER_LENGTH - 2) + "de") == "de"
