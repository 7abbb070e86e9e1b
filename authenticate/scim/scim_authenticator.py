"""Authentication of SCIM requests by the bearer tokens of the settings."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping

from foundation.values import SecretText

PATH = "/.gate/scim/v2/"
MAX_BODY_BYTES = 2 * 1024 * 1024


# enforcement-point: Directory: SCIM authentication
class ScimAuthenticator:
    """Authenticator of the configured SCIM tokens, by provider id.  Without tokens, SCIM is off."""

    def __init__(self, tokens: Mapping[str, Iterable[SecretText]]):
        # Digests have one length, so a comparison does not reveal the length of a token.
        self._digests = [(hashlib.sha256(token.reveal().encode()).digest(), id) for id, its in tokens.items() for token in its]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def authenticate(self, authorization: str) -> str | None:
        """Return the id of the provider that this Authorization header may write for, or None."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = hashlib.sha256(token.strip().encode()).digest()
        # All digests are compared, so the time does not depend on which one matches.
        found = [id for known, id in self._digests if hmac.compare_digest(digest, known)]
        return found[0] if found else None

    def body_limit(self, path: str, authorization: str, otherwise: int) -> int:
        """Return the body limit in bytes: larger than `otherwise` only for authenticated SCIM requests."""
        return MAX_BODY_BYTES if path.startswith(PATH) and self.authenticate(authorization) is not None else otherwise
