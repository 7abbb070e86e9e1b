"""Removed directories: what was read of people of a provider that has no directory any more, or is not configured, is deleted at once."""

from collections import Counter

import structlog

from config.options import Options
from databroker.client import BrokerClient, every
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, SCIM_GROUP, SCIM_INDEX, SCIM_USER
from foundation.backoff import until_done
from foundation.errors import GateError
from foundation.tasks import in_parallel

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.1
WRITES_AT_ONCE = 10
_PUSHED = (SCIM_USER, SCIM_GROUP, SCIM_INDEX)
_OF_DIRECTORIES = (DIRECTORY_USER, DIRECTORY_GROUP, DIRECTORY_RUN, *_PUSHED)


class RemovedDirectories:
    """The work `run`, once for each configuration.  Such records count for nobody from the first moment on (authorize/identity/loader.py);
    here they go, so that nothing of them is left when the directory comes back.
    """

    def __init__(self, options: Options, broker: BrokerClient):
        self._has_entries = options.identity_providers is not None
        self._kept = {provider.id for provider in options.providers.values() if provider.has_directory}
        self._pushed = {provider.id for provider in options.providers.values() if provider.is_pushed}
        self._broker = broker

    async def run(self) -> None:
        def unable(error: GateError) -> None:
            log.warning("records of removed directories can't be deleted yet", reason=str(error))

        await until_done(self._delete, unable, FIRST_PAUSE)

    async def _delete(self) -> None:
        gone = [
            (type, record.id) for type in _OF_DIRECTORIES async for record in every(self._broker, type) if self._is_gone(type, record.id)
        ]
        await in_parallel(gone, lambda each: self._broker.delete(*each), WRITES_AT_ONCE)
        # The ids of groups that the keys `idp_*` had read begin with no provider's.
        told = Counter(id.partition("/")[0] if type == DIRECTORY_USER else "" for type, id in gone)
        for provider, users in told.items():
            if provider:
                log.warning("what a directory had told was deleted: it is not configured any more", provider=provider, users=users)

    def _is_gone(self, type: str, id: str) -> bool:
        of, has_owner, _ = id.partition("/")
        if not self._has_entries:
            # People and groups of before the next reading or push replaces; these two have ids that we make up, without a provider's.
            return type in (DIRECTORY_RUN, *_PUSHED) and bool(has_owner)
        return not has_owner or of not in (self._pushed if type in _PUSHED else self._kept)
