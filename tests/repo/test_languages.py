"""Every text of the pages is in every catalogue, and every text of a catalogue is on a page."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog

from authorize.policy.reasons import Reason
from foundation.web.languages import TRANSLATED_LANGUAGES
from tests.repo.test_layout import ROOT, trees
from tests.support.catalogues import catalogue_path, compiled, po, renewed, texts, written

PLACEHOLDER = re.compile(r"%\((\w+)\)s|<[^>]+>")
# Functions with texts for users: the position of the first such argument, and the names of the others.
_TEXT_FUNCTIONS = {"render_error": (2, {"reason", "advice", "links"}), "Deny": (1, {"reason", "advice", "links"}), "_handler": (1, set())}
# Texts for operators and client applications are English.
ENGLISH_ALONE = {"proxy/verdict_builder.py", "gateproject/admin_site.py"}


@pytest.mark.parametrize("language", TRANSLATED_LANGUAGES)
def test_every_text_is_translated_and_no_other(language: str) -> None:
    assert written(language).get("You don't have access") is not None
    assert po(renewed(language)) == catalogue_path(language, "po").read_bytes(), "run `make messages`, then translate what is new"
    assert [message.id for message in written(language) if message.id and not all(_forms(message.string))] == []


@pytest.mark.parametrize("language", TRANSLATED_LANGUAGES)
def test_a_translation_has_the_same_places_and_is_certain(language: str) -> None:
    catalogue = written(language)
    for message in catalogue:
        if message.id:
            assert not message.fuzzy, message.id
            for form in _forms(message.string):
                assert sorted(PLACEHOLDER.findall(form)) == sorted(PLACEHOLDER.findall(_forms(message.id)[-1])), message.id
                # A message without placeholders is used unchanged; a text of a template never is.
                if PLACEHOLDER.search(form) or any(file.endswith(".html") for file, _ in message.locations):
                    assert form % dict.fromkeys(PLACEHOLDER.findall(form), "") is not None
                assert form == form.strip()
                assert '"' not in form, f"{form}: it may be in an attribute"
    assert len(list(catalogue)) > 200


@pytest.mark.parametrize("language", TRANSLATED_LANGUAGES)
def test_compiled_catalogue_matches_source(language: str) -> None:
    assert compiled(written(language)) == catalogue_path(language, "mo").read_bytes(), "run `make messages`"


def _forms(output: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (output,) if isinstance(output, str) else tuple(output)


def test_the_texts_are_found() -> None:
    found: Catalog = texts()
    known = [str(message.id) for message in found]
    for text in ("You don't have access", Reason.NOT_SIGNED_IN.value, "%(error)s.", "protected by gate."):
        assert any(text in each for each in known), text


def test_texts_for_users_are_messages() -> None:
    """A plain string would stay English on every page."""
    places = [f"{path}:{line} {text!r}" for path, line, text in _plain_text() if str(path) not in ENGLISH_ALONE]
    assert places == []


def _plain_text() -> Iterator[tuple[Path, int, str]]:
    for path, tree in trees().items():
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and (text_arguments := _TEXT_FUNCTIONS.get(_name(call.func))) is not None:
                first, names = text_arguments
                output = [*call.args[first:], *(keyword.value for keyword in call.keywords if keyword.arg in names)]
                yield from ((path, call.lineno, ast.unparse(text)) for value in output for text in _literals(value))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def _literals(value: ast.expr) -> Iterator[ast.expr]:
    """Return strings with a space that are not messages. Babel checks the arguments of messages."""
    if isinstance(value, ast.Tuple | ast.List):
        for each in value.elts:
            yield from _literals(each)
    elif isinstance(value, ast.Constant | ast.JoinedStr) and re.search(r"[a-z] [a-z]", ast.unparse(value)):
        yield value


_SPOKEN = re.compile(
    r"(?s){%\s*trans\b.*?{%\s*endtrans\s*%}|{#.*?#}|{{.*?}}|{%.*?%}|<style>.*?</style>|<svg.*?</svg>|<link[^>]*>|<meta[^>]*>"
)
_TAG_TEXT = re.compile(r'\b(?:title|alt|placeholder|aria-label|data-fits|data-done)="[^"]*[A-Za-z][^"]*"')


def test_templates_have_no_untranslated_text() -> None:
    for template in (ROOT / "foundation/templates").rglob("*.html"):
        left = _SPOKEN.sub("", template.read_text())
        assert _TAG_TEXT.findall(left) == [], template
        terms = set(re.findall(r"[^\W\d_]+", re.sub(r"(?s)<[^>]*>", " ", left)))
        assert terms <= {"gate"}, template


def test_templates_translate_only_their_text() -> None:
    """`_` treats its argument as markup, so external values need the filter `words`, which escapes them."""
    for template in (ROOT / "foundation/templates").rglob("*.html"):
        for values in re.findall(r"\b(?:_|gettext|ngettext)\(\s*([^\s])", template.read_text()):
            assert values == '"', template
