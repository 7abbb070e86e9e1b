"""Directory records of pushed resources: what decisions are made of, under the provider's ids.

A resource's `issuer` is the one of whose people it was pushed last, and so is its directory record's.  A user's `others` are those of
their `groups` that another issuer has told, and which: they stay until somebody tells otherwise, and decide about nobody.
"""

import structlog

from authenticate.scim.resources import email_of, name_of
from config.issuers import applies_to_issuer
from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient
from databroker.end_sessions import end_sessions_of_user
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryUser, Record

log = structlog.get_logger(__name__)


class AccessRecords:
    """Writer of the directory records; for the holder of the lease of SCIM's changes."""

    def __init__(self, provider: ProviderConfig, broker: BrokerClient):
        self._provider = provider
        self.issuer = provider.issuer
        self._broker = broker

    def user_id(self, subject: str) -> str:
        return f"{self._provider.id}/{subject}"

    def is_ours(self, resource: Record) -> bool:
        """Whether this was pushed of people of the configured issuer."""
        return applies_to_issuer(issuer_of(resource), self.issuer)

    def told_by_others(self, user: Record) -> dict[str, str]:
        """Groups of the user that another issuer than the configured one has told, and which issuer."""
        others = user.data.get("others", {})
        told_by = {group: others.get(group, issuer_of(user)) for group in user.data["groups"]}
        return {group: by for group, by in told_by.items() if not applies_to_issuer(by, self.issuer)}

    async def write(self, user: Record) -> None:
        """Write a resource's directory record; of a deactivated user that alone, because a token of the provider may outlive it."""
        resource, id, issuer = user.data["resource"], self.user_id(user.data["subject"]), issuer_of(user)
        others = user.data.get("others", {})
        group_ids = tuple(sorted({name for group, name in user.data["groups"].items() if group not in others}))
        active = DirectoryUser(id, email_of(resource), name_of(resource), group_ids, issuer=issuer)
        if is_active(user):
            await self._put(DIRECTORY_USER, active)
            await self._reactivate(id)
        else:
            await self._deactivate(id, issuer)

    async def write_group(self, directory_id: str, name: str, issuer: str) -> None:
        await self._put(DIRECTORY_GROUP, DirectoryGroup(directory_id, name, issuer=issuer))

    async def take(self, subject: str, *, is_out: bool) -> None:
        """Remove a user's record and sessions; `is_out`: as one who is deactivated, until they are created anew."""
        id = self.user_id(subject)
        if is_out:
            await self._deactivate(id, self.issuer)
        else:
            await self._broker.delete(DIRECTORY_USER, id)
        await self.end_sessions(subject)

    async def end_sessions(self, subject: str) -> None:
        user_id = self.user_id(subject)
        for id in await end_sessions_of_user(self._broker, user_id, self._provider.deactivation_id):
            log.info("session ended", session_id=id, user_id=user_id, reason="the provider deactivated the user")

    async def _deactivate(self, id: str, issuer: str) -> None:
        for each in dict.fromkeys((id, self._provider.deactivation_id(id))):
            await self._put(DIRECTORY_USER, DirectoryUser(each, is_deactivated=True, issuer=issuer))

    async def _reactivate(self, id: str) -> None:
        """Delete the record that deactivates the other cases of an active user's id."""
        other = self._provider.deactivation_id(id)
        record = await self._broker.get(DIRECTORY_USER, other) if other != id else None
        if record is not None and record.data.get("is_deactivated"):
            await self._broker.delete(DIRECTORY_USER, other)

    async def _put(self, type: str, value: DirectoryUser | DirectoryGroup) -> None:
        known = await self._broker.get(type, value.id)
        if known is None or value.from_record(known) != value:
            await self._broker.put(type, value.id, value.to_data())


def issuer_of(resource: Record) -> str:
    """The issuer that a resource names."""
    return str(resource.data.get("issuer", ""))


def is_active(user: Record) -> bool:
    return bool(user.data["resource"]["active"])
