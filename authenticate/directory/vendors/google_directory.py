"""Google Workspace's directory: the Admin SDK, read by a service account that impersonates an administrator."""

from typing import Any
from urllib.parse import urlencode

import jwt

from authenticate.directory.snapshot import DirectoryError, DirectoryMember, DirectorySnapshot
from authenticate.directory.vendors import rate_limits
from authenticate.directory.vendors.directory_api import CONCURRENCY, DirectoryApi, NextPage, Params
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, parse_id, parse_text
from authenticate.directory.vendors.vendor import Vendor, segment
from authenticate.directory.vendors.vendor_credentials import AccessTokenCredentials
from authenticate.provider.provider_http import ProviderResponse
from databroker.records import DirectoryGroup
from foundation.errors import ProviderError
from foundation.tasks import gather_limited

ROOT = "/admin/directory/v1"
SCOPES = " ".join(f"https://www.googleapis.com/auth/admin.directory.{kind}.readonly" for kind in ("user", "group"))
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_SECONDS = 300
# Reasons with which Google's 403 means a rate limit.
LIMITS = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded"})
MAX_GROUPS_PER_USER = 2_000


class GoogleDirectory(Vendor):
    """Users, groups and members, from the Directory API."""

    kind = "google"
    default_api_base = "https://admin.googleapis.com"

    def build_credentials(self) -> AccessTokenCredentials:
        return AccessTokenCredentials(self._token, self.clock)

    async def _token(self, api: DirectoryApi) -> ProviderResponse:
        """Request an access token with a signed assertion that acts as `impersonate_user` (RFC 7523)."""
        key, now = self.account.key, int(self.clock())
        if key is None:
            raise DirectoryError("no service account configured")
        url = str(key.token_url)
        claims = {"iss": key.email, "sub": self.account.subject, "aud": url, "scope": SCOPES, "iat": now, "exp": now + ASSERTION_SECONDS}
        assertion = jwt.encode(claims, key.private_key, "RS256", headers={"kid": key.key_id})
        return await api.token(url, {"grant_type": JWT_BEARER, "assertion": assertion})

    def is_limited(self, answer: ProviderResponse) -> bool:
        return rate_limits.is_limited(answer) or (answer.status == 403 and _reason(answer) in LIMITS)

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        builder = DirectoryBuilder(allow_unlisted_members=True)
        user_ids: list[str] = []
        with_members: list[str] = []
        async for user in _listed(api, f"{ROOT}/users", {"customer": "my_customer", "maxResults": 500, "projection": "basic"}, "users"):
            builder.add_user(parse_id(user), email=parse_text(user, "primaryEmail"), name=_name(user))
            user_ids.append(parse_id(user))
        async for group in _listed(api, f"{ROOT}/groups", {"customer": "my_customer", "maxResults": 200}, "groups"):
            builder.add_group(parse_id(group), name=parse_text(group, "email"), email=parse_text(group, "email"))
            if group.get("directMembersCount") not in ("0", 0):
                with_members.append(parse_id(group))

        async def read_members(group: str) -> None:
            async for member in _listed(api, f"{ROOT}/groups/{segment(group)}/members", {"maxResults": 200}, "members"):
                _add(builder, group, member, user_ids)

        await gather_limited(with_members, read_members, CONCURRENCY)
        return await self.build_snapshot(builder)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryMember | None:
        answer = await api.get(f"{ROOT}/users/{segment(subject)}", {"projection": "basic"}, accept=(200, 403, 404))
        # 403: a user of another domain, who can still be a member of groups.
        user = answer.json() if answer.status == 200 else {}
        if answer.status == 404 or (answer.status == 403 and self.is_limited(answer)):
            return None
        groups: dict[str, DirectoryGroup] = {}
        pending = [subject]
        while pending:
            params: Params = {"userKey": pending.pop(), "maxResults": 200}
            async for group in _listed(api, f"{ROOT}/groups", params, "groups"):
                id = parse_id(group)
                if id not in groups:
                    groups[id] = DirectoryGroup(id, parse_text(group, "email"), parse_text(group, "email"))
                    pending.append(id)
            if len(groups) > MAX_GROUPS_PER_USER:
                raise DirectoryError(f"one user is in more than {MAX_GROUPS_PER_USER} groups")
        return self.build_member(subject, parse_text(user, "primaryEmail"), _name(user), groups)


def _add(builder: DirectoryBuilder, group: str, member: Any, user_ids: list[str]) -> None:
    id = parse_id(member)
    kind = member.get("type")
    if kind == "GROUP":
        builder.add_nested(id, group)
    elif kind == "CUSTOMER":
        builder.add_members(group, user_ids)
    elif kind == "USER":
        builder.add_user(id, email=parse_text(member, "email"))
        builder.add_members(group, (id,))
    elif not isinstance(kind, str):
        raise DirectoryError("a member of a group has no type")


async def _listed(api: DirectoryApi, path: str, params: Params, key: str) -> Any:
    async for _, page in api.iter_pages(path, params, _by_token(path, params)):
        for entry in entries(page, key) if not _is_empty(page, key) else ():
            yield entry


def _is_empty(page: Any, key: str) -> bool:
    """Return whether the page is empty: Google then omits the list but includes the kind."""
    return isinstance(page, dict) and key not in page and page.get("kind") == f"admin#directory#{key}"


def _by_token(path: str, params: Params) -> NextPage:
    def next_page(answer: ProviderResponse, page: Any) -> str:
        token = page.get("nextPageToken") if isinstance(page, dict) else None
        return f"{path}?{urlencode({**params, 'pageToken': token})}" if token else ""

    return next_page


def _name(user: Any) -> str:
    name = user.get("name")
    return parse_text(name, "fullName") if isinstance(name, dict) else ""


def _reason(answer: ProviderResponse) -> str:
    try:
        return str(answer.json()["error"]["errors"][0]["reason"])
    except (ProviderError, KeyError, IndexError, TypeError):
        return ""
