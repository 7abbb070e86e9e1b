"""Canonical email addresses and domains, and user names that cannot be mistaken for another user's address or id.

An ambiguous address or domain has no canonical form and matches no rule.
"""

import re
import unicodedata
from encodings import idna
from typing import Any

from foundation.bounded_cache import bounded_lru_cache

_MAX_EMAIL_LENGTH = 320  # RFC 3696 errata 1690: 64 + "@" + 255
_MAX_DOMAIN_LENGTH = 253
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_IDEOGRAPHIC_STOP = "\u3002"
_FORBIDDEN_IN_LOCAL_PART = frozenset("\"'\\,;:<>()[] ")
# Ids are "<provider>/<subject>"; the other characters look like a slash.
_LIKE_AN_ID = re.compile(r"\S[/\u2044\u2215\u2571\u27cb\u29f8]\S")
_MAX_NAME_LENGTH = 100

# Only A-Z: str.lower() would also fold letters that merely look alike (U+212A KELVIN SIGN becomes "k").
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def canonical_email(text: Any) -> str:
    """Return the address in the form that rules compare, or "" if no rule on email may match it."""
    if not isinstance(text, str) or len(text) > _MAX_EMAIL_LENGTH or text.count("@") != 1:
        return ""
    local, _, domain = text.partition("@")
    domain = canonical_domain(domain)
    if not local or not domain or not local.isprintable() or not _FORBIDDEN_IN_LOCAL_PART.isdisjoint(local) or looks_like_address(local):
        return ""
    return f"{local.translate(_ASCII_LOWER)}@{domain}"


def looks_like_address(name: str) -> bool:
    """Return whether a name could be mistaken for an email address."""
    return "@" in unicodedata.normalize("NFKC", name)


def display_name(name: str, verified_email: str = "") -> str:
    """Return a user's name for display, or "" if it could be mistaken for another user's address or id."""
    if not looks_like_address(name) and not _LIKE_AN_ID.search(unicodedata.normalize("NFKC", name)):
        return name
    return name if (verified := canonical_email(verified_email)) and canonical_email(name) == verified else ""


def unambiguous_name(verified_email: str, name: str, id: str) -> str:
    """Return a name that identifies the user: the verified address, else name and id, else the id alone.

    It cannot be read as the name of another user, of a service account, or of a component of gate.
    """
    if verified_email and not _LIKE_AN_ID.search(verified_email):
        return verified_email
    displayed = display_name(name)[:_MAX_NAME_LENGTH]
    return f"{displayed} ({id})" if displayed else id


@bounded_lru_cache(1024, max_key_length=_MAX_DOMAIN_LENGTH)  # thousands of routes name users of a few domains
def canonical_domain(text: str) -> str:
    """Return the domain as lower-case ASCII A-labels (NFKC, then IDNA), or "" if it is invalid.

    NFKC turns characters that do not separate labels in IDNA into dots (U+2024), so a change of their number is rejected.
    """
    if len(text) > _MAX_DOMAIN_LENGTH:
        return ""
    if not text.isascii():
        dots = text.count(".")
        text = unicodedata.normalize("NFKC", text)
        if text.count(".") != dots:
            return ""
        text = ".".join(_a_label(label) for label in text.split("."))
    domain = text.translate(_ASCII_LOWER)
    return domain if len(domain) <= _MAX_DOMAIN_LENGTH and _DOMAIN.fullmatch(domain) else ""


def _a_label(label: str) -> str:
    """Return the A-label, or "" if it does not decode to the same label.

    IDNA 2003 drops or folds some characters (zero-width ones, "ß" to "ss"), which would make two domains with two owners equal.
    """
    if label.isascii():
        return label
    if _IDEOGRAPHIC_STOP in label:  # a label separator to some parsers (RFC 3490 3.1), so ambiguous
        return ""
    try:
        encoded = idna.ToASCII(label).decode("ascii")
        return encoded if idna.ToUnicode(encoded) == label.lower() else ""
    except UnicodeError:
        return ""
