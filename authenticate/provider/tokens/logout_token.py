"""Validation of logout tokens (OpenID Connect Back-Channel Logout 1.0, section 2.6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authenticate.provider.issuer import key_is_for_issuer, matches_issuer
from authenticate.provider.tokens.key_set import Keys
from authenticate.provider.tokens.signed_token import LEEWAY, InvalidSignedToken, TokenType

LOGOUT_TOKEN = TokenType("logout token", frozenset({"logout+jwt", "jwt"}))
EVENT = "http://schemas.openid.net/event/backchannel-logout"
# Providers use a lifetime of two minutes. A used token is recorded until it expires, so its age is bounded.
MAX_AGE = 3600.0


@dataclass(frozen=True, slots=True)
class LogoutRequest:
    """The sessions to end: those of `sid`, of `subject`, or of both if both are given; "" is absent.

    Times are Unix seconds.
    """

    issuer: str
    subject: str
    sid: str
    id: str  # `jti`
    issued_at: float
    expires_at: float  # the token is not accepted later


# enforcement-point: Sign-in and sign-out: Back-channel logout token
def verify(token: str, keys: Keys, issuer: str, client_id: str, algorithms: frozenset[str], now: float) -> LogoutRequest:
    """Return the sessions to end. Raises SigningKeyNotFound, InvalidSignedToken or TokenNotCurrent.

    The caller checks whether the token was used before.
    """
    header, payload = LOGOUT_TOKEN.split(token)
    algorithm = LOGOUT_TOKEN.algorithm(header, algorithms)
    named = payload.get("iss")
    if not isinstance(named, str) or not matches_issuer(issuer, named):
        raise InvalidSignedToken("the logout token has another issuer")
    usable = tuple(key for key in keys if key_is_for_issuer(key, issuer, named))
    LOGOUT_TOKEN.check_signature(token, usable, algorithm, header.get("kid"))
    LOGOUT_TOKEN.audiences(payload, client_id)
    LOGOUT_TOKEN.check_times(payload, now)
    issued = LOGOUT_TOKEN.time_claim(payload, "iat")
    if issued <= now - MAX_AGE:
        raise InvalidSignedToken("the logout token is too old")
    _check_event(payload)
    subject, sid = (LOGOUT_TOKEN.string_claim(payload, name) if name in payload else "" for name in ("sub", "sid"))
    if not (subject or sid):
        raise InvalidSignedToken("the logout token has neither a subject nor a session")
    expires = min(LOGOUT_TOKEN.time_claim(payload, "exp") + LEEWAY, issued + MAX_AGE)
    return LogoutRequest(named, subject, sid, LOGOUT_TOKEN.string_claim(payload, "jti"), issued, expires)


def _check_event(payload: Mapping[str, Any]) -> None:
    """Check the event, which distinguishes a logout token from other tokens of the provider, such as an ID token."""
    events = payload.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(EVENT), dict):
        raise InvalidSignedToken("the logout token has no logout event (events)")
    if "nonce" in payload:
        raise InvalidSignedToken("the logout token has a nonce, which is not allowed")
