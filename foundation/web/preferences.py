"""Preferences of a client (RFC 9110 12.5): the media type, and the language, that it would rather read."""

from foundation.web.languages import ENGLISH, LANGUAGES

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
