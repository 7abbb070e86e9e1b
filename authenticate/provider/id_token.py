"""ID token and signed userinfo validation (OpenID Connect Core 3.1.3.7, 5.3.2): keys and a clock in, claims or a ProviderError out."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authenticate.provider.issuer import issuer_for, signs_for
from authenticate.provider.key_set import ALGORITHMS, Keys
from authenticate.provider.signed_token import TokenKind, WrongToken
from foundation.crypto.sealing import to_text
from foundation.errors import ProviderError

ID_TOKEN = TokenKind("ID token", frozenset({"jwt"}))
USERINFO = TokenKind("userinfo response", frozenset({"jwt"}))


@dataclass(frozen=True, slots=True)
class ExpectedIdToken:
    """Values that a token must have.  `nonce` and `access_token` are those of this one sign-in.

    A token that came with a refresh (`is_refreshed`) needs no nonce; if it has one, it is the first sign-in's.
    """

    issuer: str
    client_id: str
    nonce: str
    access_token: str
    algorithms: frozenset[str]
    is_refreshed: bool = False


# enforcement-point: Sign-in and sign-out: ID token
def verify(token: str, keys: Keys, expected: ExpectedIdToken, now: float) -> dict[str, Any]:
    """The claims; UnknownKey where no key verifies it, WrongToken where it is not ours to believe, WrongTime where it is not of now."""
    payload, algorithm = _authenticate(ID_TOKEN, token, keys, expected.issuer, expected.algorithms)
    _check_recipient(payload, expected)
    _check_nonce(payload, expected)
    ID_TOKEN.check_times(payload, now)
    _check_access_token(payload, expected.access_token, algorithm)
    return payload


def verify_userinfo(token: str, keys: Keys, issuer: str, client_id: str, algorithms: frozenset[str], now: float) -> dict[str, Any]:
    """Return the claims of a signed userinfo response; UnknownKey, WrongToken, WrongTime as `verify`.

    `iss`, `aud` and the times are optional there: they are checked where present.
    """
    payload, _ = _authenticate(USERINFO, token, keys, issuer, algorithms)
    if "aud" in payload:
        USERINFO.audiences(payload, client_id)
    USERINFO.check_times({"exp": now + 1, "iat": now, **payload}, now)
    USERINFO.text(payload, "sub")
    return payload


def payload_of(token: str) -> dict[str, Any]:
    """The claims of a token that was verified when it came; {} for none."""
    return ID_TOKEN.parts(token)[1] if token else {}


def _authenticate(kind: TokenKind, token: str, keys: Keys, configured: str, algorithms: frozenset[str]) -> tuple[dict[str, Any], str]:
    """Return the claims that the configured issuer signed, and the algorithm; UnknownKey, WrongToken."""
    header, payload = kind.parts(token)
    algorithm = kind.algorithm(header, algorithms)
    try:
        issuer = issuer_for(configured, payload)
    except ProviderError as error:
        raise WrongToken(str(error)) from error
    usable = tuple(key for key in keys if signs_for(key, configured, issuer))
    kind.check_signature(token, usable, algorithm, header.get("kid"))
    if payload.get("iss", issuer if kind is USERINFO else None) != issuer:
        raise WrongToken(f"the {kind.name} has another issuer")
    return payload, algorithm


def _check_recipient(payload: Mapping[str, Any], expected: ExpectedIdToken) -> None:
    audiences = ID_TOKEN.audiences(payload, expected.client_id)
    # OpenID Connect Core 3.1.3.7: with several audiences, the token must say that we are the one it was issued to.
    issued_to = payload.get("azp", expected.client_id if len(audiences) == 1 else None)
    if issued_to != expected.client_id:
        raise WrongToken("the ID token was issued to another client")
    ID_TOKEN.text(payload, "sub")


def _check_nonce(payload: Mapping[str, Any], expected: ExpectedIdToken) -> None:
    if expected.is_refreshed and "nonce" not in payload:
        return
    nonce = payload.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise WrongToken("the ID token is not for this sign-in (nonce)")


def _check_access_token(payload: Mapping[str, Any], access_token: str, algorithm: str) -> None:
    if "at_hash" not in payload:
        return
    digest = ALGORITHMS[algorithm].hash(access_token.encode()).digest()
    claimed = payload["at_hash"]
    expected = to_text(digest[: len(digest) // 2])
    if not isinstance(claimed, str) or not hmac.compare_digest(claimed.encode(), expected.encode()):
        raise WrongToken("the ID token belongs to another access token (at_hash)")
