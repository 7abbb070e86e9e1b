"""Wanted tokens: refreshes that a request waits for, asked for by a record, each done once and at once."""

import asyncio
from contextlib import suppress

import structlog

from authenticate.session.refresh import RefreshStep, RefreshUnderWay, SessionEnded, SessionRefresh
from databroker.client import BrokerClient
from databroker.records import WANTED_TOKENS, Record, WantedTokens
from foundation.errors import BrokerError, ProviderError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

AT_ONCE = 16
WAIT = 6.0  # seconds for a refresh that is under way elsewhere
PAUSE = 0.1


class WantedRefreshes:
    """Refreshes under way; a wish is deleted when nothing more will come of it, so that whoever waits knows."""

    def __init__(self, refresh: SessionRefresh, broker: BrokerClient, at_once: int = AT_ONCE):
        self._refresh = refresh
        self._broker = broker
        self._turns = asyncio.Semaphore(at_once)
        self.running: dict[str, asyncio.Task[None]] = {}

    def want(self, record: Record) -> None:
        if record.id not in self.running:
            task = self.running[record.id] = spawn(self._renew(record), name="wanted refresh")
            task.add_done_callback(lambda _: self.running.pop(record.id, None))

    async def _renew(self, record: Record) -> None:
        try:
            async with self._turns:
                await self._renewed(record.id, WantedTokens.from_record(record).received)
        except SessionEnded:
            pass  # which it has told
        except (ProviderError, BrokerError, TimeoutError) as error:
            log.warning("tokens that a request waits for can't be refreshed", session_id=record.id, reason=str(error))
        except (TypeError, ValueError, KeyError) as error:
            log.error("a session's record is malformed, it is not refreshed", session_id=record.id, error=type(error).__name__)
        finally:
            with suppress(BrokerError):
                await self._broker.delete(WANTED_TOKENS, record.id)

    async def _renewed(self, session_id: str, received: float) -> None:
        ends = asyncio.get_running_loop().time() + WAIT
        while True:
            try:
                await self._refresh.renew(session_id, RefreshStep.TOKENS, older_than=received)
            except RefreshUnderWay:
                if asyncio.get_running_loop().time() > ends:
                    raise ProviderError("another refresh of it does not end") from None
                await asyncio.sleep(PAUSE)
            else:
                return
