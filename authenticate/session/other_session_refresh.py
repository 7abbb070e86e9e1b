"""Refresh of a user's other sessions after a sign-out at the provider: one whose grant is over there ends, whatever `sid` was sent."""

import asyncio
from collections.abc import Callable, Collection

import structlog

from databroker.broker_client import BrokerClient
from databroker.records import SESSION, TOKEN_REFRESH_REQUEST, TokenRefreshRequest
from foundation.errors import BrokerError
from foundation.tasks import gather_limited, spawn

log = structlog.get_logger(__name__)

# Seconds before each round.  The first waits for the provider to read our response: Keycloak commits the end of the other sessions after
# it.  The second is for a provider that took longer, or could not be reached.
PAUSES = (0.5, 2.5)
WISH_LIFETIME = 60.0  # seconds
CONCURRENCY = 16  # calls of the broker


class OtherSessions:
    """Pending refreshes, one task for each user.  The elected refresh worker does them, a bounded number at a time."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float]):
        self._broker = broker
        self._clock = clock
        self._pending: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._wanted: dict[tuple[str, str], Collection[str]] = {}

    def refresh_soon(self, issuer: str, subject: str, ids: Collection[str]) -> None:
        """Have these sessions of a user refreshed. Sign-outs during the rounds add one more run after them, with the ids of the last."""
        key = (issuer, subject)
        if not ids:
            return
        log.info("refreshing other sessions after provider sign-out", subject=subject, sessions=len(ids))
        self._wanted[key] = ids
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
        while (ids := self._wanted.pop(key, None)) is not None:
            await self._refresh(ids)

    async def _refresh(self, ids: Collection[str]) -> None:
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                await gather_limited(ids, self._want_refresh, CONCURRENCY)
            except BrokerError as error:
                log.warning("refreshing other sessions failed", reason=str(error))

    async def _want_refresh(self, session_id: str) -> None:
        record = await self._broker.get(SESSION, session_id)
        if record is not None:
            wish = TokenRefreshRequest(record.data.get("tokens_received_at", 0.0)).to_data()
            await self._broker.put(TOKEN_REFRESH_REQUEST, session_id, wish, expires=self._clock() + WISH_LIFETIME)
