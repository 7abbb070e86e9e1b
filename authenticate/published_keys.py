"""Published keys (JWKS) for upstreams: ours, those of the other processes, and for a day those that were replaced."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from config.options import Options
from databroker.client import BrokerClient
from databroker.records import SIGNING_KEY, PublishedKey
from foundation.backoff import pauses
from foundation.crypto.signing_key import SigningKey, checked_jwk
from foundation.errors import BrokerError

log = structlog.get_logger(__name__)

RETAINED = 24 * 3600.0  # after the last process that signed with a key was seen
ANNOUNCED_EVERY = 3600.0
FRESH = 1.0  # seconds: anybody may ask for the keys, and only so often is the data broker asked for them
MOST_KEYS = 100
FIRST_PAUSE = 0.1


class PublishedKeys:
    """The key set.  Each process announces its key in the data broker, again every hour: the record of an unused one expires.

    Where records don't outlive the process, a file in the data directory does.
    """

    def __init__(self, key: SigningKey, broker: BrokerClient, file: Path | None = None, clock: Callable[[], float] = time.time):
        self._key = key
        self._broker = broker
        self._file = file
        self._clock = clock
        self._others: list[Mapping[str, str]] = []
        self._read = float("-inf")

    def __repr__(self) -> str:
        return f"<PublishedKeys {self._key.kid[:12]} and {len(self._others)} others>"

    @classmethod
    def from_options(cls, options: Options, key: SigningKey, broker: BrokerClient, clock: Callable[[], float]) -> "PublishedKeys":
        is_forgetful = options.databroker_service_url is None and options.databroker_storage_type == "memory"
        return cls(key, broker, options.data_dir / "published-keys.json" if is_forgetful else None, clock)

    async def run(self) -> None:
        """Announce our key, again and again; one made for this process alone is neither announced nor served."""
        waits = pauses(FIRST_PAUSE)
        while self._key.is_configured:
            try:
                await self.announce()
            except BrokerError as error:
                log.warning("publishing signing key failed", reason=str(error))
                await asyncio.sleep(next(waits))
                continue
            waits = pauses(FIRST_PAUSE)
            await asyncio.sleep(ANNOUNCED_EVERY)

    async def announce(self) -> None:
        for kept in await asyncio.to_thread(self._kept):
            await self._put(kept)
        now = self._clock()
        await self._put(PublishedKey(self._key.jwk(), now + RETAINED + ANNOUNCED_EVERY))
        self._read = float("-inf")
        if self._file is not None:
            await asyncio.to_thread(self._keep, await self._announced())

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

    async def _put(self, key: PublishedKey) -> None:
        await self._broker.put(SIGNING_KEY, key.jwk["kid"], key.to_data(), expires=key.expires)

    async def _announced(self) -> list[PublishedKey]:
        records = await self._broker.page(SIGNING_KEY, "", MOST_KEYS)
        return [key for record in records if (key := _checked(record.id, record.data)) is not None]

    def _kept(self) -> list[PublishedKey]:
        try:
            content = json.loads(self._file.read_bytes()) if self._file is not None else {}
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            log.warning("loading previous keys failed", file=str(self._file), reason=type(error).__name__)
            return []
        named = content.items() if isinstance(content, dict) else ()
        found = (_checked(kid, data) for kid, data in named)
        return [key for key in found if key is not None and key.jwk["kid"] != self._key.kid]

    def _keep(self, keys: list[PublishedKey]) -> None:
        if self._file is None:
            return
        content = json.dumps({key.jwk["kid"]: key.to_data() for key in keys}, indent=1)
        beside = self._file.with_suffix(".new")
        try:
            beside.write_text(content)
            os.replace(beside, self._file)
        except OSError as error:
            log.warning("saving keys failed", file=str(self._file), reason=type(error).__name__)


def _checked(kid: str, data: Any) -> PublishedKey | None:
    """A public key under its own name, or None: what is served is trusted by upstreams."""
    try:
        key = PublishedKey(**data)
        jwk = checked_jwk(key.jwk)
    except (AttributeError, TypeError, ValueError):
        jwk = None
    if jwk is None or jwk["kid"] != kid or not isinstance(key.expires, int | float):
        log.warning("malformed published key ignored", kid=kid)
        return None
    return PublishedKey(jwk, key.expires)
