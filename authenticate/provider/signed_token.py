"""Signed token (JWS) validation that every kind shares: a strict reading, the signature, the audience, the times."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import jwt

from authenticate.provider import strict_json
from authenticate.provider.key_set import Keys, KeySet, fitting_key
from authenticate.provider.single_flight_cache import Place
from foundation.crypto.sealing import from_text
from foundation.errors import ProviderError

LEEWAY = 60.0
MAX_TOKEN = 64 * 1024
ENCRYPTED_SEGMENTS = 5  # RFC 7516 3.1
MAX_SUBJECT = 255  # OpenID Connect Core 1.0, section 2

Verified = TypeVar("Verified")

# Each of these changes how the rest of a token is read; we do not read it in any other way.
_REFUSED_HEADERS = ("crit", "b64", "zip", "enc")


class WrongToken(ProviderError):
    """An invalid token, now and later."""


class WrongTime(ProviderError):
    """A valid token that by this machine's clock is not of now."""


class UnknownKey(ProviderError):
    """No known key verifies the token; a newer key set may."""


async def verified_by_keys(
    key_set: KeySet, jwks_uri: str, verify: Callable[[Keys], Verified], *, than: float = float("-inf"), place: Place = nullcontext
) -> Verified:
    """Return `verify(keys)`; for an unknown key once more with newer keys, because the provider may have changed them."""
    try:
        return verify(await key_set.keys(jwks_uri, place=place))
    except UnknownKey:
        newer = await key_set.newer_keys(jwks_uri, than=than, place=place)
    try:
        return verify(newer)
    except UnknownKey as error:
        raise WrongToken(str(error)) from error


# enforcement-point: Sign-in and sign-out: Provider-signed tokens
@dataclass(frozen=True, slots=True)
class TokenKind:
    """A kind of token: `name` is for people; `types` are the values of `typ` that such a token may have, in lower case."""

    name: str
    types: frozenset[str]

    def parts(self, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """(header, claims), of which nothing is verified yet; WrongToken."""
        segments = token.split(".")
        if len(segments) == ENCRYPTED_SEGMENTS:
            raise WrongToken(f"the {self.name} is encrypted (JWE). Turn off its encryption for this client at the provider")
        if len(token) > MAX_TOKEN or len(segments) != 3:
            raise WrongToken(f"the {self.name} is not a signed token, or is too large")
        try:
            header, payload, _ = (from_text(segment) for segment in segments)
            return strict_json.parse_object(header), strict_json.parse_object(payload)
        except ValueError as error:
            raise WrongToken(f"the {self.name} can't be read") from error

    def algorithm(self, header: Mapping[str, Any], allowed: frozenset[str]) -> str:
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in allowed:
            named = ascii(algorithm)[:40]
            raise WrongToken(f"the {self.name} is signed with the algorithm {named}; accepted here: {', '.join(sorted(allowed))}")
        if any(name in header for name in _REFUSED_HEADERS):
            raise WrongToken(f"the {self.name} has an unsupported critical header")
        kind = header.get("typ", "JWT")
        # RFC 8725 3.11: a token of the same issuer for another purpose (at+jwt, logout+jwt) must not pass for this one.
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in self.types:
            raise WrongToken(f"the {self.name} has another type")
        return algorithm

    def check_signature(self, token: str, keys: Keys, algorithm: str, kid: object) -> None:
        if kid is not None and not isinstance(kid, str):
            raise WrongToken(f"the {self.name}'s key id is not text")
        key = fitting_key(keys, algorithm, kid)
        if key is None:
            raise UnknownKey(f"the {self.name} is signed with a key that the provider does not publish")
        try:
            jwt.PyJWS(algorithms=[algorithm]).decode_complete(token, key, algorithms=[algorithm])
        except jwt.PyJWTError as error:
            # A provider that changed its key without changing the key's id looks like this, too.
            raise UnknownKey(f"the {self.name} has an invalid signature") from error

    def audiences(self, payload: Mapping[str, Any], client_id: str) -> list[Any]:
        """The audience as a list; WrongToken where we are not in it."""
        audience = payload.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list) or client_id not in audiences:
            raise WrongToken(f"the {self.name} is for another audience")
        return audiences

    def check_times(self, payload: Mapping[str, Any], now: float) -> None:
        if self.time(payload, "exp") <= now - LEEWAY:
            raise WrongTime(f"the {self.name} has expired. Check this machine's clock")
        if self.time(payload, "iat") > now + LEEWAY or ("nbf" in payload and self.time(payload, "nbf") > now + LEEWAY):
            raise WrongTime(f"the {self.name} is issued in the future. Check this machine's clock")

    def time(self, payload: Mapping[str, Any], name: str) -> float:
        value = payload.get(name)
        # bool is an int in Python; 1e300 would be a token that never expires.
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e11:
            raise WrongToken(f"the {self.name}'s {name} is not a time")
        return float(value)

    def text(self, payload: Mapping[str, Any], name: str) -> str:
        """The value of a claim that identifies somebody or something; WrongToken where it is no text."""
        value = payload.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= MAX_SUBJECT or not value.isprintable():
            raise WrongToken(f"the {self.name}'s {name} is missing or malformed")
        return value
