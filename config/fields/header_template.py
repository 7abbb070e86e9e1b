"""Header templates: `${claim.email}` stands for what is known of the caller, `$$` for a dollar sign."""

import difflib
import re
from dataclasses import dataclass

CLAIM = "claim."
ASSERTION = "assertion"
# What is another in each request of the same person.
REQUEST_ID, FINGERPRINT = "request_id", "client_certificate.fingerprint"
# What the provider gave for this person: secrets, which are not told as other facts are (authorize/upstream/provider_token_headers.py).
ACCESS_TOKEN, ID_TOKEN = "access_token", "id_token"
TOKENS = frozenset({ACCESS_TOKEN, ID_TOKEN})
NAMES = (ASSERTION, "groups", "session", "subject", "user", REQUEST_ID, FINGERPRINT, ACCESS_TOKEN, ID_TOKEN)

_VARIABLE = re.compile(r"\$(?:\$|\{([^{}]*)\}|(\{))")


@dataclass(frozen=True, slots=True)
class Variable:
    """Variable of a template: one of NAMES, or `claim.<path>` with the claim's dotted path."""

    name: str


Template = tuple[str | Variable, ...]


def template(text: str) -> Template:
    """Template of a header's value: texts and variables in turn.  ValueError names what is unknown in it."""
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
    """Value of a template without variables; None for one that has some."""
    parts = template(text) if "$" in text else (text,)
    return "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None


def _check_variable(name: str) -> str:
    if name in NAMES or (name.startswith(CLAIM) and len(name) > len(CLAIM)):
        return name
    close = difflib.get_close_matches(name, (*NAMES, f"{CLAIM}email", f"{CLAIM}name"), n=1)
    known = f"did you mean ${{{close[0]}}}?" if close else f"use claim.<name>, {', '.join(NAMES)}"
    raise ValueError(f"${{{name}}} is unknown: {known}")
