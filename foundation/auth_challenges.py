"""Authentication challenges: WWW-Authenticate of a 401 (RFC 9110 11.6.1, RFC 6750 3), and the reason for the operator's log.

The scheme is `Bearer`, for which browsers show no password dialog.
"""

from collections.abc import Iterable
from dataclasses import dataclass

REALM = "gate"
RETRY_AFTER = 5  # seconds, unless a response sets its own


@dataclass(frozen=True, slots=True)
class InvalidToken:
    """Rejected credential; a value instead of an exception, because rejections are expected.

    `reason` names the kind of credential and the failure. It is for the log only, never for the client, and contains no secret.
    """

    reason: str


def challenge(scheme: str = "Bearer", *, realm: str = REALM, **parameters: str) -> str:
    """Return a WWW-Authenticate value; `parameters` must not contain quotes or backslashes."""
    fields = {"realm": realm, **{name: value for name, value in parameters.items() if value}}
    return f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in fields.items())


UNAUTHENTICATED = challenge()
# One description for all failures, so that a client that guesses tokens learns nothing; the log has the exact reason.
INVALID_TOKEN = challenge(
    error="invalid_token", error_description="The token is expired, revoked, malformed, or meant for another audience or address"
)
INSUFFICIENT_SCOPE = challenge(error="insufficient_scope", error_description="The user of the token may not do this")

_REQUIRED_HEADERS = {401: (b"www-authenticate", UNAUTHENTICATED.encode()), 503: (b"retry-after", str(RETRY_AFTER).encode())}


def missing_headers(status: int, names: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers that a response of this status requires (RFC 9110 15.5.2, 10.2.3) and lacks.

    `names` are the lower-case names of its headers.
    """
    pair = _REQUIRED_HEADERS.get(status)
    return [] if pair is None or pair[0] in names else [pair]
