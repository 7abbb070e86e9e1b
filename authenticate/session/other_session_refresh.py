"""Refresh of a user's other sessions after a sign-out at the provider.

A session whose grant has ended at the provider ends, even if the provider sent another `sid`.
"""

import asyncio
from collections.abc import Callable, Collection

import structlog

from databroker.broker_client import BrokerClient
from databroker.records import SESSION, TOKEN_REFRESH_REQUEST, TokenRefreshRequest
from foundation.errors import BrokerError
from foundation.tasks import gather_limited, spawn

log = structlog.get_logger(__name__)

# Seconds before each round. The first waits for the provider to read the response, because Keycloak ends the other sessions after it.
# The second is for a provider that takes longer or is unavailable.
DELAYS = (0.5, 2.5)
REQUEST_LIFETIME = 60.0  # seconds
CONCURRENCY = 16  # calls of the broker


class OtherSessionRefresh:
    """Pending refreshes, one task per user. The elected refresh worker executes a bounded number of them concurrently."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float]):
        self._broker = broker
        self._clock = clock
        self._pending: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._requested: dict[tuple[str, str], Collection[str]] = {}

    def refresh_soon(self, issuer: str, subject: str, ids: Collection[str]) -> None:
        """Request a refresh of these sessions of a user.

        Sign-outs during the rounds cause one more run afterwards, with the ids of the last sign-out.
        """
        key = (issuer, subject)
        if not ids:
            return
        log.info("refreshing other sessions after provider sign-out", subject=subject, sessions=len(ids))
        self._requested[key] = ids
        if key not in self._pending:
            task = self._pending[key] = spawn(self._run(key), name="refresh of other sessions")
            task.add_done_callback(lambda _: self._pending.pop(key, None))

    async def stop(self) -> None:
        tasks = list(self._pending.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, key: tuple[str, str]) -> None:
        while (ids := self._requested.pop(key, None)) is not None:
            await self._refresh(ids)

    async def _refresh(self, ids: Collection[str]) -> None:
        for pause in DELAYS:
            await asyncio.sleep(pause)
            try:
                await gather_limited(ids, self._request_refresh, CONCURRENCY)
            except BrokerError as error:
                log.warning("refreshing other sessions failed", reason=str(error))

    async def _request_refresh(self, session_id: str) -> None:
        record = await self._broker.get(SESSION, session_id)
        if record is not None:
            wish = TokenRefreshRequest(record.data.get("tokens_received_at", 0.0)).to_data()
            await self._broker.put(TOKEN_REFRESH_REQUEST, session_id, wish, expires=self._clock() + REQUEST_LIFETIME)
