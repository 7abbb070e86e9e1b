"""SCIM directory: what a provider pushes, in the data broker: its users and groups as they came, and what of them decides about access.

| records                          | what they are                                                                |
|----------------------------------|------------------------------------------------------------------------------|
| scim_user, scim_group            | the resources; a user's record names its groups, too                         |
| scim_index                       | whose userName, externalId, displayName, subject it is                       |
| directory_user, directory_group  | made of them, for decisions, under the provider's ids; of who must not get in only that |

One change at a time, anywhere (a lease).  Each ends in the same records when it is repeated after it broke off.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import structlog

from authenticate.scim.directory_writer import AccessRecords, is_active, issuer_of
from authenticate.scim.index import Keys, ScimIndex
from authenticate.scim.patch import patched
from authenticate.scim.resources import MAX_TEXT, attributes_of, group_of, says_active, shown_group, shown_user, user_of
from authenticate.scim.scim_errors import ScimError, invalid, not_found
from config.issuers import applies_to_issuer
from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient, every
from databroker.provider_scope import own_records
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SCIM_GROUP, SCIM_USER, Record, SessionRecord
from databroker.session_reader import find_directory_record, person_of

log = structlog.get_logger(__name__)

LEASE = 300.0  # a group of fifty thousand takes a while
LEASE_TIMEOUT = 10.0  # seconds that a change waits for the one before it
CHANGES_AT_ONCE = 16
# In a record's id, which ends with one that we make up: left of an entry of `identity_providers` where there are none.
_OF_AN_ENTRY = "/"


class ScimChange(NamedTuple):
    """A resource before and after a request; `before` is None where it was not there."""

    before: Record | None
    after: Record


class ScimDirectory:
    """Store of the resources of one provider, `users` and `groups`; one change at a time, anywhere.  ScimError, BrokerError."""

    def __init__(self, provider: ProviderConfig, broker: BrokerClient, clock: Callable[[], float]):
        self.provider = provider
        self.broker = own_records(broker, provider)
        self.clock = clock
        self.index = ScimIndex(self.broker)
        self.access = AccessRecords(provider, self.broker)
        self.users, self.groups = ScimUsers(self), ScimGroups(self)
        self._one_at_a_time = asyncio.Lock()

    async def find(self, type: str, id: str) -> Record:
        record = await self.broker.get(type, id) if _OF_AN_ENTRY not in id else None
        if record is None:
            raise not_found(id)
        return record

    async def ids_with(self, type: str, attribute: str, value: str) -> tuple[str, ...]:
        return await self.index.ids(type, attribute, value)

    async def all(self, type: str) -> AsyncGenerator[Record]:
        async for record in every(self.broker, type):
            if type not in (SCIM_USER, SCIM_GROUP) or _OF_AN_ENTRY not in record.id:
                yield record

    async def is_deactivated(self, session: SessionRecord) -> bool:
        """Whether the provider has said that the session's person must not get in any more."""
        person = person_of(session, await find_directory_record(session, self.provider, self.broker.get))
        if person is not None and person.is_deactivated:
            return True
        # The mark is a record of its own: without it the resource decides.
        for attribute in ("subject", self.provider.scim_user_id.lower()):
            for id in await self.index.ids(SCIM_USER, attribute, session.subject):
                record = await self.broker.get(SCIM_USER, id)
                if record is not None and applies_to_issuer(issuer_of(record), session.vouched_by) and not is_active(record):
                    return True
        return False

    async def tidy(self) -> None:
        """Clean-up at the start: records that another directory has left are removed, and what broke off is completed.

        What was pushed of another issuer's people stays theirs.
        """
        async with self.alone():
            owned = {DIRECTORY_USER: set[str](), DIRECTORY_GROUP: set[str]()}
            async for record in self.all(SCIM_GROUP):
                owned[DIRECTORY_GROUP].add(record.data["directory_id"])
                await self.access.write_group(record.data["directory_id"], record.data["resource"]["displayName"], issuer_of(record))
            async for record in self.all(SCIM_USER):
                owned[DIRECTORY_USER].add(self.access.user_id(record.data["subject"]))
                await self.access.write(record)
            for type, ids in owned.items():
                async for record in self.all(type):
                    if record.id not in ids and not record.data.get("is_deactivated"):
                        await self.broker.delete(type, record.id)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait for the one lease of all changes, and hold it."""
        async with self._one_at_a_time:
            until = self.clock() + LEASE_TIMEOUT
            while (lease := await self.broker.acquire("scim", LEASE)) is None:
                if self.clock() > until:
                    raise ScimError(503, "another change is in progress; try again in a moment")
                await asyncio.sleep(0.05)
            try:
                yield
            finally:
                await self.broker.release(lease)

    @asynccontextmanager
    async def changing(self, type: str, id: str, if_match: str) -> AsyncIterator[Record]:
        """As `alone`, with the resource as it is; ScimError where it is not the one that If-Match names."""
        async with self.alone():
            record = await self.find(type, id)
            if if_match not in ("", "*", f'W/"{record.version}"', f'"{record.version}"'):
                raise ScimError(412, "the resource was changed concurrently")
            yield record


class ScimUsers:
    """The users of one provider: create, replace, patch and delete."""

    type, noun, show = SCIM_USER, "user", staticmethod(shown_user)

    def __init__(self, store: ScimDirectory):
        self._store, self.provider = store, store.provider
        self._broker, self._index, self._access = store.broker, store.index, store.access

    async def create(self, document: Mapping[str, Any]) -> ScimChange:
        user = user_of(document)
        async with self._store.alone():
            return await self._write(None, secrets.token_urlsafe(16), user)

    async def replace(self, id: str, document: Mapping[str, Any], if_match: str = "") -> ScimChange:
        async with self._store.changing(SCIM_USER, id, if_match) as old:
            return await self._write(old, id, user_of(document, was_active=is_active(old)))

    async def patch(self, id: str, document: Mapping[str, Any], if_match: str = "") -> ScimChange:
        async with self._store.changing(SCIM_USER, id, if_match) as old:
            changed = patched(attributes_of(old), document)
            user = user_of(changed, was_active=is_active(old))
            return await self._write(old, id, user, is_active_unsaid=not says_active(changed))

    async def delete(self, id: str, if_match: str = "") -> Record:
        async with self._store.changing(SCIM_USER, id, if_match) as old:
            for group_id in old.data["groups"]:
                group = await self._broker.get(SCIM_GROUP, group_id)
                if group is not None:
                    members = [member for member in group.data["members"] if member != id]
                    await self._broker.put(SCIM_GROUP, group_id, {**group.data, "members": members})
            await self._access.take(old.data["subject"], is_out=True)
            await self._index.forget(SCIM_USER, id, self._user_keys(old.data["resource"], old.data["subject"]).items())
            await self._broker.delete(SCIM_USER, id)
            return old

    async def _write(self, old: Record | None, id: str, user: Mapping[str, Any], *, is_active_unsaid: bool = False) -> ScimChange:
        subject = self._subject(user)
        groups, created = (old.data["groups"], old.data["created"]) if old is not None else ({}, self._store.clock())
        keys = self._user_keys(user, subject)
        await self._index.check(SCIM_USER, id, keys)
        await self._index.put(SCIM_USER, id, keys)
        if old is not None and old.data["subject"] != subject:
            # First, so that it is done again where it broke off.  A rename lets nobody back in who is, or was, deactivated.
            await self._access.take(old.data["subject"], is_out=not (user["active"] and is_active(old)))
        # Before the sessions end, so that a sign-in under way either is found among them or finds this.
        data: dict[str, Any] = {"resource": dict(user), "groups": dict(groups), "subject": subject, "created": created}
        data["issuer"] = self._access.issuer
        if old is not None and (others := self._access.told_by_others(old)):
            data["others"] = others
        if is_active_unsaid:
            data["is_active_unsaid"] = True
        record = await self._broker.put(SCIM_USER, id, data)
        if old is not None:
            before = self._user_keys(old.data["resource"], old.data["subject"])
            await self._index.forget(SCIM_USER, id, _changed(before, keys))
        await self._access.write(record)
        if not user["active"]:
            await self._access.end_sessions(subject)
        return ScimChange(old, record)

    def _subject(self, user: Mapping[str, Any]) -> str:
        """The user's `sub` in the provider's ID token."""
        subject = user.get(self.provider.scim_user_id)
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_TEXT:
            raise invalid(f"{self.provider.scim_user_id} is required: it links the user to sessions (setting scim_user_id)")
        return subject

    def _user_keys(self, user: Mapping[str, Any], subject: str) -> Keys:
        named = {"username": user["userName"], "externalid": user.get("externalId", ""), "displayname": user.get("displayName", "")}
        return {"subject": subject, **{name: value for name, value in named.items() if value}}


class ScimGroups:
    """The groups of one provider: create, replace, patch and delete."""

    type, noun, show = SCIM_GROUP, "group", staticmethod(shown_group)

    def __init__(self, store: ScimDirectory):
        self._store, self.provider = store, store.provider
        self._broker, self._index, self._access = store.broker, store.index, store.access

    async def create(self, document: Mapping[str, Any]) -> ScimChange:
        group, members = group_of(document)
        async with self._store.alone():
            return await self._write(None, secrets.token_urlsafe(16), group, members)

    async def replace(self, id: str, document: Mapping[str, Any], if_match: str = "") -> ScimChange:
        group, members = group_of(document)
        async with self._store.changing(SCIM_GROUP, id, if_match) as old:
            return await self._write(old, id, group, members)

    async def patch(self, id: str, document: Mapping[str, Any], if_match: str = "") -> ScimChange:
        async with self._store.changing(SCIM_GROUP, id, if_match) as old:
            # Whom another issuer has put in is none of this one's, of which nothing was changed before.
            members = [{"value": member} for member in old.data["members"]] if self._access.is_ours(old) else []
            group, ids = group_of(patched({**old.data["resource"], "members": members}, document))
            return await self._write(old, id, group, ids)

    async def delete(self, id: str, if_match: str = "") -> Record:
        async with self._store.changing(SCIM_GROUP, id, if_match) as old:
            await self._set_memberships(old.data["members"], id, "")
            await self._broker.delete(DIRECTORY_GROUP, old.data["directory_id"])
            await self._index.forget(SCIM_GROUP, id, _group_keys(old.data["resource"], old.data["directory_id"]).items())
            await self._broker.delete(SCIM_GROUP, id)
            return old

    async def _write(self, old: Record | None, id: str, group: Mapping[str, Any], named: Iterable[str]) -> ScimChange:
        directory_id = str(group.get(self.provider.scim_group_id, "")) or id
        keys = _group_keys(group, directory_id)
        await self._index.check(SCIM_GROUP, id, keys)
        await self._index.put(SCIM_GROUP, id, keys)
        await self._access.write_group(directory_id, group["displayName"], self._access.issuer)
        before = set(old.data["members"]) if old is not None else set[str]()
        # Who stays in the group is not looked at again, unless it has another id now: groups are large, changes are small.
        is_same = old is not None and old.data["directory_id"] == directory_id and self._access.is_ours(old)
        settled = before if is_same else set[str]()
        joined = await self._set_memberships((member for member in named if member not in settled), id, directory_id)
        members = [member for member in named if member in settled or member in joined]
        await self._set_memberships(before - set(members), id, "")
        if old is not None:
            await self._index.forget(SCIM_GROUP, id, _changed(_group_keys(old.data["resource"], old.data["directory_id"]), keys))
            if old.data["directory_id"] != directory_id:
                await self._broker.delete(DIRECTORY_GROUP, old.data["directory_id"])
        created = old.data["created"] if old is not None else self._store.clock()
        data = {"resource": dict(group), "members": members, "directory_id": directory_id, "created": created}
        # Last: what broke off before is done again by the same request.
        return ScimChange(old, await self._broker.put(SCIM_GROUP, id, {**data, "issuer": self._access.issuer}))

    async def _set_memberships(self, user_ids: Iterable[str], group_id: str, directory_id: str) -> set[str]:
        """Set the members of a group to those of the ids that are users."""
        ids, known = list(user_ids), set[str]()
        for start in range(0, len(ids), CHANGES_AT_ONCE):
            some = ids[start : start + CHANGES_AT_ONCE]
            found = await asyncio.gather(*(self._set_membership(id, group_id, directory_id) for id in some))
            known.update(id for id, is_user in zip(some, found, strict=True) if is_user)
        if directory_id and len(known) < len(ids):
            log.warning("SCIM group has unknown members", group_id=group_id, members=len(ids) - len(known))
        return known

    async def _set_membership(self, user_id: str, group_id: str, directory_id: str) -> bool:
        """Put a user into the group under that id, or out of it (""); False where there is no such user."""
        user = await self._broker.get(SCIM_USER, user_id)
        if user is None:
            return False
        groups = {id: name for id, name in user.data["groups"].items() if id != group_id}
        others = {id: issuer for id, issuer in user.data.get("others", {}).items() if id != group_id}
        if directory_id:
            groups[group_id] = directory_id
            if not self._access.is_ours(user):
                others[group_id] = self._access.issuer
        if (groups, others) != (user.data["groups"], user.data.get("others", {})):
            data = {name: value for name, value in user.data.items() if name != "others"}
            user = await self._broker.put(SCIM_USER, user_id, {**data, "groups": groups, **({"others": others} if others else {})})
        await self._access.write(user)
        return True


def _group_keys(group: Mapping[str, Any], directory_id: str) -> Keys:
    external = {"externalid": group["externalId"]} if group.get("externalId") else {}
    return {"directory_id": directory_id, "displayname": group["displayName"], **external}


def _changed(before: Keys, now: Keys) -> list[tuple[str, str]]:
    return [(name, value) for name, value in before.items() if now.get(name) != value]
