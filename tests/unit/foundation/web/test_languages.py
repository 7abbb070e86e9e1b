import pytest

from foundation.web.languages import LANGUAGES, TRANSLATED, catalogue, in_language, number_in
from foundation.web.message import Message
from foundation.web.pages import TITLES, error_response


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("de", "Sie haben keinen Zugriff"),
        ("fr", "Vous n\u2019avez pas acc\u00e8s"),
        ("es", "No tiene acceso"),
        ("en", "You don't have access"),
        ("tlh", "You don't have access"),
    ],
)
def test_an_error_page_is_in_its_readers_language(language: str, said: str) -> None:
    assert in_language(TITLES[403], language) == said
    _, body = error_response(403, "x", "id", "text/html", language=language)
    assert said.replace("'", "&#39;") in body.decode()
    assert f'<html lang="{language}">' in body.decode()


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_message_holds_is_no_markup_in_any_language(language: str) -> None:
    (known,) = [msgid for msgid in catalogue(TRANSLATED[0])._catalog if "%(person)s" in msgid and "%(advice)s" in msgid]  # type: ignore[attr-defined]
    reason = Message(known, person="<script>alert(1)</script>", advice="<b>%(x)s</b>")
    _, body = error_response(403, reason, "<i>", "text/html", language=language, advice=reason, links=((reason, "/"),))
    assert b"<script" not in body
    assert b"<b>" not in body
    assert b"<i>" not in body
    assert b"&lt;script&gt;alert(1)&lt;/script&gt;" in body


@pytest.mark.parametrize("accept", ["application/json", "application/problem+json", "text/plain", ""])
def test_programs_read_english(accept: str) -> None:
    for language in TRANSLATED:
        assert error_response(403, TITLES[403], "id", accept, language=language) == error_response(403, TITLES[403], "id", accept)


def test_numbers_choose_their_form_as_the_language_does() -> None:
    forms = {language: [catalogue(language).ngettext("one", "many", number) for number in (0, 1, 2)] for language in LANGUAGES}
    assert forms == {
        "en": ["many", "one", "many"],
        "de": ["many", "one", "many"],
        "es": ["many", "one", "many"],
        "fr": ["many", "one", "many"],
    }


def test_thousands_are_grouped_as_the_language_does() -> None:
    written = {language: [number_in(language, number) for number in (7, 1000, 1234567)] for language in LANGUAGES}
    assert written == {
        "en": ["7", "1,000", "1,234,567"],
        "de": ["7", "1.000", "1.234.567"],
        "es": ["7", "1000", "1.234.567"],
        "fr": ["7", "1\u202f000", "1\u202f234\u202f567"],
    }
