"""Okta's directory: groups have the time of their last change, so only changed ones are read again."""

from dataclasses import dataclass, field
from typing import Any

from authenticate.directory.snapshot import DirectoryError, DirectoryMember, DirectorySnapshot
from authenticate.directory.vendors.directory_api import CONCURRENCY, DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, parse_id, parse_text
from authenticate.directory.vendors.vendor import Vendor, link_next, segment
from authenticate.directory.vendors.vendor_credentials import StaticHeaders
from databroker.records import DirectoryGroup
from foundation.tasks import gather_limited

PAGE = {"limit": 200}
MISSING = 404
FULL_SYNC_INTERVAL = 24 * 3600.0


@dataclass(slots=True)
class MembershipCache:
    """Members of each group, with the time of their last change as Okta formats it."""

    started_at: float
    members: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)


class OktaDirectory(Vendor):
    """Groups and their members, from the Core API."""

    kind = "okta"
    _known: MembershipCache | None = None

    def build_credentials(self) -> StaticHeaders:
        return StaticHeaders({"Authorization": f"SSWS {self.account.reveal('api_key')}"})

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        now = self.clock()
        before = self._known if self._known is not None and now - self._known.started_at < FULL_SYNC_INTERVAL else MembershipCache(now)
        known, builder = MembershipCache(before.started_at), DirectoryBuilder(allow_unlisted_members=True)
        changed: dict[str, str] = {}
        async for group in _listed(api, "/api/v1/groups"):
            id, stamp = parse_id(group), parse_text(group, "lastMembershipUpdated")
            builder.add_group(id, name=_profile(group, "name"))
            if stamp and id in before.members and before.members[id][0] == stamp:
                known.members[id] = before.members[id]
            else:
                changed[id] = stamp

        async def read_members(group: str) -> None:
            members = [parse_id(user) async for user in _listed(api, f"/api/v1/groups/{segment(group)}/users", may_be_missing=True)]
            known.members[group] = changed[group], tuple(members)

        await gather_limited(changed, read_members, CONCURRENCY)
        async for user in _listed(api, "/api/v1/users"):
            builder.add_user(parse_id(user), email=_profile(user, "email"), name=_name(user))
        for id, (_, members) in known.members.items():
            builder.add_members(id, members)
        snapshot = await self.build_snapshot(builder)
        self._known = known
        return snapshot

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryMember | None:
        path = f"/api/v1/users/{segment(subject)}"
        if (user := await api.get_or_none(path)) is None:
            return None
        groups = {
            parse_id(group): DirectoryGroup(parse_id(group), _profile(group, "name")) async for group in _listed(api, f"{path}/groups")
        }
        return self.build_member(subject, _profile(user, "email"), _name(user), groups)


async def _listed(api: DirectoryApi, path: str, *, may_be_missing: bool = False) -> Any:
    """Yield the entries of a listing. With `may_be_missing`, a group deleted since it was listed has none."""
    async for answer, page in api.iter_pages(path, PAGE, link_next, accept=(200, MISSING) if may_be_missing else (200,)):
        for entry in entries(page) if answer.status != MISSING else ():
            yield entry


def _profile(entry: Any, key: str) -> str:
    profile = entry.get("profile")
    if not isinstance(profile, dict):
        raise DirectoryError("an entry of the directory has no profile")
    return parse_text(profile, key)


def _name(user: Any) -> str:
    return f"{_profile(user, 'firstName')} {_profile(user, 'lastName')}".strip()
