"""Directory records of SCIM resources: the input of decisions, under the provider's ids.

A resource and its directory record carry the `issuer` for which the resource was last pushed.  A user's `group_issuers` are the groups
that another issuer pushed, with that issuer.  They are kept until they are pushed again, and decisions ignore them.
"""

from collections.abc import Callable

import structlog

from authenticate.scim.resources import get_display_name, get_email
from authorize.upstream.account_connections import AccountConnection, delete_user_connections
from config.issuers import applies_to_issuer
from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient
from databroker.end_sessions import end_sessions_for_user
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryUser, Record

DEACTIVATED = "the provider deactivated the user"

log = structlog.get_logger(__name__)


class DirectoryWriter:
    """Writer of directory records.  Only the holder of the SCIM lease uses it.

    `revoke` revokes the tokens of a deactivated user's accounts at third-party MCP servers.
    """

    def __init__(self, provider: ProviderConfig, broker: BrokerClient, revoke: Callable[[AccountConnection], None]):
        self._provider = provider
        self._revoke = revoke
        self.issuer = provider.issuer
        self._broker = broker

    def user_id(self, subject: str) -> str:
        return f"{self._provider.id}/{subject}"

    def is_current_issuer(self, resource: Record) -> bool:
        """Return whether this was pushed for the configured issuer."""
        return applies_to_issuer(get_issuer(resource), self.issuer)

    def groups_from_other_issuers(self, user: Record) -> dict[str, str]:
        """Return the user's groups that were pushed for another issuer than the configured one, with that issuer."""
        group_issuers = user.data.get("group_issuers", {})
        issuers = {group: group_issuers.get(group, get_issuer(user)) for group in user.data["groups"]}
        return {group: issuer for group, issuer in issuers.items() if not applies_to_issuer(issuer, self.issuer)}

    async def write(self, user: Record) -> None:
        """Write a user's directory record.

        A deactivated user gets a record that only says so, because a token of the provider may outlive the account.
        """
        resource, id, issuer = user.data["resource"], self.user_id(user.data["subject"]), get_issuer(user)
        group_issuers = user.data.get("group_issuers", {})
        group_ids = tuple(sorted({name for group, name in user.data["groups"].items() if group not in group_issuers}))
        active = DirectoryUser(id, get_email(resource), get_display_name(resource), group_ids, issuer=issuer)
        if is_active(user):
            await self._put(DIRECTORY_USER, active)
            await self._reactivate(id)
        else:
            await self._deactivate(id, issuer)

    async def write_group(self, directory_id: str, name: str, issuer: str) -> None:
        await self._put(DIRECTORY_GROUP, DirectoryGroup(directory_id, name, issuer=issuer))

    async def remove_user(self, subject: str, *, deactivate: bool) -> None:
        """Remove a user's record and sessions.  With `deactivate`, a deactivation record remains until the user is created again."""
        id = self.user_id(subject)
        if deactivate:
            await self._deactivate(id, self.issuer)
        else:
            await self._broker.delete(DIRECTORY_USER, id)
        await self.end_sessions(subject)

    async def end_sessions(self, subject: str) -> None:
        user_id = self.user_id(subject)
        for id in await end_sessions_for_user(self._broker, user_id, self._provider.deactivation_id):
            log.info("session ended", session_id=id, user_id=user_id, reason=DEACTIVATED)
        await delete_user_connections(self._broker, user_id, DEACTIVATED, self._provider.deactivation_id, self._revoke)

    async def _deactivate(self, id: str, issuer: str) -> None:
        for each in dict.fromkeys((id, self._provider.deactivation_id(id))):
            await self._put(DIRECTORY_USER, DirectoryUser(each, is_deactivated=True, issuer=issuer))

    async def _reactivate(self, id: str) -> None:
        """Delete the record that deactivates other spellings (letter case) of an active user's id."""
        other = self._provider.deactivation_id(id)
        record = await self._broker.get(DIRECTORY_USER, other) if other != id else None
        if record is not None and record.data.get("is_deactivated"):
            await self._broker.delete(DIRECTORY_USER, other)

    async def _put(self, type: str, value: DirectoryUser | DirectoryGroup) -> None:
        known = await self._broker.get(type, value.id)
        if known is None or value.from_record(known) != value:
            await self._broker.put(type, value.id, value.to_data())


def get_issuer(resource: Record) -> str:
    """Return the issuer for which a resource was pushed, or ""."""
    return str(resource.data.get("issuer", ""))


def is_active(user: Record) -> bool:
    return bool(user.data["resource"]["active"])
