"""Refresh requests: records that ask for an immediate token refresh, on behalf of a waiting request."""

import asyncio
from collections import defaultdict
from contextlib import suppress

import structlog

from authenticate.session.session_refresh import RefreshInProgress, RefreshStep, SessionEnded, SessionRefresh
from databroker.broker_client import BrokerClient
from databroker.records import MALFORMED, SESSION, TOKEN_REFRESH_REQUEST, Record, SessionRecord, TokenRefreshRequest, report_malformed
from foundation.errors import BrokerError, ProviderError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

CONCURRENCY = 16
IN_PROGRESS_TIMEOUT = 6.0  # seconds, for a refresh in progress elsewhere
POLL_INTERVAL = 0.1


class RefreshRequests:
    """Handler of refresh requests. The request record is deleted when the attempt has finished, which wakes the waiting request.

    Each provider has its queue of `concurrency` concurrent refreshes, so a slow provider delays only its own sessions.
    """

    def __init__(self, refresh: SessionRefresh, broker: BrokerClient, concurrency: int = CONCURRENCY):
        self._refresh = refresh
        self._broker = broker
        self._semaphores: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(concurrency))
        self.running: dict[str, asyncio.Task[None]] = {}

    def handle(self, record: Record) -> None:
        if record.id not in self.running:
            task = self.running[record.id] = spawn(self._renew(record), name="wanted refresh")
            task.add_done_callback(lambda _: self.running.pop(record.id, None))

    async def _renew(self, record: Record) -> None:
        try:
            received_at = TokenRefreshRequest.from_record(record).tokens_received_at
            session = await self._broker.get(SESSION, record.id)
            if session is not None:
                async with self._semaphores[SessionRecord.from_record(session).provider]:
                    await self._renew_tokens(record.id, received_at)
        except SessionEnded:
            pass  # already logged
        except (ProviderError, BrokerError, TimeoutError) as error:
            log.warning("on-demand token refresh failed", session_id=record.id, reason=str(error))
        except MALFORMED as error:
            report_malformed(SESSION, record.id, error)
        finally:
            with suppress(BrokerError):
                await self._broker.delete(TOKEN_REFRESH_REQUEST, record.id)

    async def _renew_tokens(self, session_id: str, received_at: float) -> None:
        deadline = asyncio.get_running_loop().time() + IN_PROGRESS_TIMEOUT
        while True:
            try:
                await self._refresh.renew(session_id, RefreshStep.TOKENS, if_received_at=received_at)
            except RefreshInProgress:
                if asyncio.get_running_loop().time() > deadline:
                    raise ProviderError("another refresh timed out") from None
                await asyncio.sleep(POLL_INTERVAL)
            else:
                return
