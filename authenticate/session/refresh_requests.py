"""Wanted tokens: refreshes that a request waits for, asked for by a record, each done once and at once."""

import asyncio
from collections import defaultdict
from contextlib import suppress

import structlog

from authenticate.session.session_refresh import RefreshStep, RefreshUnderWay, SessionEnded, SessionRefresh
from databroker.broker_client import BrokerClient
from databroker.records import MALFORMED, SESSION, TOKEN_REFRESH_REQUEST, Record, SessionRecord, TokenRefreshRequest, report_malformed
from foundation.errors import BrokerError, ProviderError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

AT_ONCE = 16
WAIT = 6.0  # seconds for a refresh that is under way elsewhere
PAUSE = 0.1


class WantedRefreshes:
    """Refreshes under way; a wish is deleted when nothing more will come of it, so that whoever waits knows.

    Each provider has a queue of its own with `at_once` refreshes at a time: a slow provider delays its own sessions only.
    """

    def __init__(self, refresh: SessionRefresh, broker: BrokerClient, at_once: int = AT_ONCE):
        self._refresh = refresh
        self._broker = broker
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self.running: dict[str, asyncio.Task[None]] = {}

    def want(self, record: Record) -> None:
        if record.id not in self.running:
            task = self.running[record.id] = spawn(self._renew(record), name="wanted refresh")
            task.add_done_callback(lambda _: self.running.pop(record.id, None))

    async def _renew(self, record: Record) -> None:
        try:
            received = TokenRefreshRequest.from_record(record).tokens_received_at
            session = await self._broker.get(SESSION, record.id)
            if session is not None:
                async with self._turns[SessionRecord.from_record(session).provider]:
                    await self._renewed(record.id, received)
        except SessionEnded:
            pass  # which it has told
        except (ProviderError, BrokerError, TimeoutError) as error:
            log.warning("on-demand token refresh failed", session_id=record.id, reason=str(error))
        except MALFORMED as error:
            report_malformed(SESSION, record.id, error)
        finally:
            with suppress(BrokerError):
                await self._broker.delete(TOKEN_REFRESH_REQUEST, record.id)

    async def _renewed(self, session_id: str, received: float) -> None:
        ends = asyncio.get_running_loop().time() + WAIT
        while True:
            try:
                await self._refresh.renew(session_id, RefreshStep.TOKENS, older_than=received)
            except RefreshUnderWay:
                if asyncio.get_running_loop().time() > ends:
                    raise ProviderError("another refresh timed out") from None
                await asyncio.sleep(PAUSE)
            else:
                return
