"""Validation of signed tokens (JWS) shared by all token types: strict parsing, signature, audience and times."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import jwt

from authenticate.provider import strict_json
from authenticate.provider.single_flight_cache import Slot
from authenticate.provider.tokens.key_set import Keys, KeySet, select_key
from foundation.crypto.sealing import from_text
from foundation.errors import ProviderError

LEEWAY = 60.0
MAX_TOKEN = 64 * 1024
ENCRYPTED_SEGMENTS = 5  # RFC 7516 3.1
MAX_SUBJECT = 255  # OpenID Connect Core 1.0, section 2

Verified = TypeVar("Verified")

# Headers that change how the rest of a token is interpreted. gate supports none of them.
_UNSUPPORTED_HEADERS = ("crit", "b64", "zip", "enc")


class InvalidSignedToken(ProviderError):
    """The token is permanently invalid."""


class TokenNotCurrent(ProviderError):
    """The token is valid, but not at this time by this machine's clock."""


class SigningKeyNotFound(ProviderError):
    """No cached key verifies the token; a newer key set may."""


async def verify_with_keys(
    key_set: KeySet, jwks_uri: str, verify: Callable[[Keys], Verified], *, fetched_after: float = float("-inf"), slot: Slot = nullcontext
) -> Verified:
    """Return `verify(keys)`. If no key matches, try once more with refetched keys, because the provider may have rotated them."""
    try:
        return verify(await key_set.keys(jwks_uri, slot=slot))
    except SigningKeyNotFound:
        newer = await key_set.refetched_keys(jwks_uri, fetched_after=fetched_after, slot=slot)
    try:
        return verify(newer)
    except SigningKeyNotFound as error:
        raise InvalidSignedToken(str(error)) from error


# enforcement-point: Sign-in and sign-out: Provider-signed tokens
@dataclass(frozen=True, slots=True)
class TokenType:
    """A type of token: `name` is used in messages; `types` are the accepted values of `typ`, in lower case."""

    name: str
    types: frozenset[str]

    def split(self, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the unverified header and claims. Raises InvalidSignedToken."""
        segments = token.split(".")
        if len(segments) == ENCRYPTED_SEGMENTS:
            raise InvalidSignedToken(f"the {self.name} is encrypted (JWE). Turn off its encryption for this client at the provider")
        if len(token) > MAX_TOKEN or len(segments) != 3:
            raise InvalidSignedToken(f"the {self.name} is not a signed token, or is too large")
        try:
            header, payload, _ = (from_text(segment) for segment in segments)
            return strict_json.parse_object(header), strict_json.parse_object(payload)
        except ValueError as error:
            raise InvalidSignedToken(f"the {self.name} can't be read") from error

    def algorithm(self, header: Mapping[str, Any], allowed: frozenset[str]) -> str:
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in allowed:
            named = ascii(algorithm)[:40]
            raise InvalidSignedToken(f"the {self.name} is signed with the algorithm {named}; accepted here: {', '.join(sorted(allowed))}")
        if any(name in header for name in _UNSUPPORTED_HEADERS):
            raise InvalidSignedToken(f"the {self.name} has an unsupported critical header")
        kind = header.get("typ", "JWT")
        # RFC 8725 3.11: a token of the same issuer for another purpose (at+jwt, logout+jwt) must not be accepted.
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in self.types:
            raise InvalidSignedToken(f"the {self.name} has another type")
        return algorithm

    def check_signature(self, token: str, keys: Keys, algorithm: str, kid: object) -> None:
        if kid is not None and not isinstance(kid, str):
            raise InvalidSignedToken(f"the {self.name}'s key id is not text")
        key = select_key(keys, algorithm, kid)
        if key is None:
            raise SigningKeyNotFound(f"the {self.name} is signed with a key that the provider does not publish")
        try:
            jwt.PyJWS(algorithms=[algorithm]).decode_complete(token, key, algorithms=[algorithm])
        except jwt.PyJWTError as error:
            # SigningKeyNotFound because the provider may have changed the key without changing its id.
            raise SigningKeyNotFound(f"the {self.name} has an invalid signature") from error

    def audiences(self, payload: Mapping[str, Any], client_id: str) -> list[Any]:
        """Return the audience as a list. Raises InvalidSignedToken if it does not contain the client."""
        audience = payload.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list) or client_id not in audiences:
            raise InvalidSignedToken(f"the {self.name} is for another audience")
        return audiences

    def check_times(self, payload: Mapping[str, Any], now: float) -> None:
        if self.time_claim(payload, "exp") <= now - LEEWAY:
            raise TokenNotCurrent(f"the {self.name} has expired. Check this machine's clock")
        if self.time_claim(payload, "iat") > now + LEEWAY or ("nbf" in payload and self.time_claim(payload, "nbf") > now + LEEWAY):
            raise TokenNotCurrent(f"the {self.name} is issued in the future. Check this machine's clock")

    def time_claim(self, payload: Mapping[str, Any], name: str) -> float:
        value = payload.get(name)
        # bool is an int in Python. The upper bound rejects a token that never expires, such as 1e300.
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e11:
            raise InvalidSignedToken(f"the {self.name}'s {name} is not a time")
        return float(value)

    def string_claim(self, payload: Mapping[str, Any], name: str) -> str:
        """Return the value of an identifier claim. Raises InvalidSignedToken if it is missing or malformed."""
        value = payload.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= MAX_SUBJECT or not value.isprintable():
            raise InvalidSignedToken(f"the {self.name}'s {name} is missing or malformed")
        return value
