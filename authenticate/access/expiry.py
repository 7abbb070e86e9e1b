"""Access expiry: writes into the audit log what ends by itself, before it does.  That it ends needs nobody."""

import asyncio
from collections.abc import Callable

import structlog
from django.db import Error

from authenticate.access.desk import words_of
from databroker.access.asked import AskedAccesses
from databroker.access.temporary import AccessError, TemporaryAccesses
from databroker.access.values import ENDS_ITSELF, EXPIRES
from databroker.adminsite.audit import ended_entry
from databroker.client import BrokerClient
from databroker.store.base import VersionConflict
from foundation.errors import BrokerError

log = structlog.get_logger(__name__)

LOOK_EVERY = 10.0  # seconds
# What ends until the next look, and a little after it, is told of now.
AHEAD = 15.0


class AccessExpiry:
    """Expiry for one elected process."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float]):
        self._accesses = TemporaryAccesses(broker, clock)
        self._asked = AskedAccesses(broker, clock)
        self._clock = clock

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except (BrokerError, AccessError, Error, ValueError, TypeError) as error:
                log.warning("auditing expired access failed", reason=str(error).partition("\n")[0])
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Tell of all that ends now; what was told and could not be noted is told again, rather than never."""
        soon = self._clock() + AHEAD
        async for record, access in self._accesses.untold(soon):
            words = f"{record.person}, {access.route_words}, granted by {access.by}"
            await ended_entry(access.until, ENDS_ITSELF, record.user_id, words).asave()
            await self._accesses.tell(record.user_id, access.id)
        async for held in self._asked.untold(soon):
            await ended_entry(held.asked.expires, EXPIRES, held.asked.user_id, words_of(held.asked)).asave()
            try:
                await self._asked.close(held)
            except VersionConflict:
                continue  # it was answered in its last moment
