"""Is the identity that came with this request gate's word?  What any application behind gate can copy."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt

from examples.demo import loopback

HEADER = "X-Gate-Jwt-Assertion"
ALGORITHMS = ["ES256", "EdDSA", "RS256"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`problem` is empty where the assertion holds; only then are `claims` worth anything."""

    claims: dict[str, Any] = field(default_factory=dict)
    key_id: str = ""
    problem: str = ""

    @property
    def is_verified(self) -> bool:
        return not self.problem


class AssertionVerifier:
    """Verifies assertions against the keys that gate publishes, and keeps the keys it has seen."""

    def __init__(self, issuer: str, ca_file: Path):
        self.issuer = issuer
        self.jwks_url = f"https://{issuer}/.well-known/gate/jwks.json"
        self._client = loopback.client(ca_file, timeout=5)
        self._keys: dict[str, jwt.PyJWK] = {}

    async def verify(self, assertion: str, audience: str) -> Verdict:
        if not assertion:
            return Verdict(problem=f"The request has no {HEADER} header")
        try:
            key_id = jwt.get_unverified_header(assertion).get("kid", "")
            key = await self._key(key_id)
            claims = jwt.decode(assertion, key, algorithms=ALGORITHMS, audience=audience, issuer=self.issuer)
        except (jwt.PyJWTError, httpx.HTTPError) as error:
            return Verdict(problem=str(error) or type(error).__name__)
        return Verdict(claims, key_id)

    async def _key(self, key_id: str) -> jwt.PyJWK:
        if key_id not in self._keys:  # new to us: gate may have a new signing key
            answer = await self._client.get(self.jwks_url)
            answer.raise_for_status()
            self._keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(answer.json()).keys}
        if key_id not in self._keys:
            raise jwt.InvalidKeyError(f"{self.jwks_url} has no key {key_id!r}")
        return self._keys[key_id]

    async def close(self) -> None:
        await self._client.aclose()
