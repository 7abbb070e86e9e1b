"""Index entries of linked accounts whose sessions began before the configuration linked them."""

import structlog

from authenticate.session.session_service import Sessions
from databroker.broker_client import BrokerClient, every
from databroker.records import SESSION, SessionRecord
from foundation.backoff import retry
from foundation.errors import GateError
from foundation.tasks import gather_limited

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.1
CONCURRENCY = 10  # sessions


class LinkedIndex:
    """The work `run`, once for each configuration: a sign-in indexes a session under the id that its account has then, and another
    `link_by` or `domains` gives the account another one.
    """

    def __init__(self, sessions: Sessions, broker: BrokerClient):
        self._sessions = sessions
        self._broker = broker

    async def run(self) -> None:
        def unable(error: GateError) -> None:
            log.warning("indexing sessions of linked accounts failed", reason=str(error))

        if self._sessions.links_accounts:
            await retry(self._index_all, unable, FIRST_PAUSE)

    async def _index_all(self) -> None:
        page = list[SessionRecord]()
        async for record in every(self._broker, SESSION):
            if (session := SessionRecord.parse(record)) is not None:
                page.append(session)
            if len(page) == CONCURRENCY:
                await gather_limited(page, self._sessions.index_linked, CONCURRENCY)
                page.clear()
        await gather_limited(page, self._sessions.index_linked, CONCURRENCY)
