"""Auth0's directory: roles are the groups. Users without a role are not listed."""

from typing import Any
from urllib.parse import urlencode

from authenticate.directory.snapshot import DirectoryError, DirectoryMember, DirectorySnapshot
from authenticate.directory.vendors.directory_api import CONCURRENCY, DirectoryApi, Params
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, parse_id, parse_text
from authenticate.directory.vendors.vendor import Vendor, segment
from authenticate.directory.vendors.vendor_credentials import AccessTokenCredentials
from authenticate.provider.provider_http import ProviderResponse
from databroker.records import DirectoryGroup
from foundation.tasks import gather_limited

ROOT = "/api/v2"
PAGE = 100


class Auth0Directory(Vendor):
    """Roles and their members, from the Management API."""

    kind = "auth0"

    def build_credentials(self) -> AccessTokenCredentials:
        return AccessTokenCredentials(self._token, self.clock)

    async def _token(self, api: DirectoryApi) -> ProviderResponse:
        form = {
            "grant_type": "client_credentials",
            "client_id": self.account.reveal("client_id"),
            "client_secret": self.account.reveal("secret"),
            "audience": f"{api.base}{ROOT}/",
        }
        return await api.token(f"{api.base}/oauth/token", form)

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        builder = DirectoryBuilder(includes_users_without_groups=False)
        roles = await _read_numbered_pages(api, f"{ROOT}/roles", "roles")
        for role in roles:
            builder.add_group(parse_id(role), name=parse_text(role, "name"))

        async def read_users(role: str) -> None:
            path, params = f"{ROOT}/roles/{segment(role)}/users", {"take": PAGE}

            def following(answer: ProviderResponse, page: Any) -> str:
                cursor = page.get("next") if isinstance(page, dict) else None
                return f"{path}?{urlencode({**params, 'from': cursor})}" if cursor else ""

            async for _, page in api.iter_pages(path, params, following):
                for user in entries(page, "users"):
                    builder.add_user(parse_id(user, "user_id"), email=parse_text(user, "email"), name=parse_text(user, "name"))
                    builder.add_members(role, (parse_id(user, "user_id"),))

        await gather_limited([parse_id(role) for role in roles], read_users, CONCURRENCY)
        return await self.build_snapshot(builder)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryMember | None:
        path = f"{ROOT}/users/{segment(subject)}"
        if (user := await api.get_or_none(path)) is None:
            return None
        roles = await _read_numbered_pages(api, f"{path}/roles", "roles")
        groups = {parse_id(role): DirectoryGroup(parse_id(role), parse_text(role, "name")) for role in roles}
        return self.build_member(subject, parse_text(user, "email"), parse_text(user, "name"), groups)


async def _read_numbered_pages(api: DirectoryApi, path: str, key: str) -> list[Any]:
    """Read every page of a numbered listing. Raises DirectoryError if the entries do not add up to the reported total."""
    listed: list[Any] = []
    total: Any = None

    def params(page: int) -> Params:
        return {"per_page": PAGE, "page": page, "include_totals": "true"}

    def following(answer: ProviderResponse, page: Any) -> str:
        number = page["start"] // PAGE + 1
        return f"{path}?{urlencode(params(number))}" if number * PAGE < page["total"] else ""

    async for _, page in api.iter_pages(path, params(0), following):
        listed += entries(page, key)
        total = page.get("total")
        if not isinstance(total, int) or not isinstance(page.get("start"), int):
            raise DirectoryError("a page of the directory has no position")
    if len(listed) != total:
        raise DirectoryError("a list changed while it was read")
    return listed
