"""Deletion of the directory records of providers that no longer have a directory or are no longer configured."""

from collections import Counter
from collections.abc import Iterator, Sequence

import structlog

from config.options import Options
from databroker.broker_client import BrokerClient, iter_records
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, SCIM_GROUP, SCIM_INDEX, SCIM_USER, Record
from foundation.backoff import retry
from foundation.errors import GateError
from foundation.tasks import gather_limited

log = structlog.get_logger(__name__)

INITIAL_BACKOFF = 0.1
WRITE_CONCURRENCY = 10
_SCIM_TYPES = (SCIM_USER, SCIM_GROUP, SCIM_INDEX)
# gate generates their ids: those of an `identity_providers` entry have its id as a prefix, and no others contain a "/".
_PREFIXED_TYPES = (DIRECTORY_RUN, *_SCIM_TYPES)
_DIRECTORY_TYPES = (DIRECTORY_USER, DIRECTORY_GROUP, *_PREFIXED_TYPES)


class RemovedDirectories:
    """The work `run`, once for each configuration.  Such records are ignored from the first moment on (IdentityLoader);
    here they go, so that nothing of them is left when the directory comes back.
    """

    def __init__(self, options: Options, broker: BrokerClient):
        self._has_entries = options.identity_providers is not None
        self._with_records = {id for id, provider in options.providers.items() if provider.has_group_records or provider.directory_file}
        self._with_directory = {provider.id for provider in options.providers.values() if provider.has_directory}
        self._with_scim = {provider.id for provider in options.providers.values() if provider.has_scim}
        self._broker = broker

    async def run(self) -> None:
        def log_failure(error: GateError) -> None:
            log.warning("deleting records of removed directories failed", reason=str(error))

        await retry(self._delete, log_failure, INITIAL_BACKOFF)

    async def _delete(self) -> None:
        found = [record for type in _DIRECTORY_TYPES async for record in iter_records(self._broker, type) if self._is_candidate(record)]
        gone = [(record.type, record.id) for record in (found if self._has_entries else self._select_orphans(found))]
        # Records that identify the removed directories are deleted last, so that an interrupted cleanup can be repeated.
        for part in ((DIRECTORY_USER,), (DIRECTORY_GROUP,), _PREFIXED_TYPES):
            await gather_limited([each for each in gone if each[0] in part], lambda each: self._broker.delete(*each), WRITE_CONCURRENCY)
        # Group ids from the single-provider keys `idp_*` have no provider prefix.
        users_by_provider = Counter(id.partition("/")[0] if type == DIRECTORY_USER else "" for type, id in gone)
        for provider, users in users_by_provider.items():
            if provider:
                log.warning("records of removed directory deleted", provider=provider, users=users)

    def _is_candidate(self, record: Record) -> bool:
        type, (provider, has_owner, _) = record.type, record.id.partition("/")
        if self._has_entries:
            return not has_owner or provider not in (self._with_scim if type in _SCIM_TYPES else self._with_directory)
        # The next sync or push replaces previous users and groups if there is a directory.
        return bool(has_owner) and (type in _PREFIXED_TYPES or provider not in self._with_records)

    def _select_orphans(self, found: Sequence[Record]) -> Iterator[Record]:
        """Yield the records that `identity_providers` entries left behind after a change to the keys `idp_*`.

        Deactivated users are retained, so that they remain deactivated.
        """
        user_owners = {_provider_id(record) for record in found if record.type == DIRECTORY_USER}
        # A file leaves no sync history, but its groups have the same id prefix as its users. Other group ids can contain a "/" too.
        entries = {_provider_id(record) for record in found if record.type in _PREFIXED_TYPES}
        entries |= {_provider_id(record) for record in found if record.type == DIRECTORY_GROUP and record.data.get("issuer")} & user_owners
        for record in found:
            if record.type in _PREFIXED_TYPES or (_provider_id(record) in entries and not record.data.get("is_deactivated")):
                yield record


def _provider_id(record: Record) -> str:
    return record.id.partition("/")[0]
