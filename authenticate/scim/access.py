"""SCIM access control: only the token of the setting may push users and groups, and only then may a request be long."""

import hashlib
import hmac
from collections.abc import Iterable

from foundation.values import SecretText

PATH = "/.gate/scim/v2/"
MAX_BODY = 2 * 1024 * 1024


class ScimAccess:
    """Check of the setting's token; without one SCIM is off."""

    def __init__(self, tokens: Iterable[SecretText]):
        # Digests are of one length, so comparing tells nothing of a token's.
        self._digests = [hashlib.sha256(token.reveal().encode()).digest() for token in tokens]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def admits(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return False
        digest = hashlib.sha256(token.strip().encode()).digest()
        return any(hmac.compare_digest(digest, known) for known in self._digests)

    def most_bytes(self, path: str, authorization: str, otherwise: int) -> int:
        """The limit on this request's body, in bytes."""
        return MAX_BODY if path.startswith(PATH) and self.admits(authorization) else otherwise
