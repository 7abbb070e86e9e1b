"""Is this ID token the provider's, for us, of this sign-in?  Keys and a clock in, claims or a ProviderError out."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from authenticate import key_set, strict_json
from authenticate.issuer import issuer_for, signs_for
from gateproject.crypto.sealing import from_text, to_text
from gateproject.errors import ProviderError

LEEWAY = 60.0
MAX_TOKEN = 64 * 1024
MAX_SUBJECT = 255  # OpenID Connect Core 1.0, section 2

# Each of these changes how the rest of a token is read; we do not read it in any other way.
_REFUSED_HEADERS = ("crit", "b64", "zip", "enc")
_HASHES = {"RS256": hashlib.sha256, "PS256": hashlib.sha256, "ES256": hashlib.sha256, "EdDSA": hashlib.sha512}


class UnknownKey(ProviderError):
    """No known key verifies the token; a newer key set may."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must say.  `nonce` and `access_token` are those of this one sign-in.

    A token that came with a refresh (`is_refreshed`) needs no nonce; if it has one, it is the first sign-in's.
    """

    issuer: str
    client_id: str
    nonce: str
    access_token: str
    algorithms: frozenset[str]
    is_refreshed: bool = False


def verify(token: str, keys: tuple[Mapping[str, Any], ...], expected: Expected, now: float) -> dict[str, Any]:
    """The claims; UnknownKey where no key verifies the signature, ProviderError where the token is not ours to believe."""
    header, payload = _parts(token)
    algorithm = _algorithm(header, expected.algorithms)
    issuer = issuer_for(expected.issuer, payload)
    usable = tuple(key for key in keys if signs_for(key, expected.issuer, issuer))
    _check_signature(token, usable, algorithm, header.get("kid"))
    _check_who(payload, expected, issuer)
    _check_nonce(payload, expected)
    _check_when(payload, now)
    _check_access_token(payload, expected.access_token, algorithm)
    return payload


def payload_of(token: str) -> dict[str, Any]:
    """What a token says that was verified when it came; {} for none."""
    return _parts(token)[1] if token else {}


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    segments = token.split(".")
    if len(token) > MAX_TOKEN or len(segments) != 3:
        raise ProviderError("the ID token is not a signed token of a sensible size")
    try:
        header, payload, _ = (from_text(segment) for segment in segments)
        return strict_json.parse_object(header), strict_json.parse_object(payload)
    except ValueError as error:
        raise ProviderError("the ID token can't be read") from error


def _algorithm(header: Mapping[str, Any], allowed: frozenset[str]) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in allowed:
        raise ProviderError("the ID token is signed with an algorithm that the provider does not offer or we do not accept")
    if any(name in header for name in _REFUSED_HEADERS):
        raise ProviderError("the ID token's header demands what we do not do")
    kind = header.get("typ", "JWT")
    # An access token (at+jwt) or a logout token (logout+jwt) of the same issuer is no ID token (RFC 8725 3.11).
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") != "jwt":
        raise ProviderError("the ID token is of another type")
    return algorithm


def _check_signature(token: str, keys: tuple[Mapping[str, Any], ...], algorithm: str, kid: object) -> None:
    if kid is not None and not isinstance(kid, str):
        raise ProviderError("the ID token's key id is not text")
    key = key_set.fitting_key(keys, algorithm, kid)
    if key is None:
        raise UnknownKey("the ID token is signed with a key that the provider does not publish")
    try:
        jwt.PyJWS(algorithms=[algorithm]).decode_complete(token, key, algorithms=[algorithm])
    except jwt.PyJWTError as error:
        # A provider that changed its key without changing the key's id looks like this, too.
        raise UnknownKey("the ID token's signature is wrong") from error


def _check_who(payload: Mapping[str, Any], expected: Expected, issuer: str) -> None:
    if payload.get("iss") != issuer:
        raise ProviderError("the ID token is of another issuer")
    audience = payload.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or expected.client_id not in audiences:
        raise ProviderError("the ID token is for another audience")
    # OpenID Connect Core 3.1.3.7: with several audiences, the token must say that we are the one it was issued to.
    issued_to = payload.get("azp", expected.client_id if len(audiences) == 1 else None)
    if issued_to != expected.client_id:
        raise ProviderError("the ID token was issued to another client")
    subject = payload.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable():
        raise ProviderError("the ID token's subject is missing or malformed")


def _check_nonce(payload: Mapping[str, Any], expected: Expected) -> None:
    if expected.is_refreshed and "nonce" not in payload:
        return
    nonce = payload.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise ProviderError("the ID token is not of this sign-in (nonce)")


def _check_when(payload: Mapping[str, Any], now: float) -> None:
    if _time(payload, "exp") <= now - LEEWAY:
        raise ProviderError("the ID token has expired; is this machine's clock right?")
    if _time(payload, "iat") > now + LEEWAY or ("nbf" in payload and _time(payload, "nbf") > now + LEEWAY):
        raise ProviderError("the ID token is of the future; is this machine's clock right?")


def _time(payload: Mapping[str, Any], name: str) -> float:
    value = payload.get(name)
    # bool is an int in Python; 1e300 would be a token that never expires.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e11:
        raise ProviderError(f"the ID token's {name} is not a time")
    return float(value)


def _check_access_token(payload: Mapping[str, Any], access_token: str, algorithm: str) -> None:
    if "at_hash" not in payload:
        return
    digest = _HASHES[algorithm](access_token.encode()).digest()
    claimed = payload["at_hash"]
    expected = to_text(digest[: len(digest) // 2])
    if not isinstance(claimed, str) or not hmac.compare_digest(claimed.encode(), expected.encode()):
        raise ProviderError("the ID token belongs to another access token (at_hash)")
