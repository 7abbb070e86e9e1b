"""SCIM directory: the users and groups that a provider pushes, and the directory records derived from them.

| records                          | content                                                                           |
|----------------------------------|-----------------------------------------------------------------------------------|
| scim_user, scim_group            | the resources; a user's record also has its groups                                |
| scim_index                       | resource ids by userName, externalId, displayName and subject                     |
| directory_user, directory_group  | the input of decisions, under the provider's ids; deactivated users only say that |

A lease serializes changes across processes.  Repeating an interrupted change completes it.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import structlog

from authenticate.scim.directory_writer import DirectoryWriter, get_issuer, is_active
from authenticate.scim.index import Keys, ScimIndex
from authenticate.scim.patch import apply_patch
from authenticate.scim.resources import MAX_TEXT_LENGTH, get_attributes, has_active, parse_group, parse_user, render_group, render_user
from authenticate.scim.scim_errors import ScimError, invalid, not_found
from authorize.upstream.account_connections import AccountConnection
from config.issuers import applies_to_issuer
from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient, iter_records
from databroker.provider_scope import provider_scoped
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SCIM_GROUP, SCIM_USER, Record, SessionRecord
from databroker.session_reader import directory_user_for_session, find_directory_record

log = structlog.get_logger(__name__)

LEASE_SECONDS = 300.0  # a group of fifty thousand takes a while
LEASE_TIMEOUT_SECONDS = 10.0  # seconds that a change waits for the one before it
UPDATE_CONCURRENCY = 16
# Separates provider and random part in record ids of entries of `identity_providers`.  Without such entries, these ids are left over.
_SCOPED_ID_MARK = "/"


class ScimChange(NamedTuple):
    """Resource before and after a request.  `before` is None if it was created."""

    before: Record | None
    after: Record


class ScimDirectory:
    """Store of the SCIM resources of one provider.

    A lease serializes changes across processes.  Methods raise ScimError and BrokerError.
    """

    def __init__(
        self, provider: ProviderConfig, broker: BrokerClient, clock: Callable[[], float], revoke: Callable[[AccountConnection], None]
    ):
        self.provider = provider
        self.broker = provider_scoped(broker, provider)
        self.clock = clock
        self.index = ScimIndex(self.broker)
        self.access = DirectoryWriter(provider, self.broker, revoke)
        self.users, self.groups = ScimUsers(self), ScimGroups(self)
        self._one_at_a_time = asyncio.Lock()

    async def find(self, type: str, id: str) -> Record:
        record = await self.broker.get(type, id) if _SCOPED_ID_MARK not in id else None
        if record is None:
            raise not_found(id)
        return record

    async def ids_with(self, type: str, attribute: str, value: str) -> tuple[str, ...]:
        return await self.index.find_ids(type, attribute, value)

    async def all(self, type: str) -> AsyncGenerator[Record]:
        async for record in iter_records(self.broker, type):
            if type not in (SCIM_USER, SCIM_GROUP) or _SCOPED_ID_MARK not in record.id:
                yield record

    async def is_deactivated(self, session: SessionRecord) -> bool:
        """Return whether the provider has deactivated the user of this session."""
        directory_user = directory_user_for_session(session, await find_directory_record(session, self.provider, self.broker.get))
        if directory_user is not None and directory_user.is_deactivated:
            return True
        # The deactivation record may not have been written yet, so the resource is checked too.
        for attribute in ("subject", self.provider.scim_user_id.lower()):
            for id in await self.index.find_ids(SCIM_USER, attribute, session.subject):
                record = await self.broker.get(SCIM_USER, id)
                if record is not None and applies_to_issuer(get_issuer(record), session.effective_issuer) and not is_active(record):
                    return True
        return False

    async def repair(self) -> None:
        """Complete interrupted changes, and remove records that another directory left.

        Resources that were pushed for another issuer keep that issuer.
        """
        async with self.exclusive():
            owned = {DIRECTORY_USER: set[str](), DIRECTORY_GROUP: set[str]()}
            async for record in self.all(SCIM_GROUP):
                owned[DIRECTORY_GROUP].add(record.data["directory_id"])
                await self.access.write_group(record.data["directory_id"], record.data["resource"]["displayName"], get_issuer(record))
            async for record in self.all(SCIM_USER):
                owned[DIRECTORY_USER].add(self.access.user_id(record.data["subject"]))
                await self.access.write(record)
            for type, ids in owned.items():
                async for record in self.all(type):
                    if record.id not in ids and not record.data.get("is_deactivated"):
                        await self.broker.delete(type, record.id)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Hold the lease of all changes.  Raises ScimError 503 if it is not available in time."""
        async with self._one_at_a_time:
            until = self.clock() + LEASE_TIMEOUT_SECONDS
            while (lease := await self.broker.acquire("scim", LEASE_SECONDS)) is None:
                if self.clock() > until:
                    raise ScimError(503, "another change is in progress; try again in a moment")
                await asyncio.sleep(0.05)
            try:
                yield
            finally:
                await self.broker.release(lease)

    @asynccontextmanager
    async def get_for_update(self, type: str, id: str, if_match: str) -> AsyncIterator[Record]:
        """Hold the lease and return the current resource.  Raises ScimError 412 if it does not match If-Match."""
        async with self.exclusive():
            record = await self.find(type, id)
            if if_match not in ("", "*", f'W/"{record.version}"', f'"{record.version}"'):
                raise ScimError(412, "the resource was changed concurrently")
            yield record


class ScimUsers:
    """Users of one provider: create, replace, patch and delete."""

    type, noun, show = SCIM_USER, "user", staticmethod(render_user)

    def __init__(self, store: ScimDirectory):
        self._store, self.provider = store, store.provider
        self._broker, self._index, self._access = store.broker, store.index, store.access

    async def create(self, document: Mapping[str, Any]) -> ScimChange:
        user = parse_user(document)
        async with self._store.exclusive():
            return await self._write(None, secrets.token_urlsafe(16), user)

    async def replace(self, id: str, document: Mapping[str, Any], if_match: str = "") -> ScimChange:
        async with self._store.get_for_update(SCIM_USER, id, if_match) as old:
            return await self._write(old, id, parse_user(document, was_active=is_active(old)))

    async def patch(self, id: str, document: Mapping[str, Any], if_match: str = "") -> ScimChange:
        async with self._store.get_for_update(SCIM_USER, id, if_match) as old:
            changed = apply_patch(get_attributes(old), document)
            user = parse_user(changed, was_active=is_active(old))
            return await self._write(old, id, user, active_unset=not has_active(changed))

    async def delete(self, id: str, if_match: str = "") -> Record:
        async with self._store.get_for_update(SCIM_USER, id, if_match) as old:
            for group_id in old.data["groups"]:
                group = await self._broker.get(SCIM_GROUP, group_id)
                if group is not None:
                    members = [member for member in group.data["members"] if member != id]
                    await self._broker.put(SCIM_GROUP, group_id, {**group.data, "members": members})
            await self._access.remove_user(old.data["subject"], deactivate=True)
            await self._index.remove(SCIM_USER, id, self._user_keys(old.data["resource"], old.data["subject"]).items())
            await self._broker.delete(SCIM_USER, id)
            return old

    async def _write(self, old: Record | None, id: str, user: Mapping[str, Any], *, active_unset: bool = False) -> ScimChange:
        subject = self._subject(user)
        groups, created = (old.data["groups"], old.data["created"]) if old is not None else ({}, self._store.clock())
        keys = self._user_keys(user, subject)
        await self._index.check_unique(SCIM_USER, id, keys)
        await self._index.put(SCIM_USER, id, keys)
        if old is not None and old.data["subject"] != subject:
            # First, so that a repeated request does it again after an interruption.  A rename does not reactivate a user.
            await self._access.remove_user(old.data["subject"], deactivate=not (user["active"] and is_active(old)))
        # Before the sessions end, so that a concurrent sign-in is either among them or finds this record.
        data: dict[str, Any] = {"resource": dict(user), "groups": dict(groups), "subject": subject, "created": created}
        data["issuer"] = self._access.issuer
        if old is not None and (group_issuers := self._access.groups_from_other_issuers(old)):
            data["group_issuers"] = group_issuers
        if active_unset:
            data["active_unset"] = True
        record = await self._broker.put(SCIM_USER, id, data)
        if old is not None:
            before = self._user_keys(old.data["resource"], old.data["subject"])
            await self._index.remove(SCIM_USER, id, _changed(before, keys))
        await self._access.write(record)
        if not user["active"]:
            await self._access.end_sessions(subject)
        return ScimChange(old, record)

    def _subject(self, user: Mapping[str, Any]) -> str:
        """Return the user's `sub` in the provider's ID token."""
        subject = user.get(self.provider.scim_user_id)
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_TEXT_LENGTH:
            raise invalid(f"{self.provider.scim_user_id} is required: it links the user to sessions (setting scim_user_id)")
        return subject

    def _user_keys(self, user: Mapping[str, Any], subject: str) -> Keys:
        named = {"username": user["userName"], "externalid": user.get("externalId", ""), "displayname": user.get("displayName", "")}
        return {"subject": subject, **{name: value for name, value in named.items() if value}}


class ScimGroups:
    """Groups of one provider: create, replace, patch and delete."""

    type, noun, show = SCIM_GROUP, "group", staticmethod(render_group)

    def __init__(self, store: ScimDirectory):
        self._store, self.provider = store, store.provider
        self._broker, self._index, self._access = store.broker, store.index, store.access

    async def create(self, document: Mapping[str, Any]) -> ScimChange:
        group, members = parse_group(document)
        async with self._store.exclusive():
            return await self._write(None, secrets.token_urlsafe(16), group, members)

    async def replace(self, id: str, document: Mapping[str, Any], if_match: str = "") -> ScimChange:
        group, members = parse_group(document)
        async with self._store.get_for_update(SCIM_GROUP, id, if_match) as old:
            return await self._write(old, id, group, members)

    async def patch(self, id: str, document: Mapping[str, Any], if_match: str = "") -> ScimChange:
        async with self._store.get_for_update(SCIM_GROUP, id, if_match) as old:
            # Members that another issuer pushed are not members here until this issuer pushes them.
            members = [{"value": member} for member in old.data["members"]] if self._access.is_current_issuer(old) else []
            group, ids = parse_group(apply_patch({**old.data["resource"], "members": members}, document))
            return await self._write(old, id, group, ids)

    async def delete(self, id: str, if_match: str = "") -> Record:
        async with self._store.get_for_update(SCIM_GROUP, id, if_match) as old:
            await self._set_memberships(old.data["members"], id, "")
            await self._broker.delete(DIRECTORY_GROUP, old.data["directory_id"])
            await self._index.remove(SCIM_GROUP, id, _group_keys(old.data["resource"], old.data["directory_id"]).items())
            await self._broker.delete(SCIM_GROUP, id)
            return old

    async def _write(self, old: Record | None, id: str, group: Mapping[str, Any], named: Iterable[str]) -> ScimChange:
        directory_id = str(group.get(self.provider.scim_group_id, "")) or id
        keys = _group_keys(group, directory_id)
        await self._index.check_unique(SCIM_GROUP, id, keys)
        await self._index.put(SCIM_GROUP, id, keys)
        await self._access.write_group(directory_id, group["displayName"], self._access.issuer)
        before = set(old.data["members"]) if old is not None else set[str]()
        # Existing members are not written again unless the group's id changes, because groups are large and changes are small.
        is_same = old is not None and old.data["directory_id"] == directory_id and self._access.is_current_issuer(old)
        settled = before if is_same else set[str]()
        joined = await self._set_memberships((member for member in named if member not in settled), id, directory_id)
        members = [member for member in named if member in settled or member in joined]
        await self._set_memberships(before - set(members), id, "")
        if old is not None:
            await self._index.remove(SCIM_GROUP, id, _changed(_group_keys(old.data["resource"], old.data["directory_id"]), keys))
            if old.data["directory_id"] != directory_id:
                await self._broker.delete(DIRECTORY_GROUP, old.data["directory_id"])
        created = old.data["created"] if old is not None else self._store.clock()
        data = {"resource": dict(group), "members": members, "directory_id": directory_id, "created": created}
        # Last, so that a repeated request completes an interrupted change.
        return ScimChange(old, await self._broker.put(SCIM_GROUP, id, {**data, "issuer": self._access.issuer}))

    async def _set_memberships(self, user_ids: Iterable[str], group_id: str, directory_id: str) -> set[str]:
        """Set the membership of these users, and return the ids that exist."""
        ids, known = list(user_ids), set[str]()
        for start in range(0, len(ids), UPDATE_CONCURRENCY):
            some = ids[start : start + UPDATE_CONCURRENCY]
            found = await asyncio.gather(*(self._set_membership(id, group_id, directory_id) for id in some))
            known.update(id for id, is_user in zip(some, found, strict=True) if is_user)
        if directory_id and len(known) < len(ids):
            log.warning("SCIM group has unknown members", group_id=group_id, members=len(ids) - len(known))
        return known

    async def _set_membership(self, user_id: str, group_id: str, directory_id: str) -> bool:
        """Add a user to the group under this directory id, or remove the user ("").  Return False if the user does not exist."""
        user = await self._broker.get(SCIM_USER, user_id)
        if user is None:
            return False
        groups = {id: name for id, name in user.data["groups"].items() if id != group_id}
        group_issuers = {id: issuer for id, issuer in user.data.get("group_issuers", {}).items() if id != group_id}
        if directory_id:
            groups[group_id] = directory_id
            if not self._access.is_current_issuer(user):
                group_issuers[group_id] = self._access.issuer
        if (groups, group_issuers) != (user.data["groups"], user.data.get("group_issuers", {})):
            data = {name: value for name, value in user.data.items() if name != "group_issuers"}
            user = await self._broker.put(
                SCIM_USER, user_id, {**data, "groups": groups, **({"group_issuers": group_issuers} if group_issuers else {})}
            )
        await self._access.write(user)
        return True


def _group_keys(group: Mapping[str, Any], directory_id: str) -> Keys:
    external = {"externalid": group["externalId"]} if group.get("externalId") else {}
    return {"directory_id": directory_id, "displayname": group["displayName"], **external}


def _changed(before: Keys, now: Keys) -> list[tuple[str, str]]:
    return [(name, value) for name, value in before.items() if now.get(name) != value]
