"""GitLab's directory: members of a group are members of its subgroups as well. A group's name is its unique full path."""

from collections.abc import AsyncIterator
from typing import Any

from authenticate.directory.snapshot import DirectoryMember, DirectorySnapshot
from authenticate.directory.vendors.directory_api import CONCURRENCY, DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, parse_id, parse_text
from authenticate.directory.vendors.vendor import Vendor, link_next, segment
from authenticate.directory.vendors.vendor_credentials import StaticHeaders
from databroker.records import DirectoryGroup
from foundation.tasks import gather_limited

PAGE = {"per_page": 100}
GUEST = 10  # lowest access level of a member, which excludes groups that a user can only see


class GitLabDirectory(Vendor):
    """Groups and their members, from the REST API."""

    kind = "gitlab"

    def build_credentials(self) -> StaticHeaders:
        return StaticHeaders({"PRIVATE-TOKEN": self.account.reveal("private_token")})

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        builder = DirectoryBuilder(includes_users_without_groups=False)
        groups: list[str] = []
        async for group in _listed(api, "/api/v4/groups"):
            groups.append(parse_id(group))
            builder.add_group(groups[-1], name=_name(group))

        async def read_members(group: str) -> None:
            async for member in _listed(api, f"/api/v4/groups/{segment(group)}/members/all"):
                if member.get("state", "active") == "active":
                    builder.add_user(parse_id(member), email=_email(member), name=parse_text(member, "name", "username"))
                    builder.add_members(group, (parse_id(member),))

        await gather_limited(groups, read_members, CONCURRENCY)
        return await self.build_snapshot(builder)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryMember | None:
        """Look up one user, with the groups that both the user's token and the configured token list.

        The user's token alone is not enough, because any user can create groups with any name.
        """
        if (user := await api.get_or_none(f"/api/v4/users/{segment(subject)}")) is None:
            return None
        known = {parse_id(group): _name(group) async for group in _listed(api, "/api/v4/groups")}
        user_api = api.with_credentials(StaticHeaders({"Authorization": f"Bearer {access_token}"}))
        user_groups = {parse_id(group) async for group in _listed(user_api, "/api/v4/groups", min_access_level=GUEST)}
        groups = {id: DirectoryGroup(id, known[id]) for id in user_groups & known.keys()}
        return self.build_member(subject, _email(user), parse_text(user, "name", "username"), groups)


def _listed(api: DirectoryApi, path: str, **params: int) -> AsyncIterator[Any]:
    return api.iter_entries(path, {**PAGE, **params}, link_next)


def _name(group: Any) -> str:
    return parse_text(group, "full_path", "name")


def _email(user: Any) -> str:
    return parse_text(user, "email", "public_email")
