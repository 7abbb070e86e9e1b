"""Replay guard: each `state` and each authorization code of a sign-in is accepted once."""

import hashlib
import re
from collections.abc import Callable

from databroker.broker_client import BrokerClient, consume_once
from foundation.crypto.sign_in_attempts import LIFETIME


class ReplayGuard:
    """Used values, recorded in the data broker for the lifetime of a sign-in attempt."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float]):
        self._broker = broker
        self._clock = clock

    async def consume_state(self, state: str) -> bool:
        """Return True exactly once for each state; it is recorded until its cookie would have expired."""
        return await consume_once(self._broker, f"state/{state}", self._clock() + LIFETIME)

    async def consume_code(self, code: str) -> bool:
        """Return True exactly once for each authorization code.

        A provider that receives a code of another provider must not be able to use it in its own response (mix-up, RFC 9700 4.4).
        This holds for every configuration, because a reload can change which providers are configured.
        """
        digest = hashlib.sha256(_canonical_code(code).encode()).hexdigest()
        return await consume_once(self._broker, f"code/{digest}", self._clock() + LIFETIME)


def _canonical_code(code: str) -> str:
    """Return the part of a code that every token endpoint compares.

    Lenient endpoints ignore case and characters in between, and the spare bits of the last base64 character of each part.
    """
    return re.sub(r"[^a-z0-9]|[a-z0-9](?=[^a-z0-9]|$)", "", code.lower())
