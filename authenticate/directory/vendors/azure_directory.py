"""Microsoft Entra ID's directory: Microsoft Graph's delta queries, everything once and then the changes; groups may be nested."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from authenticate.directory.snapshot import DirectoryError, DirectoryPerson, DirectorySnapshot
from authenticate.directory.vendors.directory_api import DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, id_of, text_of
from authenticate.directory.vendors.vendor import Vendor, segment
from authenticate.directory.vendors.vendor_credentials import FetchedToken
from authenticate.provider.provider_http import ProviderResponse
from config.issuers import TENANT, is_tenant
from databroker.records import DirectoryGroup

# Where people sign in -> where Microsoft Graph of the same cloud answers.
GRAPHS = {
    "login.microsoftonline.us": "https://graph.microsoft.us",
    "login.partner.microsoftonline.cn": "https://microsoftgraph.chinacloudapi.cn",
    "login.chinacloudapi.cn": "https://microsoftgraph.chinacloudapi.cn",
}
GROUPS = "/v1.0/groups/delta", {"$select": "displayName,members"}
USERS = "/v1.0/users/delta", {"$select": "displayName,mail,userPrincipalName"}
GONE = 410
ALL_ANEW_SECONDS = 24 * 3600.0  # what a delta might have missed is wrong for no longer


@dataclass(slots=True)
class DeltaState:
    """Entries told until now, and the links to go on from.  The links are the directory's word, so they are checked like any next page."""

    since: float
    users: dict[str, tuple[str, str]] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)  # a set of them takes five times the room
    ids: dict[str, str] = field(default_factory=dict)  # one text for each member, whom many groups name
    groups_link: str = ""
    users_link: str = ""

    def copy(self) -> "DeltaState":
        return DeltaState(self.since, dict(self.users), dict(self.groups), dict(self.members), self.ids, self.groups_link, self.users_link)


class DeltaLinkExpired(Exception):
    """A delta link that the directory no longer knows: everything is read anew."""


class AzureDirectory(Vendor):
    """Users and groups of one tenant, by Microsoft Graph."""

    kind = "azure"
    _known: DeltaState | None = None

    def derived_base(self) -> str:
        return GRAPHS.get(urlsplit(self.provider_url).hostname or "", "https://graph.microsoft.com")

    def issuer_of_people(self) -> str:
        """The tenant's own issuer, also where people of all tenants may sign in."""
        issuer, tenant = super().issuer_of_people(), self.account.reveal("directory_id").lower()
        return issuer.replace(TENANT, tenant) if is_tenant(tenant) else issuer

    def proof(self) -> FetchedToken:
        return FetchedToken(self._token, self.clock)

    async def _token(self, api: DirectoryApi) -> ProviderResponse:
        form = {
            "grant_type": "client_credentials",
            "client_id": self.account.reveal("client_id"),
            "client_secret": self.account.reveal("client_secret"),
            "scope": f"{'/'.join(self.base.split('/')[:3])}/.default",
        }
        return await api.token(f"{self.site}/{segment(self.account.reveal('directory_id'))}/oauth2/v2.0/token", form)

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        now = self.clock()
        known = self._known.copy() if self._known is not None and now - self._known.since < ALL_ANEW_SECONDS else DeltaState(now)
        try:
            await _follow(api, known)
        except DeltaLinkExpired:
            known = DeltaState(now)
            await _follow(api, known)
        snapshot = await self.assembled(await asyncio.to_thread(_company, known))
        self._known = known  # only what was read to its end
        return snapshot

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryPerson | None:
        path = f"/v1.0/users/{segment(subject)}"
        if (user := await api.found(path, USERS[1])) is None:
            return None
        groups, params = {}, {"$select": "id,displayName", "$top": "999"}
        async for group in api.listed(f"{path}/transitiveMemberOf/microsoft.graph.group", params, _next, "value"):
            groups[id_of(group)] = DirectoryGroup(id_of(group), text_of(group, "displayName"))
        return self.person(subject, _email(user), text_of(user, "displayName"), groups)


async def _follow(api: DirectoryApi, known: DeltaState) -> None:
    known.groups_link = await _read(api, GROUPS, known.groups_link, lambda entry: _take_group(known, entry))
    known.users_link = await _read(api, USERS, known.users_link, lambda entry: _take_user(known, entry))


async def _read(api: DirectoryApi, listing: tuple[str, dict[str, str]], link: str, take: Any) -> str:
    """Every entry of a listing from `link` on; returns the delta link for the next time."""
    address, params = (link, None) if link else listing
    last: Any = {}
    async for answer, last in api.pages(address, params, _next, accept=(200, GONE) if link else (200,)):
        if answer.status == GONE:
            raise DeltaLinkExpired
        for entry in entries(last, "value"):
            take(entry)
    following = last.get("@odata.deltaLink") if isinstance(last, dict) else None
    if not isinstance(following, str) or not following:
        raise DirectoryError("Microsoft Graph ended a list without a deltaLink, so it may be incomplete")
    return following


def _next(answer: ProviderResponse, page: Any) -> str:
    link = page.get("@odata.nextLink") if isinstance(page, dict) and answer.status != GONE else None
    return link if isinstance(link, str) else ""


def _take_group(known: DeltaState, entry: Any) -> None:
    id = id_of(entry)
    if "@removed" in entry:
        known.groups.pop(id, None)
        known.members.pop(id, None)
        return
    # A page says what has changed: a name that it leaves out is as it was.
    known.groups[id] = text_of(entry, "displayName") if "displayName" in entry else known.groups.get(id, "")
    changes = entry.get("members@delta")
    if not changes:
        return
    # A group with many members comes in several pieces.
    members = set(known.members.get(id, ()))
    for member in entries(changes):
        member_id = id_of(member)
        (members.discard if "@removed" in member else members.add)(known.ids.setdefault(member_id, member_id))
    known.members[id] = tuple(members)


def _take_user(known: DeltaState, entry: Any) -> None:
    id = id_of(entry)
    if "@removed" in entry:
        known.users.pop(id, None)
        return
    email, name = known.users.get(id, ("", ""))
    if "mail" in entry or "userPrincipalName" in entry:
        email = _email(entry) or email
    known.users[id] = email, text_of(entry, "displayName") or name


def _email(user: Any) -> str:
    """The address; of a guest the one in the user name, `ann_corp.example#EXT#@tenant.example`."""
    if mail := text_of(user, "mail"):
        return mail
    name, is_guest, _ = text_of(user, "userPrincipalName").partition("#EXT#")
    return "@".join(name.rsplit("_", 1)) if is_guest else name


def _company(known: DeltaState) -> DirectoryBuilder:
    builder = DirectoryBuilder()
    for id, (email, name) in known.users.items():
        builder.user(id, email=email, name=name)
    for id, name in known.groups.items():
        builder.group(id, name=name)
    for group, members in known.members.items():
        builder.members(group, (member for member in members if member in known.users))
        for member in members:
            if member in known.groups:
                builder.nested(member, group)
    return builder
