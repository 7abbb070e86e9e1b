"""Logout token validation (OpenID Connect Back-Channel Logout 1.0, section 2.6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authenticate.provider.issuer import matches_issuer, signs_for
from authenticate.provider.key_set import Keys
from authenticate.provider.signed_token import LEEWAY, TokenKind, WrongToken

LOGOUT_TOKEN = TokenKind("logout token", frozenset({"logout+jwt", "jwt"}))
EVENT = "http://schemas.openid.net/event/backchannel-logout"
# Providers let them live for two minutes; one that lived for years would have to be remembered for as long.
LONGEST = 3600.0


@dataclass(frozen=True, slots=True)
class SignedOut:
    """The sessions that are over: those of `sid`, of `subject`, or of the `sid` that is this subject's; "" is none.

    Times are Unix seconds.
    """

    issuer: str
    subject: str
    sid: str
    id: str  # `jti`
    issued: float
    expires: float  # nobody accepts the token later


# enforcement-point: Sign-in and sign-out: Back-channel logout token
def verify(token: str, keys: Keys, issuer: str, client_id: str, algorithms: frozenset[str], now: float) -> SignedOut:
    """The sessions to end; UnknownKey where no key verifies the signature; WrongToken, WrongTime where the token is not ours to believe.

    Whether it was used before is the caller's to ask.
    """
    header, payload = LOGOUT_TOKEN.parts(token)
    algorithm = LOGOUT_TOKEN.algorithm(header, algorithms)
    named = payload.get("iss")
    if not isinstance(named, str) or not matches_issuer(issuer, named):
        raise WrongToken("the logout token has another issuer")
    usable = tuple(key for key in keys if signs_for(key, issuer, named))
    LOGOUT_TOKEN.check_signature(token, usable, algorithm, header.get("kid"))
    LOGOUT_TOKEN.audiences(payload, client_id)
    LOGOUT_TOKEN.check_times(payload, now)
    issued = LOGOUT_TOKEN.time(payload, "iat")
    if issued <= now - LONGEST:
        raise WrongToken("the logout token is too old")
    _check_kind(payload)
    subject, sid = (LOGOUT_TOKEN.text(payload, name) if name in payload else "" for name in ("sub", "sid"))
    if not (subject or sid):
        raise WrongToken("the logout token has neither a subject nor a session")
    expires = min(LOGOUT_TOKEN.time(payload, "exp") + LEEWAY, issued + LONGEST)
    return SignedOut(named, subject, sid, LOGOUT_TOKEN.text(payload, "jti"), issued, expires)


def _check_kind(payload: Mapping[str, Any]) -> None:
    """Check what tells it from every other token that the provider signs for us, an ID token above all."""
    events = payload.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(EVENT), dict):
        raise WrongToken("the logout token has no logout event (events)")
    if "nonce" in payload:
        raise WrongToken("the logout token has a nonce, which is not allowed")
