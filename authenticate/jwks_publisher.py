"""Published keys (JWKS) for upstreams: ours, those of the other processes, and for a day those that were replaced."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from databroker.broker_client import BrokerClient
from databroker.records import SIGNING_KEY, PublishedKey
from foundation.backoff import backoff_delays
from foundation.crypto.signing_key import SigningKey, validate_jwk
from foundation.errors import BrokerError

log = structlog.get_logger(__name__)

RETAINED = 24 * 3600.0  # after the last process that signed with a key was seen
ANNOUNCED_EVERY = 3600.0
FRESH = 1.0  # seconds: anybody may ask for the keys, and only so often is the data broker asked for them
MOST_KEYS = 100
FIRST_PAUSE = 0.1


class PublishedKeys:
    """The key set.  Each process announces its key in the data broker, again every hour: the record of an unused one expires."""

    def __init__(self, key: SigningKey, broker: BrokerClient, clock: Callable[[], float] = time.time):
        self._key = key
        self._broker = broker
        self._clock = clock
        self._others: list[Mapping[str, str]] = []
        self._read = float("-inf")

    def __repr__(self) -> str:
        return f"<PublishedKeys {self._key.kid[:12]} and {len(self._others)} others>"

    async def run(self) -> None:
        """Announce our key, again and again; one made for this process alone is neither announced nor served."""
        waits = backoff_delays(FIRST_PAUSE)
        while self._key.is_configured:
            try:
                await self.announce()
            except BrokerError as error:
                log.warning("publishing signing key failed", reason=str(error))
                await asyncio.sleep(next(waits))
                continue
            waits = backoff_delays(FIRST_PAUSE)
            await asyncio.sleep(ANNOUNCED_EVERY)

    async def announce(self) -> None:
        key = PublishedKey(self._key.jwk(), self._clock() + RETAINED + ANNOUNCED_EVERY)
        await self._broker.put(SIGNING_KEY, key.jwk["kid"], key.to_data(), expires=key.expires_at)
        self._read = float("-inf")

    async def jwks(self) -> dict[str, Any]:
        """The key set (RFC 7517), our own first.  While the data broker is away, with the others that are known."""
        now = self._clock()
        if now >= self._read + FRESH:
            self._read = now
            try:
                self._others = [key.jwk for key in await self._announced() if key.jwk["kid"] != self._key.kid]
            except BrokerError as error:
                log.warning("loading published keys failed", reason=str(error))
        return {"keys": [self._key.jwk(), *self._others]}

    async def _announced(self) -> list[PublishedKey]:
        records = await self._broker.page(SIGNING_KEY, "", MOST_KEYS)
        return [key for record in records if (key := _checked(record.id, record.data)) is not None]


def _checked(kid: str, data: Any) -> PublishedKey | None:
    """A public key under its own name, or None: what is served is trusted by upstreams."""
    try:
        key = PublishedKey(**data)
        jwk = validate_jwk(key.jwk)
    except (AttributeError, TypeError, ValueError):
        jwk = None
    if jwk is None or jwk["kid"] != kid or not isinstance(key.expires_at, int | float):
        log.warning("malformed published key ignored", kid=kid)
        return None
    return PublishedKey(jwk, key.expires_at)
