"""Okta's directory: groups carry the time of their last change, so only changed ones are read again."""

from dataclasses import dataclass, field
from typing import Any

from authenticate.directory.snapshot import DirectoryError, DirectoryPerson, DirectorySnapshot
from authenticate.directory.vendors.directory_api import AT_ONCE, DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, id_of, text_of
from authenticate.directory.vendors.vendor import Vendor, link_next, segment
from authenticate.directory.vendors.vendor_credentials import FixedHeaders
from databroker.records import DirectoryGroup
from foundation.tasks import gather_limited

PAGE = {"limit": 200}
MISSING = 404
ALL_ANEW_SECONDS = 24 * 3600.0


@dataclass(slots=True)
class KnownMembers:
    """Group id -> when its members last changed, as Okta writes it, and who they were."""

    since: float
    members: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)


class OktaDirectory(Vendor):
    """Groups and their members, by the Core API."""

    kind = "okta"
    _known: KnownMembers | None = None

    def proof(self) -> FixedHeaders:
        return FixedHeaders({"Authorization": f"SSWS {self.account.reveal('api_key')}"})

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        now = self.clock()
        before = self._known if self._known is not None and now - self._known.since < ALL_ANEW_SECONDS else KnownMembers(now)
        known, builder = KnownMembers(before.since), DirectoryBuilder(may_be_unlisted=True)
        changed: dict[str, str] = {}
        async for group in _listed(api, "/api/v1/groups"):
            id, stamp = id_of(group), text_of(group, "lastMembershipUpdated")
            builder.group(id, name=_profile(group, "name"))
            if stamp and id in before.members and before.members[id][0] == stamp:
                known.members[id] = before.members[id]
            else:
                changed[id] = stamp

        async def read_members(group: str) -> None:
            members = [id_of(user) async for user in _listed(api, f"/api/v1/groups/{segment(group)}/users", may_be_missing=True)]
            known.members[group] = changed[group], tuple(members)

        await gather_limited(changed, read_members, AT_ONCE)
        async for user in _listed(api, "/api/v1/users"):
            builder.user(id_of(user), email=_profile(user, "email"), name=_name(user))
        for id, (_, members) in known.members.items():
            builder.members(id, members)
        snapshot = await self.assembled(builder)
        self._known = known
        return snapshot

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryPerson | None:
        path = f"/api/v1/users/{segment(subject)}"
        if (user := await api.found(path)) is None:
            return None
        groups = {id_of(group): DirectoryGroup(id_of(group), _profile(group, "name")) async for group in _listed(api, f"{path}/groups")}
        return self.person(subject, _profile(user, "email"), _name(user), groups)


async def _listed(api: DirectoryApi, path: str, *, may_be_missing: bool = False) -> Any:
    """The members of a group; none where it was deleted since it was listed."""
    async for answer, page in api.pages(path, PAGE, link_next, accept=(200, MISSING) if may_be_missing else (200,)):
        for entry in entries(page) if answer.status != MISSING else ():
            yield entry


def _profile(entry: Any, key: str) -> str:
    profile = entry.get("profile")
    if not isinstance(profile, dict):
        raise DirectoryError("an entry of the directory has no profile")
    return text_of(profile, key)


def _name(user: Any) -> str:
    return f"{_profile(user, 'firstName')} {_profile(user, 'lastName')}".strip()
