"""Header templates: `${claim.email}` is a property of the caller, `$$` a dollar sign."""

import difflib
import re
from dataclasses import dataclass

CLAIM = "claim."
ASSERTION = "assertion"
# Different in each request of a user.
REQUEST_ID, FINGERPRINT = "request_id", "client_certificate.fingerprint"
# Tokens that the provider issued for the user: secrets, which are sent separately (authorize/upstream/provider_token_headers.py).
ACCESS_TOKEN, ID_TOKEN = "access_token", "id_token"
TOKENS = frozenset({ACCESS_TOKEN, ID_TOKEN})
NAMES = (ASSERTION, "groups", "session", "subject", "user", REQUEST_ID, FINGERPRINT, ACCESS_TOKEN, ID_TOKEN)

_VARIABLE = re.compile(r"\$(?:\$|\{([^{}]*)\}|(\{))")


@dataclass(frozen=True, slots=True)
class Variable:
    """Variable of a template: one of NAMES, or `claim.<path>` with the dotted path of the claim."""

    name: str


Template = tuple[str | Variable, ...]


def template(text: str) -> Template:
    """Parse a header value into texts and variables. Raises ValueError for an unknown variable."""
    parts: list[str | Variable] = []
    end = 0
    for found in _VARIABLE.finditer(text):
        parts += [text[end : found.start()]] if found.start() > end else []
        end = found.end()
        if found[2]:
            raise ValueError("has an unterminated `${`. Write `$${` for a literal `${`")
        parts.append("$" if found[1] is None else Variable(_check_variable(found[1])))
    parts += [text[end:]] if end < len(text) else []
    return tuple(parts)


def static_value(text: str) -> str | None:
    """Return the value of a template without variables; None if it has variables."""
    parts = template(text) if "$" in text else (text,)
    return "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None


def _check_variable(name: str) -> str:
    if name in NAMES or (name.startswith(CLAIM) and len(name) > len(CLAIM)):
        return name
    close = difflib.get_close_matches(name, (*NAMES, f"{CLAIM}email", f"{CLAIM}name"), n=1)
    known = f"did you mean ${{{close[0]}}}?" if close else f"use claim.<name>, {', '.join(NAMES)}"
    raise ValueError(f"${{{name}}} is unknown: {known}")
