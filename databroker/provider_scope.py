"""Provider scope: with several directories, each reads and writes only the records of its provider's users."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, SCIM_GROUP, SCIM_INDEX, SCIM_USER, Record
from databroker.store.base import Lease
from foundation.errors import BrokerError

# Two directories may use one id for two of these, so the record id starts with the provider id, which the directory never sees.
_PREFIXED_TYPES = frozenset({DIRECTORY_GROUP, DIRECTORY_RUN, SCIM_USER, SCIM_GROUP, SCIM_INDEX})


class ForeignUser(BrokerError):
    """A directory names a user of another provider."""

    status = 403


def provider_scoped(client: BrokerClient, provider: ProviderConfig) -> BrokerClient:
    """Return the client for a provider's directory: unscoped for the provider of the `idp_*` keys, which is the only one."""
    return ProviderScopedBroker(client, provider.record_id_prefix) if provider.is_entry else client


# enforcement-point: Directory: Record ownership among several directories
class ProviderScopedBroker:
    """BrokerClient that confines a directory to one provider.

    It adds `prefix` to the ids of groups, syncs and SCIM resources transparently.  User ids must already start with it.
    """

    def __init__(self, client: BrokerClient, prefix: str):
        self._client = client
        self._prefix = prefix
        self.changes = client.changes
        self.server_version = client.server_version
        self.renew = client.renew
        self.release = client.release

    async def get(self, type: str, id: str) -> Record | None:
        record = await self._client.get(type, self._to_stored_id(type, id))
        return self._without_prefix(record) if record is not None else None

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        stored_id = self._to_stored_id(type, id)
        return self._without_prefix(await self._client.put(type, stored_id, data, expires=expires, only_if_version=only_if_version))

    async def delete(self, type: str, id: str) -> bool:
        return await self._client.delete(type, self._to_stored_id(type, id))

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        if type not in _PREFIXED_TYPES and type != DIRECTORY_USER:
            return await self._client.page(type, after, limit)
        # Ids with one prefix are adjacent, so the first record without it ends the list.
        found = await self._client.page(type, self._to_stored_id(type, after) if after else self._prefix, limit)
        return [self._without_prefix(record) for record in found if record.id.startswith(self._prefix)]

    async def acquire(self, name: str, ttl: float) -> Lease | None:
        """Acquire the lease of this name for this directory, so that directories do not wait for each other."""
        return await self._client.acquire(f"{name} of {self._prefix.rstrip('/')}", ttl)

    def _to_stored_id(self, type: str, id: str) -> str:
        if type in _PREFIXED_TYPES:
            return self._prefix + id
        if type == DIRECTORY_USER and not id.startswith(self._prefix):
            raise ForeignUser(f"{id} is not a user of this provider: its user ids start with {self._prefix}")
        return id

    def _without_prefix(self, record: Record) -> Record:
        is_prefixed = record.type in _PREFIXED_TYPES
        return replace(record, id=record.id.removeprefix(self._prefix)) if is_prefixed else record
