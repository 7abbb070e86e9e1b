"""E-mail addresses and domains in canonical form, to be compared; an ambiguous one has no form and matches nothing.  And names of users
that can't be taken for the address or the id of another user.
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
# Ids are "<provider>/<subject>"; the others look like the slash.
_LIKE_AN_ID = re.compile(r"\S[/\u2044\u2215\u2571\u27cb\u29f8]\S")
_MAX_NAME = 100

# Only A-Z: str.lower() would also fold letters that merely look alike (U+212A KELVIN SIGN becomes "k").
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def canonical_email(text: Any) -> str:
    """Address in the form that rules compare, or "" where no rule on e-mail may match it."""
    if not isinstance(text, str) or len(text) > _LONGEST_EMAIL or text.count("@") != 1:
        return ""
    local, _, domain = text.partition("@")
    domain = canonical_domain(domain)
    if not local or not domain or not local.isprintable() or not _REFUSED_IN_LOCAL_PART.isdisjoint(local) or looks_like_address(local):
        return ""
    return f"{local.translate(_ASCII_LOWER)}@{domain}"


def looks_like_address(name: str) -> bool:
    """Return whether a name may be taken for an e-mail address."""
    return "@" in unicodedata.normalize("NFKC", name)


def display_name(name: str, verified_email: str = "") -> str:
    """Return the name of a user for others to read, "" for one that may be taken for the address or the id of another user."""
    if not looks_like_address(name) and not _LIKE_AN_ID.search(unicodedata.normalize("NFKC", name)):
        return name
    return name if (own := canonical_email(verified_email)) and canonical_email(name) == own else ""


def unambiguous_name(verified_email: str, name: str, id: str) -> str:
    """Return the name of a user for those who rely on it: the verified address, else the name and the id, else the id alone.

    It can't be read as the name of another user, of a service account, or of a part of gate.
    """
    if verified_email and not _LIKE_AN_ID.search(verified_email):
        return verified_email
    shown = display_name(name)[:_MAX_NAME]
    return f"{shown} ({id})" if shown else id


@bounded_lru_cache(1024, max_key_length=_LONGEST_DOMAIN)  # thousands of routes name people of a few domains
def canonical_domain(text: str) -> str:
    """Domain as ASCII lower-case A-labels (NFKC, then IDNA), or "" where this is none.

    NFKC makes dots of characters that separate no labels in IDNA (U+2024), so it must add none.
    """
    if len(text) > _LONGEST_DOMAIN:
        return ""
    if not text.isascii():
        dots = text.count(".")
        text = unicodedata.normalize("NFKC", text)
        if text.count(".") != dots:
            return ""
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
