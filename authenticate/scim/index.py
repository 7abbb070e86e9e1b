"""SCIM index: records that map attribute values such as userName, externalId and displayName to resource ids."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from authenticate.scim.attribute_paths import normalize_value
from authenticate.scim.scim_errors import ScimError
from databroker.broker_client import BrokerClient
from databroker.records import SCIM_INDEX

# "subject" and "directory_id" are derived from the attributes of scim_user_id and scim_group_id, so they are unique too.
UNIQUE = frozenset({"username", "externalid", "subject", "directory_id"})

Keys = Mapping[str, str]  # lower-case attribute -> value


class ScimIndex:
    """Index of SCIM resources.  Only the holder of the SCIM lease writes it."""

    def __init__(self, broker: BrokerClient):
        self._broker = broker

    async def find_ids(self, type: str, attribute: str, value: str) -> tuple[str, ...]:
        record = await self._broker.get(SCIM_INDEX, _key(type, attribute, value))
        return tuple(record.data["ids"]) if record is not None else ()

    async def check_unique(self, type: str, id: str, keys: Keys) -> None:
        """Raise ScimError 409 if another resource has a value that must be unique."""
        for attribute, value in keys.items():
            others = [other for other in await self.find_ids(type, attribute, value) if other != id] if attribute in UNIQUE else []
            for other in others:
                # An entry without a resource is left over from an interrupted write.
                if await self._broker.get(type, other) is not None:
                    raise ScimError(409, f"another resource has this {attribute.replace('_', ' ')}", "uniqueness")

    async def put(self, type: str, id: str, keys: Keys) -> None:
        for attribute, value in keys.items():
            if id not in (ids := await self.find_ids(type, attribute, value)):
                await self._broker.put(SCIM_INDEX, _key(type, attribute, value), {"ids": [*ids, id]})

    async def remove(self, type: str, id: str, keys: Iterable[tuple[str, str]]) -> None:
        for attribute, value in keys:
            left = [other for other in await self.find_ids(type, attribute, value) if other != id]
            if left:
                await self._broker.put(SCIM_INDEX, _key(type, attribute, value), {"ids": left})
            else:
                await self._broker.delete(SCIM_INDEX, _key(type, attribute, value))


def _key(type: str, attribute: str, value: str) -> str:
    """Return a record id of fixed length.  The provider's own ids are case-sensitive."""
    normalized = value if attribute in ("subject", "directory_id") else normalize_value((attribute,), value)
    return hashlib.sha256(json.dumps([type, attribute, normalized]).encode()).hexdigest()
