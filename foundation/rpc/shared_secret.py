"""Shared-secret authentication of calls between our services, both ways.

The caller sends a token that names the method, a deadline and a nonce; the server answers with a proof over that very token, before
anything else.  A call is served, and an answer believed, only after that.  The tokens are a MAC of our own and no JWT: there is no
algorithm in them that could be chosen, and nothing else that this service ever signed or sealed has their key.
"""

import hmac
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence

from foundation.crypto.sealing import derive_keys, to_text
from foundation.errors import GateError

TOKEN = "gate-call"  # noqa: S105 - names of metadata
PROOF = "gate-proof"
NO_TOKEN = "the call has no valid token"  # noqa: S105 - a reason

# The clocks of two machines may differ by as much again, so no token is good for more than four minutes.
LIFETIME = 120
_NONCE_BYTES = 16
_FORM = re.compile(r"1\.([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})", re.ASCII)

Metadata = Iterable[tuple[str, str | bytes]] | None


class AuthenticationFailed(GateError):
    """The other side did not prove that it knows `shared_secret`."""


class SharedSecret:
    """Call tokens and proofs.  `secrets` is the setting's value: calls are made with the first, and served for all.  A call and its
    proof have keys of their own.
    """

    def __init__(self, secrets: Sequence[bytes], clock: Callable[[], float] = time.time):
        self._clock = clock
        self.replace(secrets)

    def replace(self, secrets: Sequence[bytes]) -> None:
        """Take over new secrets, in every channel and server that was given this object."""
        self._keys = tuple(zip(derive_keys(secrets, "grpc call"), derive_keys(secrets, "grpc proof"), strict=True))

    def token(self, method: str) -> str:
        """The token for one call of `method` (`/package.Service/Method`)."""
        words = f"1.{int(self._clock()) + LIFETIME}.{to_text(os.urandom(_NONCE_BYTES))}"
        return f"{words}.{_mac(self._keys[0][0], method, words)}"

    def verify_token(self, method: str, metadata: Metadata) -> str:
        """The proof for this caller; AuthenticationFailed where its token is missing, not ours, for another method, or too old."""
        token = _single_value(metadata, TOKEN)
        match = _FORM.fullmatch(token)
        if match is None:
            raise AuthenticationFailed(NO_TOKEN)
        words = token.rpartition(".")[0]
        fitting = (proof_key for call_key, proof_key in self._keys if hmac.compare_digest(match[3], _mac(call_key, method, words)))
        if (proof_key := next(fitting, None)) is None:
            raise AuthenticationFailed("the call's token is invalid or for another method")
        if not 0 < int(match[1]) - self._clock() <= 2 * LIFETIME:
            raise AuthenticationFailed("the call's token has expired, or the clocks of the two machines differ")
        return _mac(proof_key, method, token)

    def verify_proof(self, method: str, token: str, metadata: Metadata) -> None:
        """Check of the proof; AuthenticationFailed where who answered a call with `token` does not know the secret."""
        if not hmac.compare_digest(_single_value(metadata, PROOF).encode(), _mac(self._keys[0][1], method, token).encode()):
            raise AuthenticationFailed(f"the server of {method} did not prove that it has shared_secret")


def _mac(key: bytes, method: str, words: str) -> str:
    return to_text(hmac.digest(key, f"{method}\n{words}".encode(), "sha256"))


def _single_value(metadata: Metadata, name: str) -> str:
    """The one value of this name; of two, nobody knows which one the other side meant."""
    values = [value for key, value in metadata or () if key == name]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""
