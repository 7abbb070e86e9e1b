"""Key set (JWKS) of the provider: fetched only from its `jwks_uri`, with strict key selection and rate-limited refetches."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import jwt

from authenticate.provider.provider_http import ProviderHttp
from authenticate.provider.single_flight_cache import SingleFlightCache, Slot
from foundation.errors import ProviderError

LIFETIME = 3600.0
REFETCH_INTERVAL = 10.0  # minimum seconds between two fetches caused by unknown keys
MAX_KEYS = 100
MIN_RSA_BITS = 2048


Keys = tuple[Mapping[str, Any], ...]


class SigningAlgorithm(NamedTuple):
    """Key type and curve of an algorithm (RFC 7518 3.1, 6.1, RFC 8037 2), and the hash of `at_hash` (OpenID Connect Core 3.1.3.6)."""

    kind: str
    curve: str | None
    hash: Callable[[bytes], Any]


# In the order of preference.
ALGORITHMS: Mapping[str, SigningAlgorithm] = {
    "RS256": SigningAlgorithm("RSA", None, hashlib.sha256),
    "RS384": SigningAlgorithm("RSA", None, hashlib.sha384),
    "RS512": SigningAlgorithm("RSA", None, hashlib.sha512),
    "PS256": SigningAlgorithm("RSA", None, hashlib.sha256),
    "PS384": SigningAlgorithm("RSA", None, hashlib.sha384),
    "PS512": SigningAlgorithm("RSA", None, hashlib.sha512),
    "ES256": SigningAlgorithm("EC", "P-256", hashlib.sha256),
    "ES384": SigningAlgorithm("EC", "P-384", hashlib.sha384),
    "ES512": SigningAlgorithm("EC", "P-521", hashlib.sha512),
    "EdDSA": SigningAlgorithm("OKP", "Ed25519", hashlib.sha512),
}


class KeySet:
    """Cache of the key set."""

    def __init__(self, http: ProviderHttp, clock: Callable[[], float]):
        self._http = http
        self._clock = clock
        self._caches: dict[str, SingleFlightCache[Keys]] = {}
        self._refetched = float("-inf")

    async def keys(self, jwks_uri: str, *, slot: Slot = nullcontext) -> Keys:
        return await self._cache_for(jwks_uri).get(slot=slot)

    async def refetched_keys(self, jwks_uri: str, *, fetched_after: float = float("-inf"), slot: Slot = nullcontext) -> Keys:
        """Return the keys, refetched for an unknown key at most once per REFETCH_INTERVAL, so that invalid tokens cause no flood.

        Fetches for other reasons do not start the interval, because the provider may have rotated its keys just after them.
        For a token that only the provider itself can deliver, `fetched_after` is its arrival (Unix seconds): the returned keys are
        newer than that.
        """
        now = self._clock()
        if not 0 <= now - self._refetched < REFETCH_INTERVAL:
            self._refetched = now
        return await self._cache_for(jwks_uri).get(tried_after=self._refetched, fetched_after=fetched_after, slot=slot)

    def _cache_for(self, jwks_uri: str) -> SingleFlightCache[Keys]:
        async def fetch() -> Keys:
            answer = await self._http.get(jwks_uri)
            if answer.status != 200:
                raise ProviderError(f"the provider's key set returned status {answer.status}")
            return parse(answer.json())

        if jwks_uri not in self._caches:
            # The keys of a previous jwks_uri are dropped.
            self._caches = {jwks_uri: SingleFlightCache(fetch, lifetime=LIFETIME, clock=self._clock)}
        return self._caches[jwks_uri]


def parse(document: Mapping[str, Any]) -> Keys:
    keys = document.get("keys")
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise ProviderError("the provider's key set is not a list, or is too long")
    return tuple(key for key in keys if isinstance(key, dict))


def select_key(keys: Keys, algorithm: str, kid: str | None) -> jwt.PyJWK | None:
    """Return the only key for this algorithm with this `kid`; None for no key or several.

    If the token or the only key has no `kid`, exactly one key must be usable.
    """
    fitting = [key for key in keys if _is_usable(key, algorithm)]
    if kid is not None and any("kid" in key for key in fitting):
        fitting = [key for key in fitting if key.get("kid") == kid]
    if not fitting or any(key != fitting[0] for key in fitting):  # a duplicate of a key is ignored
        return None
    try:
        return jwt.PyJWK(dict(fitting[0]), algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None


def _is_usable(key: Mapping[str, Any], algorithm: str) -> bool:
    kind, curve, _ = ALGORITHMS[algorithm]
    operations = key.get("key_ops")
    return (
        key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
        and (kind != "RSA" or _rsa_bits(key) >= MIN_RSA_BITS)
    )


def _rsa_bits(key: Mapping[str, Any]) -> int:
    modulus = key.get("n")
    return len(modulus.rstrip("=")) * 6 if isinstance(modulus, str) else 0
