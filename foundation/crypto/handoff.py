"""Handoff token: transfers a session from the authenticate service to a route host.

The receiver is the browser that is redirected there, or the client application that the user has authorized.
"""

import secrets
from dataclasses import dataclass

from foundation.crypto.sealing import CryptoConfig, Sealer

LIFETIME = 300.0
ROUTE_CALLBACK_PATH = "/.gate/callback/"  # on every route host; not the callback of the provider
HANDOFF_PARAM = "gate_session"  # query parameter of that callback
# Labels of key derivation, so that the two kinds are never interchangeable.
TO_BROWSER, TO_CLIENT_APPLICATION = "hand-over", "programmatic hand-over"


@dataclass(frozen=True, slots=True)
class Handoff:
    """Opened handoff token.

    The receiver must consume `id`, check that the session is valid, and match `attempt_id` with the browser's sign-in attempt. A token for
    a client application has no attempt; the receiver checks `redirect_uri` instead.
    """

    id: str
    session_id: str
    attempt_id: str
    redirect_uri: str
    expires_at: float


class HandoffTokens:
    """Sealer of handoff tokens, with keys of `shared_secret`, because the two ends may be different services."""

    def __init__(self, options: CryptoConfig, purpose: str = TO_BROWSER):
        self._sealer = Sealer(options.shared_secret, purpose)

    def seal(self, session_id: str, attempt_id: str, host_port: str, redirect_uri: str, now: float) -> str:
        claims = {"id": secrets.token_urlsafe(16), "sid": session_id, "attempt": attempt_id, "to": redirect_uri, "exp": now + LIFETIME}
        return self._sealer.seal(claims, audience=host_port, expires_at=now + LIFETIME)

    def open(self, token: str, host_port: str, now: float) -> Handoff:
        """Open a token. Raise SealError if it is forged, for another route host, or older than five minutes."""
        claims = self._sealer.open(token, audience=host_port, now=now)
        return Handoff(claims["id"], claims["sid"], claims["attempt"], claims["to"], claims["exp"])
