"""SCIM access control: only a token of the settings may push users and groups, of its own provider, and only then may a request be long."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping

from foundation.values import SecretText

PATH = "/.gate/scim/v2/"
MAX_BODY = 2 * 1024 * 1024


# enforcement-point: Directory: SCIM authentication
class ScimAccess:
    """Check of the settings' tokens, by the ids of their providers; without any SCIM is off."""

    def __init__(self, tokens: Mapping[str, Iterable[SecretText]]):
        # Digests are of one length, so comparing tells nothing of a token's.
        self._digests = [(hashlib.sha256(token.reveal().encode()).digest(), id) for id, its in tokens.items() for token in its]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def pusher(self, authorization: str) -> str | None:
        """The id of the provider whose users may be pushed with this; None for nobody."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = hashlib.sha256(token.strip().encode()).digest()
        # Each is compared, whichever it is: how long that takes says nothing.
        found = [id for known, id in self._digests if hmac.compare_digest(digest, known)]
        return found[0] if found else None

    def most_bytes(self, path: str, authorization: str, otherwise: int) -> int:
        """The limit on this request's body, in bytes."""
        return MAX_BODY if path.startswith(PATH) and self.pusher(authorization) is not None else otherwise
