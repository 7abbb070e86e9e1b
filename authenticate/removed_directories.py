"""Removed directories: what was read of people of a provider that has no directory any more, or is not configured, is deleted at once."""

from collections import Counter
from collections.abc import Iterator, Sequence

import structlog

from config.options import Options
from databroker.broker_client import BrokerClient, every
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, SCIM_GROUP, SCIM_INDEX, SCIM_USER, Record
from foundation.backoff import retry
from foundation.errors import GateError
from foundation.tasks import gather_limited

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.1
WRITES_AT_ONCE = 10
_PUSHED = (SCIM_USER, SCIM_GROUP, SCIM_INDEX)
# Their ids we make up: that of an entry begins with its own, and no other has a "/".
_OF_ENTRIES = (DIRECTORY_RUN, *_PUSHED)
_OF_DIRECTORIES = (DIRECTORY_USER, DIRECTORY_GROUP, *_OF_ENTRIES)


class RemovedDirectories:
    """The work `run`, once for each configuration.  Such records are ignored from the first moment on (IdentityLoader);
    here they go, so that nothing of them is left when the directory comes back.
    """

    def __init__(self, options: Options, broker: BrokerClient):
        self._has_entries = options.identity_providers is not None
        self._told = {id for id, provider in options.providers.items() if provider.has_group_records or provider.directory_file}
        self._kept = {provider.id for provider in options.providers.values() if provider.has_directory}
        self._pushed = {provider.id for provider in options.providers.values() if provider.has_scim}
        self._broker = broker

    async def run(self) -> None:
        def unable(error: GateError) -> None:
            log.warning("deleting records of removed directories failed", reason=str(error))

        await retry(self._delete, unable, FIRST_PAUSE)

    async def _delete(self) -> None:
        found = [record for type in _OF_DIRECTORIES async for record in every(self._broker, type) if self._may_be_gone(record)]
        gone = [(record.type, record.id) for record in (found if self._has_entries else self._of_entries(found))]
        # What says of which entries there were directories goes last, so that whoever is interrupted begins anew.
        for part in ((DIRECTORY_USER,), (DIRECTORY_GROUP,), _OF_ENTRIES):
            await gather_limited([each for each in gone if each[0] in part], lambda each: self._broker.delete(*each), WRITES_AT_ONCE)
        # The ids of groups that the keys `idp_*` had read begin with no provider's.
        told = Counter(id.partition("/")[0] if type == DIRECTORY_USER else "" for type, id in gone)
        for provider, users in told.items():
            if provider:
                log.warning("records of removed directory deleted", provider=provider, users=users)

    def _may_be_gone(self, record: Record) -> bool:
        type, (of, has_owner, _) = record.type, record.id.partition("/")
        if self._has_entries:
            return not has_owner or of not in (self._pushed if type in _PUSHED else self._kept)
        # People and groups of before the next reading or push replaces, where there is one.
        return bool(has_owner) and (type in _OF_ENTRIES or of not in self._told)

    def _of_entries(self, found: Sequence[Record]) -> Iterator[Record]:
        """Those of the records that entries have left to the keys `idp_*`.  Who was deactivated stays out, whoever may say so now."""
        of_people = {_owner(record) for record in found if record.type == DIRECTORY_USER}
        # A file leaves no history, but groups whose ids begin as those of its people do; other groups have a "/" in ids of their own.
        entries = {_owner(record) for record in found if record.type in _OF_ENTRIES}
        entries |= {_owner(record) for record in found if record.type == DIRECTORY_GROUP and record.data.get("issuer")} & of_people
        for record in found:
            if record.type in _OF_ENTRIES or (_owner(record) in entries and not record.data.get("is_deactivated")):
                yield record


def _owner(record: Record) -> str:
    return record.id.partition("/")[0]
