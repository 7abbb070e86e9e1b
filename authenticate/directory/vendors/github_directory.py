"""GitHub's directory, public or self-hosted: the teams of every organisation that the configured account belongs to."""

import json
from collections.abc import AsyncIterator
from typing import Any

from authenticate.directory.snapshot import DirectoryError, DirectoryMember, DirectorySnapshot
from authenticate.directory.vendors.directory_api import CONCURRENCY, DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, parse_id, parse_text
from authenticate.directory.vendors.vendor import Vendor, link_next, segment
from authenticate.directory.vendors.vendor_credentials import StaticHeaders
from authenticate.provider.kinds.github_provider import api_url
from databroker.records import DirectoryGroup
from foundation.tasks import gather_limited

PAGE = {"per_page": 100}
# A profile needs one request per user, and the limit is 5,000 requests an hour, so each sync fetches only some of the missing profiles.
PROFILES_PER_RUN = 200
MAX_PAGES_PER_USER = 100
# A team includes the members of its child teams, so a user's teams include the ancestors.
TEAMS_QUERY = """
query($organisation: String!, $login: String!, $after: String) {
  organization(login: $organisation) {
    teams(first: 100, userLogins: [$login], after: $after) {
      nodes { databaseId slug ancestors(first: 100) { nodes { databaseId slug } } }
      pageInfo { hasNextPage endCursor }
    }
  }
}
"""


class GitHubDirectory(Vendor):
    """Teams, their members and profiles, from the REST API; the teams of one user from GraphQL."""

    kind = "github"

    def __init__(self, *arguments: Any, **more: Any):
        super().__init__(*arguments, **more)
        self._profiles: dict[str, tuple[str, str]] = {}  # login -> e-mail, name

    def default_api_url(self) -> str:
        return api_url(self.provider_url.rstrip("/"))

    def build_credentials(self) -> StaticHeaders:
        # The form in GitHub's documentation. The token identifies its account.
        token = self.account.reveal("personal_access_token")
        return StaticHeaders({"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"})

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        builder = DirectoryBuilder(includes_users_without_groups=False)
        teams: list[tuple[str, str, str]] = []
        async for organisation in _listed(api, "/user/orgs"):
            login = parse_id(organisation, "login")
            async for team in _listed(api, f"/orgs/{segment(login)}/teams"):
                teams.append((login, parse_id(team, "slug"), parse_id(team)))
                builder.add_group(parse_id(team), name=parse_id(team, "slug"))

        async def read_members(team: tuple[str, str, str]) -> None:
            organisation, slug, id = team
            async for member in _listed(api, f"/orgs/{segment(organisation)}/teams/{segment(slug)}/members"):
                builder.add_user(parse_id(member, "login"))
                builder.add_members(id, (parse_id(member, "login"),))

        await gather_limited(teams, read_members, CONCURRENCY)
        await self._fetch_profiles(api, builder)
        return await self.build_snapshot(builder)

    async def _fetch_profiles(self, api: DirectoryApi, builder: DirectoryBuilder) -> None:
        async def fetch_profile(login: str) -> None:
            found = await api.get_or_none(f"/users/{segment(login)}")
            user = _require_login(found, login) if found is not None else {}
            self._profiles[login] = parse_text(user, "email"), parse_text(user, "name")

        logins = list(builder.user_ids)
        await gather_limited([login for login in logins if login not in self._profiles][:PROFILES_PER_RUN], fetch_profile, CONCURRENCY)
        for login in logins:
            email, name = self._profiles.get(login, ("", ""))
            builder.add_user(login, email=email, name=name)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryMember | None:
        if (found := await api.get_or_none(f"/users/{segment(subject)}")) is None:
            return None
        user = _require_login(found, subject)
        groups: dict[str, DirectoryGroup] = {}
        async for organisation in _listed(api, "/user/orgs"):
            await self._read_teams(api, parse_id(organisation, "login"), subject, groups)
        return self.build_member(subject, parse_text(user, "email"), parse_text(user, "name"), groups)

    async def _read_teams(self, api: DirectoryApi, organisation: str, login: str, groups: dict[str, DirectoryGroup]) -> None:
        after = None
        for _ in range(MAX_PAGES_PER_USER):
            query = {"query": TEAMS_QUERY, "variables": {"organisation": organisation, "login": login, "after": after}}
            teams = _teams_in((await api.post(_graphql(api.base), json.dumps(query).encode())).json())
            for team in entries(teams, "nodes"):
                for each in (team, *entries(team.get("ancestors"), "nodes")):
                    id = parse_id(each, "databaseId")
                    groups[id] = DirectoryGroup(id, parse_id(each, "slug"))
            page = teams.get("pageInfo")
            if not isinstance(page, dict) or not page.get("hasNextPage"):
                return
            after = page.get("endCursor")
        raise DirectoryError(f"one user is in more than {MAX_PAGES_PER_USER * 100} teams")


def _require_login(user: dict[str, Any], login: str) -> dict[str, Any]:
    if parse_id(user, "login").lower() != login.lower():
        raise DirectoryError("GitHub returned another user than the requested one")
    return user


def _graphql(base: str) -> str:
    """Return the GraphQL endpoint next to a REST API: `/graphql`, or `/api/graphql` on a self-hosted server."""
    return f"{base.removesuffix('/v3')}/graphql"


def _teams_in(document: Any) -> dict[str, Any]:
    try:
        teams = document["data"]["organization"]["teams"]
    except (KeyError, TypeError):
        teams = None
    if not isinstance(teams, dict) or document.get("errors"):
        raise DirectoryError("GitHub did not return the teams of a user")
    return teams


def _listed(api: DirectoryApi, path: str) -> AsyncIterator[Any]:
    return api.iter_entries(path, PAGE, link_next)
