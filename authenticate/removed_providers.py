"""Removed providers: sessions of those that are not configured any more, or under whose id another issuer is, end at once."""

from collections import defaultdict

import structlog

from config.options import Options
from databroker.broker_client import BrokerClient, every
from databroker.end_sessions import end_sessions
from databroker.records import SESSION, Record, SessionRecord
from databroker.session_reader import vouches
from foundation.backoff import retry
from foundation.errors import GateError

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.1


class RemovedProviders:
    """The work `run`, once for each configuration.  A session of such a provider counts as none from the first moment on
    (`SessionReader`); here it ends, so that nothing of it is left when the provider comes back, and open streams end.
    """

    def __init__(self, options: Options, broker: BrokerClient):
        self._providers = options.providers
        self._has_entries = options.identity_providers is not None
        self._broker = broker

    async def run(self) -> None:
        def unable(error: GateError) -> None:
            log.warning("ending sessions of removed providers failed", reason=str(error))

        await retry(self._end, unable, FIRST_PAUSE)

    async def _end(self) -> None:
        gone = defaultdict[str, list[str]](list)
        async for record in every(self._broker, SESSION):
            if (provider := self._gone(record)) is not None:
                gone[provider].append(record.id)
        for provider, ids in gone.items():
            ended = await end_sessions(self._broker, ids)
            log.warning("sessions of removed identity provider ended", provider=provider, sessions=len(ended))

    def _gone(self, record: Record) -> str | None:
        """The id of the provider whose session this was; None for one that counts, or that makes no sense."""
        if (session := SessionRecord.parse(record)) is None:
            return None
        provider = self._providers.get(session.provider)
        # Another URL in the keys of one provider may be a mistake: sessions count as none meanwhile, and taken back, nothing is lost.
        counts = vouches(provider, session) or (provider is not None and not self._has_entries)
        return None if counts else session.provider
