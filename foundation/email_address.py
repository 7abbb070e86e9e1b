"""E-mail addresses and domains in canonical form, to be compared; what is in doubt has none and matches nothing.  And names that can't be
taken for an address.
"""

import re
import unicodedata
from encodings import idna
from typing import Any

from foundation.bounded_cache import bounded_lru_cache

_LONGEST_EMAIL = 320  # RFC 3696 errata 1690: 64 + "@" + 255
_LONGEST_DOMAIN = 253
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_IDEOGRAPHIC_STOP = "\u3002"
_REFUSED_IN_LOCAL_PART = frozenset("\"'\\,;:<>()[] ")

# Only A-Z: str.lower() would also fold letters that merely look alike (U+212A KELVIN SIGN becomes "k").
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def canonical_email(text: Any) -> str:
    """Address in the form that rules compare, or "" where no rule on e-mail may match it."""
    if not isinstance(text, str) or len(text) > _LONGEST_EMAIL or text.count("@") != 1:
        return ""
    local, _, domain = text.partition("@")
    domain = canonical_domain(domain)
    if not local or not domain or not local.isprintable() or not _REFUSED_IN_LOCAL_PART.isdisjoint(local):
        return ""
    return f"{local.translate(_ASCII_LOWER)}@{domain}"


def is_like_an_address(name: str) -> bool:
    """Whether a name may be taken for somebody's address."""
    return "@" in unicodedata.normalize("NFKC", name)


def shown_name(told_email: str, name: str, id: str) -> str:
    """Name of somebody for people to read; never for a rule to compare.  What looks like an address, and was told as a name, is none."""
    return told_email or ("" if is_like_an_address(name) else name) or id


@bounded_lru_cache(1024, longest=_LONGEST_DOMAIN)  # thousands of routes name people of a few domains
def canonical_domain(text: str) -> str:
    """Domain as ASCII lower-case A-labels (NFKC, then IDNA), or "" where this is none."""
    if len(text) > _LONGEST_DOMAIN:
        return ""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = ".".join(_a_label(label) for label in text.split("."))
    domain = text.translate(_ASCII_LOWER)
    return domain if len(domain) <= _LONGEST_DOMAIN and _DOMAIN.fullmatch(domain) else ""


def _a_label(label: str) -> str:
    """The A-label, or "" where it does not decode to the same letters again.

    IDNA 2003 folds some letters away (zero-width ones vanish, "ß" becomes "ss"), so two owners' domains would be one.
    """
    if label.isascii():
        return label
    if _IDEOGRAPHIC_STOP in label:  # a separator to some readers (RFC 3490 3.1), so where the labels end is in doubt
        return ""
    try:
        encoded = idna.ToASCII(label).decode("ascii")
        return encoded if idna.ToUnicode(encoded) == label.lower() else ""
    except UnicodeError:
        return ""
