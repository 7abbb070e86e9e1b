"""Authentication challenges: WWW-Authenticate of a 401 to programs (RFC 9110 11.6.1, RFC 6750 3), and the reason for the operator.

No browser asks its person for a password because of `Bearer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

REALM = "gate"
RETRY_AFTER = 5  # seconds, where nobody knows better


@dataclass(frozen=True, slots=True)
class InvalidToken:
    """A credential that lets nobody in; expected, so a value and no error.

    `reason` names its kind and what is wrong with it: for the operator's log, without a secret, and never for the client.
    """

    reason: str


def challenge(scheme: str = "Bearer", *, realm: str = REALM, **parameters: str) -> str:
    """A value of WWW-Authenticate; parameters are without quotes and backslashes."""
    said = {"realm": realm, **{name: value for name, value in parameters.items() if value}}
    return f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in said.items())


UNAUTHENTICATED = challenge()
# Which of these it was, is for the log: whoever tries tokens learns nothing from it.
INVALID_TOKEN = challenge(
    error="invalid_token", error_description="The token is expired, revoked, malformed, or meant for another audience or address"
)
INSUFFICIENT_SCOPE = challenge(error="insufficient_scope", error_description="The user of the token may not do this")

_REQUIRED_HEADERS = {401: (b"www-authenticate", UNAUTHENTICATED.encode()), 503: (b"retry-after", str(RETRY_AFTER).encode())}


def missing_headers(status: int, names: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Headers that a response of this status must carry (RFC 9110 15.5.2, 10.2.3) and does not: `names` are its headers', in lower case."""
    pair = _REQUIRED_HEADERS.get(status)
    return [] if pair is None or pair[0] in names else [pair]
