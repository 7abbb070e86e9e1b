"""GitLab's directory: a group's members are members of the groups below it, too; a group is named by its full path, which is unique."""

from collections.abc import AsyncIterator
from typing import Any

from authenticate.directory.snapshot import DirectoryPerson, DirectorySnapshot
from authenticate.directory.vendors.directory_api import AT_ONCE, DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, id_of, text_of
from authenticate.directory.vendors.vendor import Vendor, link_next, segment
from authenticate.directory.vendors.vendor_credentials import FixedHeaders
from databroker.records import DirectoryGroup
from foundation.tasks import gather_limited

PAGE = {"per_page": 100}
GUEST = 10  # the least that a member is; groups that one merely sees are left out


class GitLabDirectory(Vendor):
    """Groups and their members, by the REST API."""

    kind = "gitlab"

    def proof(self) -> FixedHeaders:
        return FixedHeaders({"PRIVATE-TOKEN": self.account.reveal("private_token")})

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        builder = DirectoryBuilder(lists_everybody=False)
        groups: list[str] = []
        async for group in _listed(api, "/api/v4/groups"):
            groups.append(id_of(group))
            builder.group(groups[-1], name=_name(group))

        async def read_members(group: str) -> None:
            async for member in _listed(api, f"/api/v4/groups/{segment(group)}/members/all"):
                if member.get("state", "active") == "active":
                    builder.user(id_of(member), email=_email(member), name=text_of(member, "name", "username"))
                    builder.members(group, (id_of(member),))

        await gather_limited(groups, read_members, AT_ONCE)
        return await self.assembled(builder)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryPerson | None:
        """Groups that the person's own token tells and ours tells, too, because anybody can make more of any name."""
        if (user := await api.found(f"/api/v4/users/{segment(subject)}")) is None:
            return None
        known = {id_of(group): _name(group) async for group in _listed(api, "/api/v4/groups")}
        as_person = api.proven_by(FixedHeaders({"Authorization": f"Bearer {access_token}"}))
        theirs = {id_of(group) async for group in _listed(as_person, "/api/v4/groups", min_access_level=GUEST)}
        groups = {id: DirectoryGroup(id, known[id]) for id in theirs & known.keys()}
        return self.person(subject, _email(user), text_of(user, "name", "username"), groups)


def _listed(api: DirectoryApi, path: str, **params: int) -> AsyncIterator[Any]:
    return api.listed(path, {**PAGE, **params}, link_next)


def _name(group: Any) -> str:
    return text_of(group, "full_path", "name")


def _email(person: Any) -> str:
    return text_of(person, "email", "public_email")
