"""End of the sessions of providers that are no longer configured, or whose id now belongs to another issuer."""

from collections import defaultdict

import structlog

from config.options import Options
from databroker.broker_client import BrokerClient, iter_records
from databroker.end_sessions import end_sessions
from databroker.records import SESSION, Record, SessionRecord
from databroker.session_reader import is_session_issuer
from foundation.backoff import retry
from foundation.errors import GateError

log = structlog.get_logger(__name__)

INITIAL_BACKOFF = 0.1


class RemovedProviders:
    """The cleanup `run`, once per configuration.

    Such sessions are already ignored by `SessionReader`. Deleting them closes open streams and prevents their return if the
    provider is configured again.
    """

    def __init__(self, options: Options, broker: BrokerClient):
        self._providers = options.providers
        self._has_entries = options.identity_providers is not None
        self._broker = broker

    async def run(self) -> None:
        def log_failure(error: GateError) -> None:
            log.warning("ending sessions of removed providers failed", reason=str(error))

        await retry(self._end, log_failure, INITIAL_BACKOFF)

    async def _end(self) -> None:
        ids_by_provider = defaultdict[str, list[str]](list)
        async for record in iter_records(self._broker, SESSION):
            if (provider := self._removed_provider(record)) is not None:
                ids_by_provider[provider].append(record.id)
        for provider, ids in ids_by_provider.items():
            ended = await end_sessions(self._broker, ids)
            log.warning("sessions of removed identity provider ended", provider=provider, sessions=len(ended))

    def _removed_provider(self, record: Record) -> str | None:
        """Return the id of the removed provider that issued the session; None if the session is valid or malformed."""
        if (session := SessionRecord.parse(record)) is None:
            return None
        provider = self._providers.get(session.provider)
        # A changed URL in the single-provider keys may be a mistake: sessions are ignored but retained, so that it can be reverted.
        counts = is_session_issuer(provider, session) or (provider is not None and not self._has_entries)
        return None if counts else session.provider
