"""Key set (JWKS, RFC 7517) for upstreams: this process's key, those of other processes, and for a day replaced ones."""

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

RETENTION = 24 * 3600.0  # seconds after the last process that signs with a key has published it
PUBLISH_INTERVAL = 3600.0
MIN_REFETCH_INTERVAL = 1.0  # seconds between two reads from the data broker, because any client can request the keys
MAX_KEYS = 100
INITIAL_BACKOFF = 0.1


class JwksPublisher:
    """Publisher of the key set. Each process publishes its key in the data broker every hour; the record of an unused key expires."""

    def __init__(self, key: SigningKey, broker: BrokerClient, clock: Callable[[], float] = time.time):
        self._key = key
        self._broker = broker
        self._clock = clock
        self._others: list[Mapping[str, str]] = []
        self._read_at = float("-inf")

    def __repr__(self) -> str:
        return f"<PublishedKeys {self._key.kid[:12]} and {len(self._others)} others>"

    async def run(self) -> None:
        """Publish this process's key periodically, unless it was generated for this process only."""
        waits = backoff_delays(INITIAL_BACKOFF)
        while self._key.is_configured:
            try:
                await self.publish()
            except BrokerError as error:
                log.warning("publishing signing key failed", reason=str(error))
                await asyncio.sleep(next(waits))
                continue
            waits = backoff_delays(INITIAL_BACKOFF)
            await asyncio.sleep(PUBLISH_INTERVAL)

    async def publish(self) -> None:
        key = PublishedKey(self._key.jwk(), self._clock() + RETENTION + PUBLISH_INTERVAL)
        await self._broker.put(SIGNING_KEY, key.jwk["kid"], key.to_data(), expires=key.expires_at)
        self._read_at = float("-inf")

    async def jwks(self) -> dict[str, Any]:
        """Return the key set, this process's key first. If the data broker is unavailable, the other keys are those read last."""
        now = self._clock()
        if now >= self._read_at + MIN_REFETCH_INTERVAL:
            self._read_at = now
            try:
                self._others = [key.jwk for key in await self._load_published() if key.jwk["kid"] != self._key.kid]
            except BrokerError as error:
                log.warning("loading published keys failed", reason=str(error))
        return {"keys": [self._key.jwk(), *self._others]}

    async def _load_published(self) -> list[PublishedKey]:
        records = await self._broker.page(SIGNING_KEY, "", MAX_KEYS)
        return [key for record in records if (key := _parse_key(record.id, record.data)) is not None]


def _parse_key(kid: str, data: Any) -> PublishedKey | None:
    """Return the key if it is a public key with its thumbprint as id, else None, because upstreams trust every served key."""
    try:
        key = PublishedKey(**data)
        jwk = validate_jwk(key.jwk)
    except (AttributeError, TypeError, ValueError):
        jwk = None
    if jwk is None or jwk["kid"] != kid or not isinstance(key.expires_at, int | float):
        log.warning("malformed published key ignored", kid=kid)
        return None
    return PublishedKey(jwk, key.expires_at)
