"""Google Workspace's directory: the Admin SDK, read by a service account in an administrator's name."""

from typing import Any
from urllib.parse import urlencode

import jwt

from authenticate.directory.snapshot import DirectoryError, DirectoryPerson, DirectorySnapshot
from authenticate.directory.vendors import rate_limits
from authenticate.directory.vendors.directory_api import AT_ONCE, DirectoryApi, NextPage, Params
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, id_of, text_of
from authenticate.directory.vendors.vendor import Vendor, segment
from authenticate.directory.vendors.vendor_credentials import FetchedToken
from authenticate.provider.provider_http import ProviderResponse
from databroker.records import DirectoryGroup
from foundation.errors import ProviderError
from foundation.tasks import gather_limited

ROOT = "/admin/directory/v1"
SCOPES = " ".join(f"https://www.googleapis.com/auth/admin.directory.{kind}.readonly" for kind in ("user", "group"))
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_SECONDS = 300
# Google says "too many" with 403, too.
LIMITS = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded"})
MOST_GROUPS_OF_ONE = 2_000


class GoogleDirectory(Vendor):
    """Users, groups and members, by the Directory API."""

    kind = "google"
    default_base = "https://admin.googleapis.com"

    def proof(self) -> FetchedToken:
        return FetchedToken(self._token, self.clock)

    async def _token(self, api: DirectoryApi) -> ProviderResponse:
        """An access token for our own assertion that acts as `impersonate_user` (RFC 7523)."""
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
        builder = DirectoryBuilder(may_be_unlisted=True)
        everybody: list[str] = []
        with_members: list[str] = []
        async for user in _listed(api, f"{ROOT}/users", {"customer": "my_customer", "maxResults": 500, "projection": "basic"}, "users"):
            builder.user(id_of(user), email=text_of(user, "primaryEmail"), name=_name(user))
            everybody.append(id_of(user))
        async for group in _listed(api, f"{ROOT}/groups", {"customer": "my_customer", "maxResults": 200}, "groups"):
            builder.group(id_of(group), name=text_of(group, "email"), email=text_of(group, "email"))
            if group.get("directMembersCount") not in ("0", 0):
                with_members.append(id_of(group))

        async def read_members(group: str) -> None:
            async for member in _listed(api, f"{ROOT}/groups/{segment(group)}/members", {"maxResults": 200}, "members"):
                _add(builder, group, member, everybody)

        await gather_limited(with_members, read_members, AT_ONCE)
        return await self.assembled(builder)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryPerson | None:
        answer = await api.get(f"{ROOT}/users/{segment(subject)}", {"projection": "basic"}, accept=(200, 403, 404))
        # 403: somebody of another domain, who can be in our groups all the same.
        user = answer.json() if answer.status == 200 else {}
        if answer.status == 404 or (answer.status == 403 and self.is_limited(answer)):
            return None
        groups: dict[str, DirectoryGroup] = {}
        pending = [subject]
        while pending:
            params: Params = {"userKey": pending.pop(), "maxResults": 200}
            async for group in _listed(api, f"{ROOT}/groups", params, "groups"):
                id = id_of(group)
                if id not in groups:
                    groups[id] = DirectoryGroup(id, text_of(group, "email"), text_of(group, "email"))
                    pending.append(id)
            if len(groups) > MOST_GROUPS_OF_ONE:
                raise DirectoryError(f"one user is in more than {MOST_GROUPS_OF_ONE} groups")
        return self.person(subject, text_of(user, "primaryEmail"), _name(user), groups)


def _add(builder: DirectoryBuilder, group: str, member: Any, everybody: list[str]) -> None:
    id = id_of(member)
    kind = member.get("type")
    if kind == "GROUP":
        builder.nested(id, group)
    elif kind == "CUSTOMER":
        builder.members(group, everybody)
    elif kind == "USER":
        builder.user(id, email=text_of(member, "email"))
        builder.members(group, (id,))
    elif not isinstance(kind, str):
        raise DirectoryError("a member of a group has no type")


async def _listed(api: DirectoryApi, path: str, params: Params, key: str) -> Any:
    async for _, page in api.pages(path, params, _by_token(path, params)):
        for entry in entries(page, key) if not _is_empty(page, key) else ():
            yield entry


def _is_empty(page: Any, key: str) -> bool:
    """An empty page: Google leaves the list out and still says what the page is about."""
    return isinstance(page, dict) and key not in page and page.get("kind") == f"admin#directory#{key}"


def _by_token(path: str, params: Params) -> NextPage:
    def next_page(answer: ProviderResponse, page: Any) -> str:
        token = page.get("nextPageToken") if isinstance(page, dict) else None
        return f"{path}?{urlencode({**params, 'pageToken': token})}" if token else ""

    return next_page


def _name(user: Any) -> str:
    name = user.get("name")
    return text_of(name, "fullName") if isinstance(name, dict) else ""


def _reason(answer: ProviderResponse) -> str:
    try:
        return str(answer.json()["error"]["errors"][0]["reason"])
    except (ProviderError, KeyError, IndexError, TypeError):
        return ""
