"""Microsoft Entra ID's directory, by delta queries of Microsoft Graph: a full read, then changes. Groups may be nested."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from authenticate.directory.snapshot import DirectoryError, DirectoryMember, DirectorySnapshot
from authenticate.directory.vendors.directory_api import DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, parse_id, parse_text
from authenticate.directory.vendors.vendor import Vendor, segment
from authenticate.directory.vendors.vendor_credentials import AccessTokenCredentials
from authenticate.provider.provider_http import ProviderResponse
from config.issuers import TENANT, is_tenant
from databroker.records import DirectoryGroup

# Sign-in host -> Microsoft Graph of the same cloud.
GRAPHS = {
    "login.microsoftonline.us": "https://graph.microsoft.us",
    "login.partner.microsoftonline.cn": "https://microsoftgraph.chinacloudapi.cn",
    "login.chinacloudapi.cn": "https://microsoftgraph.chinacloudapi.cn",
}
GROUPS = "/v1.0/groups/delta", {"$select": "displayName,members"}
USERS = "/v1.0/users/delta", {"$select": "displayName,mail,userPrincipalName"}
GONE = 410
FULL_SYNC_INTERVAL = 24 * 3600.0  # seconds; bounds how long a change that a delta has missed remains unknown


@dataclass(slots=True)
class DeltaState:
    """Entries read until now, and the links to continue from. The links come from the directory and are checked like any next page."""

    started_at: float
    users: dict[str, tuple[str, str]] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)  # tuples, because sets need five times the memory
    ids: dict[str, str] = field(default_factory=dict)  # one string object per member, because many groups refer to it
    groups_link: str = ""
    users_link: str = ""

    def copy(self) -> "DeltaState":
        return DeltaState(
            self.started_at, dict(self.users), dict(self.groups), dict(self.members), self.ids, self.groups_link, self.users_link
        )


class DeltaLinkExpired(Exception):
    """The directory no longer accepts a delta link, so everything is read again."""


class AzureDirectory(Vendor):
    """Users and groups of one tenant, from Microsoft Graph."""

    kind = "azure"
    _known: DeltaState | None = None

    def default_api_url(self) -> str:
        return GRAPHS.get(urlsplit(self.provider_url).hostname or "", "https://graph.microsoft.com")

    def users_issuer(self) -> str:
        """Return the tenant's issuer, also if users of all tenants can sign in."""
        issuer, tenant = super().users_issuer(), self.account.reveal("directory_id").lower()
        return issuer.replace(TENANT, tenant) if is_tenant(tenant) else issuer

    def build_credentials(self) -> AccessTokenCredentials:
        return AccessTokenCredentials(self._token, self.clock)

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
        known = self._known.copy() if self._known is not None and now - self._known.started_at < FULL_SYNC_INTERVAL else DeltaState(now)
        try:
            await _read_deltas(api, known)
        except DeltaLinkExpired:
            known = DeltaState(now)
            await _read_deltas(api, known)
        snapshot = await self.build_snapshot(await asyncio.to_thread(_to_builder, known))
        self._known = known  # only after a complete read
        return snapshot

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryMember | None:
        path = f"/v1.0/users/{segment(subject)}"
        if (user := await api.get_or_none(path, USERS[1])) is None:
            return None
        groups, params = {}, {"$select": "id,displayName", "$top": "999"}
        async for group in api.iter_entries(f"{path}/transitiveMemberOf/microsoft.graph.group", params, _next, "value"):
            groups[parse_id(group)] = DirectoryGroup(parse_id(group), parse_text(group, "displayName"))
        return self.build_member(subject, _email(user), parse_text(user, "displayName"), groups)


async def _read_deltas(api: DirectoryApi, known: DeltaState) -> None:
    known.groups_link = await _read(api, GROUPS, known.groups_link, lambda entry: _apply_group(known, entry))
    known.users_link = await _read(api, USERS, known.users_link, lambda entry: _apply_user(known, entry))


async def _read(api: DirectoryApi, listing: tuple[str, dict[str, str]], link: str, apply: Any) -> str:
    """Apply every entry of a listing from `link` on, and return the delta link for the next sync."""
    address, params = (link, None) if link else listing
    last: Any = {}
    async for answer, last in api.iter_pages(address, params, _next, accept=(200, GONE) if link else (200,)):
        if answer.status == GONE:
            raise DeltaLinkExpired
        for entry in entries(last, "value"):
            apply(entry)
    following = last.get("@odata.deltaLink") if isinstance(last, dict) else None
    if not isinstance(following, str) or not following:
        raise DirectoryError("Microsoft Graph ended a list without a deltaLink, so it may be incomplete")
    return following


def _next(answer: ProviderResponse, page: Any) -> str:
    link = page.get("@odata.nextLink") if isinstance(page, dict) and answer.status != GONE else None
    return link if isinstance(link, str) else ""


def _apply_group(known: DeltaState, entry: Any) -> None:
    id = parse_id(entry)
    if "@removed" in entry:
        known.groups.pop(id, None)
        known.members.pop(id, None)
        return
    # A page has only changed fields: a missing name is unchanged.
    known.groups[id] = parse_text(entry, "displayName") if "displayName" in entry else known.groups.get(id, "")
    changes = entry.get("members@delta")
    if not changes:
        return
    # A group with many members is split over several entries.
    members = set(known.members.get(id, ()))
    for member in entries(changes):
        member_id = parse_id(member)
        (members.discard if "@removed" in member else members.add)(known.ids.setdefault(member_id, member_id))
    known.members[id] = tuple(members)


def _apply_user(known: DeltaState, entry: Any) -> None:
    id = parse_id(entry)
    if "@removed" in entry:
        known.users.pop(id, None)
        return
    email, name = known.users.get(id, ("", ""))
    if "mail" in entry or "userPrincipalName" in entry:
        email = _email(entry) or email
    known.users[id] = email, parse_text(entry, "displayName") or name


def _email(user: Any) -> str:
    """Return the email address; for a guest the one in the user name, `ann_corp.example#EXT#@tenant.example`."""
    if mail := parse_text(user, "mail"):
        return mail
    name, is_guest, _ = parse_text(user, "userPrincipalName").partition("#EXT#")
    return "@".join(name.rsplit("_", 1)) if is_guest else name


def _to_builder(known: DeltaState) -> DirectoryBuilder:
    builder = DirectoryBuilder()
    for id, (email, name) in known.users.items():
        builder.add_user(id, email=email, name=name)
    for id, name in known.groups.items():
        builder.add_group(id, name=name)
    for group, members in known.members.items():
        builder.add_members(group, (member for member in members if member in known.users))
        for member in members:
            if member in known.groups:
                builder.add_nested(member, group)
    return builder
