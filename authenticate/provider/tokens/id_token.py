"""Validation of ID tokens and signed userinfo responses (OpenID Connect Core 3.1.3.7, 5.3.2), as pure functions of keys and time."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authenticate.provider.issuer import expected_issuer, key_is_for_issuer
from authenticate.provider.tokens.key_set import ALGORITHMS, Keys
from authenticate.provider.tokens.signed_token import InvalidSignedToken, TokenType
from foundation.crypto.sealing import to_text
from foundation.errors import ProviderError

ID_TOKEN = TokenType("ID token", frozenset({"jwt"}))
USERINFO = TokenType("userinfo response", frozenset({"jwt"}))


@dataclass(frozen=True, slots=True)
class ExpectedIdToken:
    """Values that a token must have. `nonce` and `access_token` belong to this sign-in.

    A token from a refresh (`is_refreshed`) needs no nonce. If it has one, it is the nonce of the sign-in.
    """

    issuer: str
    client_id: str
    nonce: str
    access_token: str
    algorithms: frozenset[str]
    is_refreshed: bool = False


# enforcement-point: Sign-in and sign-out: ID token
def verify(token: str, keys: Keys, expected: ExpectedIdToken, now: float) -> dict[str, Any]:
    """Return the claims of a valid ID token. Raises SigningKeyNotFound, InvalidSignedToken or TokenNotCurrent."""
    payload, algorithm = _authenticate(ID_TOKEN, token, keys, expected.issuer, expected.algorithms)
    _check_audience(payload, expected)
    _check_nonce(payload, expected)
    ID_TOKEN.check_times(payload, now)
    _check_access_token(payload, expected.access_token, algorithm)
    return payload


def verify_userinfo(token: str, keys: Keys, issuer: str, client_id: str, algorithms: frozenset[str], now: float) -> dict[str, Any]:
    """Return the claims of a signed userinfo response. Raises the same errors as `verify`.

    `iss`, `aud` and the times are optional in it, and are checked if present.
    """
    payload, _ = _authenticate(USERINFO, token, keys, issuer, algorithms)
    if "aud" in payload:
        USERINFO.audiences(payload, client_id)
    USERINFO.check_times({"exp": now + 1, "iat": now, **payload}, now)
    USERINFO.string_claim(payload, "sub")
    return payload


def unverified_claims(token: str) -> dict[str, Any]:
    """Return the claims of a stored token that was verified on arrival; {} for ""."""
    return ID_TOKEN.split(token)[1] if token else {}


def _authenticate(kind: TokenType, token: str, keys: Keys, configured: str, algorithms: frozenset[str]) -> tuple[dict[str, Any], str]:
    """Return the claims that the configured issuer signed, and the algorithm. Raises SigningKeyNotFound or InvalidSignedToken."""
    header, payload = kind.split(token)
    algorithm = kind.algorithm(header, algorithms)
    try:
        issuer = expected_issuer(configured, payload)
    except ProviderError as error:
        raise InvalidSignedToken(str(error)) from error
    usable = tuple(key for key in keys if key_is_for_issuer(key, configured, issuer))
    kind.check_signature(token, usable, algorithm, header.get("kid"))
    if payload.get("iss", issuer if kind is USERINFO else None) != issuer:
        raise InvalidSignedToken(f"the {kind.name} has another issuer")
    return payload, algorithm


def _check_audience(payload: Mapping[str, Any], expected: ExpectedIdToken) -> None:
    audiences = ID_TOKEN.audiences(payload, expected.client_id)
    # OpenID Connect Core 3.1.3.7: a token with several audiences must name this client in `azp`.
    issued_to = payload.get("azp", expected.client_id if len(audiences) == 1 else None)
    if issued_to != expected.client_id:
        raise InvalidSignedToken("the ID token was issued to another client")
    ID_TOKEN.string_claim(payload, "sub")


def _check_nonce(payload: Mapping[str, Any], expected: ExpectedIdToken) -> None:
    if expected.is_refreshed and "nonce" not in payload:
        return
    nonce = payload.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise InvalidSignedToken("the ID token is not for this sign-in (nonce)")


def _check_access_token(payload: Mapping[str, Any], access_token: str, algorithm: str) -> None:
    if "at_hash" not in payload:
        return
    digest = ALGORITHMS[algorithm].hash(access_token.encode()).digest()
    claimed = payload["at_hash"]
    expected = to_text(digest[: len(digest) // 2])
    if not isinstance(claimed, str) or not hmac.compare_digest(claimed.encode(), expected.encode()):
        raise InvalidSignedToken("the ID token belongs to another access token (at_hash)")
