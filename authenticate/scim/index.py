"""SCIM index: records that find a resource by userName, externalId or displayName without a look at all others."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from authenticate.scim.attribute_paths import folded
from authenticate.scim.scim_errors import ScimError
from databroker.broker_client import BrokerClient
from databroker.records import SCIM_INDEX

# "subject" and "directory_id" are what the attribute that the setting names makes of somebody: they must differ, too.
UNIQUE = frozenset({"username", "externalid", "subject", "directory_id"})

Keys = Mapping[str, str]  # lower-case attribute -> value


class ScimIndex:
    """The index, for the holder of the lease of SCIM's changes: nothing else writes here."""

    def __init__(self, broker: BrokerClient):
        self._broker = broker

    async def ids(self, type: str, attribute: str, value: str) -> tuple[str, ...]:
        record = await self._broker.get(SCIM_INDEX, _key(type, attribute, value))
        return tuple(record.data["ids"]) if record is not None else ()

    async def check(self, type: str, id: str, keys: Keys) -> None:
        """ScimError 409 where another resource has a value that must be unique."""
        for attribute, value in keys.items():
            others = [other for other in await self.ids(type, attribute, value) if other != id] if attribute in UNIQUE else []
            for other in others:
                # One that is not there was being written when something broke off.
                if await self._broker.get(type, other) is not None:
                    raise ScimError(409, f"another resource has this {attribute.replace('_', ' ')}", "uniqueness")

    async def put(self, type: str, id: str, keys: Keys) -> None:
        for attribute, value in keys.items():
            if id not in (ids := await self.ids(type, attribute, value)):
                await self._broker.put(SCIM_INDEX, _key(type, attribute, value), {"ids": [*ids, id]})

    async def forget(self, type: str, id: str, keys: Iterable[tuple[str, str]]) -> None:
        for attribute, value in keys:
            left = [other for other in await self.ids(type, attribute, value) if other != id]
            if left:
                await self._broker.put(SCIM_INDEX, _key(type, attribute, value), {"ids": left})
            else:
                await self._broker.delete(SCIM_INDEX, _key(type, attribute, value))


def _key(type: str, attribute: str, value: str) -> str:
    """Record id of one length for any value.  Only the provider knows which of its ids differ in case alone."""
    told_apart = value if attribute in ("subject", "directory_id") else folded((attribute,), value)
    return hashlib.sha256(json.dumps([type, attribute, told_apart]).encode()).hexdigest()
