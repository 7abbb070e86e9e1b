"""Languages of our pages, each with its catalogue (docs/decisions/pages.md), and what a client would rather read (RFC 9110 12.5)."""

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


LONGEST_HEADER = 500  # characters of Accept-Language that are looked at


def preferred_type(accept: str) -> str:
    """ "html", "json" or "text": the media type that this client would rather read (RFC 9110 12.5.1, the most wanted of the three)."""
    best, best_weight = "text", 0.0
    for item in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in item.split(";"))
        kind = {"text/html": "html", "application/xhtml+xml": "html", "application/json": "json"}.get(media_type)
        if kind is None and media_type.startswith("application/") and media_type.endswith("+json"):
            kind = "json"
        weight = _weight(parameters)
        if kind and weight > best_weight:
            best, best_weight = kind, weight
    return best


def preferred_language(accept_language: str) -> str:
    """The one of our languages that this client would rather read (RFC 9110 12.5.4); English where it names none of them.

    `de-AT` is German to us.  Of those wanted alike the first counts; `*` stands for all that are not named.
    """
    weights: dict[str, float] = {}
    for item in accept_language[:LONGEST_HEADER].lower().split(","):
        tag, *parameters = (part.strip() for part in item.split(";"))
        language = tag.partition("-")[0]
        if language in LANGUAGES or language == "*":
            weights[language] = max(weights.get(language, 0.0), _weight(parameters))
    others = weights.pop("*", 0.0)
    weights |= {language: others for language in LANGUAGES if language not in weights}
    best = max(weights, key=weights.__getitem__)
    return best if weights[best] > 0 else ENGLISH


def _weight(parameters: list[str]) -> float:
    """Quality value (12.4.2): 1 where there is none, 0 where it is none."""
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                weight = float(parameter[2:])
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0
