"""Mutual authentication of gRPC calls between gate's services with `shared_secret`.

The caller sends a token over the method, a deadline and a nonce. The server sends a proof over that token before anything else. The
call is served, and its response accepted, only after these checks. Tokens are a plain MAC instead of a JWT: there is no algorithm to
negotiate, and their keys are used for nothing else.
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

# The clocks of two machines may differ by the same amount, so a token is valid for at most four minutes.
LIFETIME = 120
_NONCE_BYTES = 16
_FORM = re.compile(r"1\.([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})", re.ASCII)

Metadata = Iterable[tuple[str, str | bytes]] | None


class AuthenticationFailed(GateError):
    """The peer did not prove that it has `shared_secret`."""


class SharedSecret:
    """Call tokens and proofs. The first of `secrets` makes calls, and all are accepted. Tokens and proofs have separate keys."""

    def __init__(self, secrets: Sequence[bytes], clock: Callable[[], float] = time.time):
        self._clock = clock
        self.replace(secrets)

    def replace(self, secrets: Sequence[bytes]) -> None:
        """Replace the secrets, in every channel and server that uses this object."""
        self._keys = tuple(zip(derive_keys(secrets, "grpc call"), derive_keys(secrets, "grpc proof"), strict=True))

    def token(self, method: str) -> str:
        """Return the token for one call of `method` (`/package.Service/Method`)."""
        payload = f"1.{int(self._clock()) + LIFETIME}.{to_text(os.urandom(_NONCE_BYTES))}"
        return f"{payload}.{_mac(self._keys[0][0], method, payload)}"

    def verify_token(self, method: str, metadata: Metadata) -> str:
        """Verify a call's token and return the proof for the caller.

        Raises AuthenticationFailed if the token is missing, forged, expired, or for another method.
        """
        token = _single_value(metadata, TOKEN)
        match = _FORM.fullmatch(token)
        if match is None:
            raise AuthenticationFailed(NO_TOKEN)
        payload = token.rpartition(".")[0]
        matching = (proof_key for call_key, proof_key in self._keys if hmac.compare_digest(match[3], _mac(call_key, method, payload)))
        if (proof_key := next(matching, None)) is None:
            raise AuthenticationFailed("the call's token is invalid or for another method")
        if not 0 < int(match[1]) - self._clock() <= 2 * LIFETIME:
            raise AuthenticationFailed("the call's token has expired, or the clocks of the two machines differ")
        return _mac(proof_key, method, token)

    def verify_proof(self, method: str, token: str, metadata: Metadata) -> None:
        """Verify the server's proof for a call with `token`. Raise AuthenticationFailed if it is invalid."""
        if not hmac.compare_digest(_single_value(metadata, PROOF).encode(), _mac(self._keys[0][1], method, token).encode()):
            raise AuthenticationFailed(f"the server of {method} did not prove that it has shared_secret")


def _mac(key: bytes, method: str, payload: str) -> str:
    return to_text(hmac.digest(key, f"{method}\n{payload}".encode(), "sha256"))


def _single_value(metadata: Metadata, name: str) -> str:
    """Return the only value of this name, or "" if it is missing or duplicate."""
    values = [value for key, value in metadata or () if key == name]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""
