"""Languages and catalogs of gate's pages (docs/decisions/pages.md), and content negotiation (RFC 9110 12.5)."""

import gettext
from pathlib import Path

from foundation.web.message import localize_value

LOCALE = Path(__file__).parents[1] / "locale"
DOMAIN = "gate"
ENGLISH = "en"
TRANSLATED_LANGUAGES = ("de", "es", "fr")
LANGUAGES = (ENGLISH, *TRANSLATED_LANGUAGES)
_THOUSANDS_SEPARATORS = {ENGLISH: ",", "de": ".", "es": ".", "fr": "\u202f"}

# Loaded at import, so that a missing or broken catalog fails at start and no request waits for it.
_CATALOGS: dict[str, gettext.NullTranslations] = {
    language: gettext.translation(DOMAIN, LOCALE, [language]) for language in TRANSLATED_LANGUAGES
}
_CATALOGS[ENGLISH] = gettext.NullTranslations()


def catalog(language: str) -> gettext.NullTranslations:
    """Return the catalog of a language, or the English one, which translates nothing."""
    return _CATALOGS.get(language, _CATALOGS[ENGLISH])


def translate(text: str, language: str) -> str:
    """Translate a `Message`; any other text is returned unchanged."""
    return str(localize_value(text, catalog(language).gettext))


def format_number(language: str, number: int) -> str:
    """Format a number with the thousands separator of a language; Spanish groups from five digits on."""
    return str(number) if language == "es" and number < 10_000 else f"{number:,}".replace(",", _THOUSANDS_SEPARATORS[language])


MAX_HEADER_LENGTH = 500  # characters of Accept-Language that are parsed


def preferred_media_type(accept: str) -> str:
    """Return "html", "json" or "text", the media type with the highest quality (RFC 9110 12.5.1)."""
    best, best_quality = "text", 0.0
    for item in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in item.split(";"))
        kind = {"text/html": "html", "application/xhtml+xml": "html", "application/json": "json"}.get(media_type)
        if kind is None and media_type.startswith("application/") and media_type.endswith("+json"):
            kind = "json"
        quality = _quality(parameters)
        if kind and quality > best_quality:
            best, best_quality = kind, quality
    return best


def preferred_language(accept_language: str) -> str:
    """Return the supported language with the highest quality (RFC 9110 12.5.4), English by default.

    `de-AT` counts as German. The first of equal qualities wins; `*` applies to all languages that are not listed.
    """
    qualities: dict[str, float] = {}
    for item in accept_language[:MAX_HEADER_LENGTH].lower().split(","):
        tag, *parameters = (part.strip() for part in item.split(";"))
        language = tag.partition("-")[0]
        if language in LANGUAGES or language == "*":
            qualities[language] = max(qualities.get(language, 0.0), _quality(parameters))
    others = qualities.pop("*", 0.0)
    qualities |= {language: others for language in LANGUAGES if language not in qualities}
    best = max(qualities, key=qualities.__getitem__)
    return best if qualities[best] > 0 else ENGLISH


def _quality(parameters: list[str]) -> float:
    """Return the quality value (12.4.2): 1 by default, 0 if it is malformed."""
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                quality = float(parameter[2:])
            except ValueError:
                return 0.0
            return quality if 0.0 <= quality <= 1.0 else 0.0
    return 1.0
