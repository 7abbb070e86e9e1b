"""Cookie headers of the plain form, split into what gate judges by and what the upstream sees.

Envoy's script splits them in the same way (carried.lua `split_anew`); what either has a doubt about is for the judge.
"""

import re
from dataclasses import dataclass

from foundation.crypto.cookies import HOST_PREFIX, is_ours

LONGEST = 4096
_VALUE = re.compile(rb"[A-Za-z0-9_-]+")
_BLANKS = b" \t"


@dataclass(frozen=True, slots=True)
class CookieNames:
    """Names of the session's cookies; `companion` is empty where there is none."""

    session: bytes
    companion: bytes

    def is_beside(self, name: bytes) -> bool:
        """Whether a cookie is ours, and none that a session is judged by: it goes nowhere, whatever it is."""
        own = self.session.lower()
        return is_ours(name, self.session.decode()) and name.lower() not in (own, HOST_PREFIX.lower().encode() + own)

    @property
    def base(self) -> bytes:
        """What the name of every cookie of ours holds, in lower case."""
        return self.session.lower().removeprefix(HOST_PREFIX.lower().encode())


@dataclass(frozen=True, slots=True)
class PlainCookies:
    """Cookies of one request: the session's as they are looked up, and what remains, None for nothing."""

    ours: bytes
    rest: bytes | None


def split(header: bytes, names: CookieNames) -> PlainCookies | None:
    """Cookies of a header of the plain form `a=1; b=2`, with one session and its companion; None for any other."""
    if len(header) > LONGEST:
        return None
    found: dict[bytes, bytes] = {} if names.companion else {b"": b""}
    rest = []
    for position, spaced in enumerate(header.split(b";")):
        pair = spaced[1:] if position else spaced
        if (position and not spaced.startswith(b" ")) or not pair or pair.strip(_BLANKS) != pair:
            return None
        name, _, value = pair.partition(b"=")
        if names.base not in name.lower():
            rest.append(pair)
        elif names.is_beside(name):
            continue
        elif name in (names.session, names.companion) and name not in found and _VALUE.fullmatch(value):
            found[name] = value
        else:
            return None
    if names.session not in found or names.companion not in found:
        return None
    return PlainCookies(found[names.session] + b"|" + found[names.companion], b"; ".join(rest) if rest else None)
