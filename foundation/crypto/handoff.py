"""Hand-over token: how the authenticate service gives a route host the session of the browser that it sends back there, or of the person
who has agreed to a program.
"""

import secrets
from dataclasses import dataclass

from foundation.crypto.sealing import CryptoConfig, Sealer

LIFETIME = 300.0
TO_BROWSER, TO_CLIENT_APPLICATION = "hand-over", "programmatic hand-over"  # never interchangeable


@dataclass(frozen=True, slots=True)
class Handoff:
    """An opened token.  Its receiver still has to spend `id`, see that the session lives, and find the browser's `attempt_id`; one to a
    program has none, and then has to look at `redirect_uri`.
    """

    id: str
    session_id: str
    attempt_id: str
    redirect_uri: str
    expires_at: float


class HandoffTokens:
    """Sealer of hand-over tokens under `shared_secret`, because the two ends may be different services."""

    def __init__(self, options: CryptoConfig, purpose: str = TO_BROWSER):
        self._sealer = Sealer(options.shared_secret, purpose)

    def seal(self, session_id: str, attempt_id: str, host_port: str, redirect_uri: str, now: float) -> str:
        claims = {"id": secrets.token_urlsafe(16), "sid": session_id, "attempt": attempt_id, "to": redirect_uri, "exp": now + LIFETIME}
        return self._sealer.seal(claims, audience=host_port, expires_at=now + LIFETIME)

    def open(self, token: str, host_port: str, now: float) -> Handoff:
        """The hand-over; SealError where the token is not ours, not for this route host, or older than five minutes."""
        claims = self._sealer.open(token, audience=host_port, now=now)
        return Handoff(claims["id"], claims["sid"], claims["attempt"], claims["to"], claims["exp"])
