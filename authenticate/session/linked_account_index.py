"""Index entries for sessions that started before the configuration linked their accounts."""

import structlog

from authenticate.session.session_service import SessionService
from databroker.broker_client import BrokerClient, iter_records
from databroker.records import SESSION, SessionRecord
from foundation.backoff import retry
from foundation.errors import GateError
from foundation.tasks import gather_limited

log = structlog.get_logger(__name__)

INITIAL_BACKOFF = 0.1
CONCURRENCY = 10  # sessions


class LinkedAccountIndexer:
    """Indexer of existing sessions, run once per configuration.

    A sign-in indexes its session under the linked id of its account. A change of `link_by` or `domains` changes that id.
    """

    def __init__(self, sessions: SessionService, broker: BrokerClient):
        self._sessions = sessions
        self._broker = broker

    async def run(self) -> None:
        def log_failure(error: GateError) -> None:
            log.warning("indexing sessions of linked accounts failed", reason=str(error))

        if self._sessions.links_accounts:
            await retry(self._index_all, log_failure, INITIAL_BACKOFF)

    async def _index_all(self) -> None:
        page = list[SessionRecord]()
        async for record in iter_records(self._broker, SESSION):
            if (session := SessionRecord.parse(record)) is not None:
                page.append(session)
            if len(page) == CONCURRENCY:
                await gather_limited(page, self._sessions.index_linked, CONCURRENCY)
                page.clear()
        await gather_limited(page, self._sessions.index_linked, CONCURRENCY)
