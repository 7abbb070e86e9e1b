"""Languages of our pages, each with its catalogue, by Python's own gettext (docs/decisions/languages.md)."""

import gettext
from pathlib import Path

from foundation.web.message import translated

LOCALE = Path(__file__).parents[1] / "locale"
DOMAIN = "gate"
ENGLISH = "en"
TRANSLATED = ("de", "es", "fr")
LANGUAGES = (ENGLISH, *TRANSLATED)
_BETWEEN_THOUSANDS = {ENGLISH: ",", "de": ".", "es": ".", "fr": "\u202f"}

# Read with this module: a catalogue that is missing or broken ends the start, and no visitor waits for one.
_CATALOGUES: dict[str, gettext.NullTranslations] = {language: gettext.translation(DOMAIN, LOCALE, [language]) for language in TRANSLATED}
_CATALOGUES[ENGLISH] = gettext.NullTranslations()


def catalogue(language: str) -> gettext.NullTranslations:
    """Catalogue of a language; that of English, which changes nothing, where we have none."""
    return _CATALOGUES.get(language, _CATALOGUES[ENGLISH])


def in_language(said: str, language: str) -> str:
    """Message in a language; what is none stays as it is."""
    return str(translated(said, catalogue(language).gettext))


def number_in(language: str, number: int) -> str:
    """Number as a language writes it; Spanish groups from five digits on."""
    return str(number) if language == "es" and number < 10_000 else f"{number:,}".replace(",", _BETWEEN_THOUSANDS[language])
