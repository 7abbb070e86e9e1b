"""OneLogin's directory: each user is in at most one group."""

from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from authenticate.directory.snapshot import DirectoryMember, DirectorySnapshot
from authenticate.directory.vendors.directory_api import DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, parse_id, parse_text
from authenticate.directory.vendors.vendor import Vendor, segment
from authenticate.directory.vendors.vendor_credentials import AccessTokenCredentials
from authenticate.provider.provider_http import ProviderResponse
from databroker.records import DirectoryGroup

PAGE = {"limit": 50}
SHARED_HOSTS = {
    "openid-connect.onelogin.com": "https://api.us.onelogin.com",
    "openid-connect-eu.onelogin.com": "https://api.eu.onelogin.com",
}


class OneLoginDirectory(Vendor):
    """Users, each with one group."""

    kind = "onelogin"

    def default_api_url(self) -> str:
        return SHARED_HOSTS.get(urlsplit(self.provider_url).hostname or "", self.site)

    def build_credentials(self) -> AccessTokenCredentials:
        return AccessTokenCredentials(self._token, self.clock, scheme="bearer:")

    async def _token(self, api: DirectoryApi) -> ProviderResponse:
        client = f"{self.account.reveal('client_id')}:{self.account.reveal('client_secret')}"
        headers = {"Authorization": f"Basic {b64encode(client.encode()).decode()}"}
        return await api.token(f"{api.base}/auth/oauth2/v2/token", {"grant_type": "client_credentials"}, headers)

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        builder = DirectoryBuilder()
        async for group in _listed(api, "/api/1/groups"):
            builder.add_group(parse_id(group), name=parse_text(group, "name"))
        async for user in _listed(api, "/api/1/users"):
            builder.add_user(parse_id(user), email=parse_text(user, "email"), name=_name(user))
            if user.get("group_id") is not None:
                builder.add_members(parse_id(user, "group_id"), (parse_id(user),))
        return await self.build_snapshot(builder)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryMember | None:
        answer = await api.get_or_none(f"/api/1/users/{segment(subject)}")
        if answer is None or not (found := entries(answer, "data")):
            return None
        user, groups = found[0], {}
        if user.get("group_id") is not None:
            id = parse_id(user, "group_id")
            named = entries((await api.get(f"/api/1/groups/{segment(id)}")).json(), "data")
            groups[id] = DirectoryGroup(id, parse_text(named[0], "name") if named else "")
        return self.build_member(subject, parse_text(user, "email"), _name(user), groups)


def _listed(api: DirectoryApi, path: str) -> AsyncIterator[Any]:
    return api.iter_entries(path, PAGE, _next, "data")


def _next(answer: ProviderResponse, page: Any) -> str:
    pagination = page.get("pagination") if isinstance(page, dict) else None
    link = pagination.get("next_link") if isinstance(pagination, dict) else None
    return link if isinstance(link, str) else ""


def _name(user: Any) -> str:
    return f"{parse_text(user, 'firstname')} {parse_text(user, 'lastname')}".strip()
