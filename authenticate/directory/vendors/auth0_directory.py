"""Auth0's directory: its roles are the groups; a person without one is not listed."""

from typing import Any
from urllib.parse import urlencode

from authenticate.directory.snapshot import DirectoryError, DirectoryPerson, DirectorySnapshot
from authenticate.directory.vendors.directory_api import AT_ONCE, DirectoryApi, Params
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, id_of, text_of
from authenticate.directory.vendors.vendor import Vendor, segment
from authenticate.directory.vendors.vendor_credentials import FetchedToken
from authenticate.provider.provider_http import ProviderResponse
from databroker.records import DirectoryGroup
from foundation.tasks import gather_limited

ROOT = "/api/v2"
PAGE = 100


class Auth0Directory(Vendor):
    """Roles and their members, by the Management API."""

    kind = "auth0"

    def proof(self) -> FetchedToken:
        return FetchedToken(self._token, self.clock)

    async def _token(self, api: DirectoryApi) -> ProviderResponse:
        form = {
            "grant_type": "client_credentials",
            "client_id": self.account.reveal("client_id"),
            "client_secret": self.account.reveal("secret"),
            "audience": f"{api.base}{ROOT}/",
        }
        return await api.token(f"{api.base}/oauth/token", form)

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        builder = DirectoryBuilder(lists_everybody=False)
        roles = await _numbered(api, f"{ROOT}/roles", "roles")
        for role in roles:
            builder.group(id_of(role), name=text_of(role, "name"))

        async def read_users(role: str) -> None:
            path, params = f"{ROOT}/roles/{segment(role)}/users", {"take": PAGE}

            def following(answer: ProviderResponse, page: Any) -> str:
                at = page.get("next") if isinstance(page, dict) else None
                return f"{path}?{urlencode({**params, 'from': at})}" if at else ""

            async for _, page in api.pages(path, params, following):
                for user in entries(page, "users"):
                    builder.user(id_of(user, "user_id"), email=text_of(user, "email"), name=text_of(user, "name"))
                    builder.members(role, (id_of(user, "user_id"),))

        await gather_limited([id_of(role) for role in roles], read_users, AT_ONCE)
        return await self.assembled(builder)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryPerson | None:
        path = f"{ROOT}/users/{segment(subject)}"
        if (user := await api.found(path)) is None:
            return None
        roles = await _numbered(api, f"{path}/roles", "roles")
        groups = {id_of(role): DirectoryGroup(id_of(role), text_of(role, "name")) for role in roles}
        return self.person(subject, text_of(user, "email"), text_of(user, "name"), groups)


async def _numbered(api: DirectoryApi, path: str, key: str) -> list[Any]:
    """Every page of a listing with page numbers; DirectoryError where it has not as many entries as it says."""
    listed: list[Any] = []
    total: Any = None

    def params(page: int) -> Params:
        return {"per_page": PAGE, "page": page, "include_totals": "true"}

    def following(answer: ProviderResponse, page: Any) -> str:
        at = page["start"] // PAGE + 1
        return f"{path}?{urlencode(params(at))}" if at * PAGE < page["total"] else ""

    async for _, page in api.pages(path, params(0), following):
        listed += entries(page, key)
        total = page.get("total")
        if not isinstance(total, int) or not isinstance(page.get("start"), int):
            raise DirectoryError("a page of the directory has no position")
    if len(listed) != total:
        raise DirectoryError("a list changed while it was read")
    return listed
