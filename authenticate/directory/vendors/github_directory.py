"""GitHub's directory, of its own site or a server of one's own: the teams of every organisation that our account belongs to."""

import json
from collections.abc import AsyncIterator
from typing import Any

from authenticate.directory.snapshot import DirectoryError, DirectoryPerson, DirectorySnapshot
from authenticate.directory.vendors.directory_api import AT_ONCE, DirectoryApi
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, entries, id_of, text_of
from authenticate.directory.vendors.vendor import Vendor, link_next, segment
from authenticate.directory.vendors.vendor_credentials import FixedHeaders
from authenticate.provider.kinds.github_provider import api_url
from databroker.records import DirectoryGroup
from foundation.tasks import gather_limited

PAGE = {"per_page": 100}
# Names come one request a person, of 5,000 an hour for everything: so many of those not yet known are asked for in one run.
NAMES_AT_ONCE = 200
MOST_PAGES_OF_ONE = 100
# A team's members are those of its child teams, too, so one's teams are their ancestors as well.
TEAMS_OF = """
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
    """Teams and their members, by the REST API; people's names by GraphQL."""

    kind = "github"

    def __init__(self, *arguments: Any, **more: Any):
        super().__init__(*arguments, **more)
        self._names: dict[str, tuple[str, str]] = {}  # login -> e-mail, name

    def derived_base(self) -> str:
        return api_url(self.provider_url.rstrip("/"))

    def proof(self) -> FixedHeaders:
        # As GitHub's documentation has it since passwords are no longer taken; the token says whose it is.
        token = self.account.reveal("personal_access_token")
        return FixedHeaders({"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"})

    async def fetch(self, api: DirectoryApi) -> DirectorySnapshot:
        builder = DirectoryBuilder(lists_everybody=False)
        teams: list[tuple[str, str, str]] = []
        async for organisation in _listed(api, "/user/orgs"):
            login = id_of(organisation, "login")
            async for team in _listed(api, f"/orgs/{segment(login)}/teams"):
                teams.append((login, id_of(team, "slug"), id_of(team)))
                builder.group(id_of(team), name=id_of(team, "slug"))

        async def read_members(team: tuple[str, str, str]) -> None:
            organisation, slug, id = team
            async for member in _listed(api, f"/orgs/{segment(organisation)}/teams/{segment(slug)}/members"):
                builder.user(id_of(member, "login"))
                builder.members(id, (id_of(member, "login"),))

        await gather_limited(teams, read_members, AT_ONCE)
        await self._name_people(api, builder)
        return await self.assembled(builder)

    async def _name_people(self, api: DirectoryApi, builder: DirectoryBuilder) -> None:
        async def ask(login: str) -> None:
            found = await api.found(f"/users/{segment(login)}")
            user = _same(found, login) if found is not None else {}
            self._names[login] = text_of(user, "email"), text_of(user, "name")

        logins = list(builder.user_ids)
        await gather_limited([login for login in logins if login not in self._names][:NAMES_AT_ONCE], ask, AT_ONCE)
        for login in logins:
            email, name = self._names.get(login, ("", ""))
            builder.user(login, email=email, name=name)

    async def look_up(self, api: DirectoryApi, subject: str, access_token: str) -> DirectoryPerson | None:
        if (found := await api.found(f"/users/{segment(subject)}")) is None:
            return None
        user = _same(found, subject)
        groups: dict[str, DirectoryGroup] = {}
        async for organisation in _listed(api, "/user/orgs"):
            await self._teams(api, id_of(organisation, "login"), subject, groups)
        return self.person(subject, text_of(user, "email"), text_of(user, "name"), groups)

    async def _teams(self, api: DirectoryApi, organisation: str, login: str, groups: dict[str, DirectoryGroup]) -> None:
        after = None
        for _ in range(MOST_PAGES_OF_ONE):
            query = {"query": TEAMS_OF, "variables": {"organisation": organisation, "login": login, "after": after}}
            teams = _teams_in((await api.post(_graphql(api.base), json.dumps(query).encode())).json())
            for team in entries(teams, "nodes"):
                for each in (team, *entries(team.get("ancestors"), "nodes")):
                    id = id_of(each, "databaseId")
                    groups[id] = DirectoryGroup(id, id_of(each, "slug"))
            page = teams.get("pageInfo")
            if not isinstance(page, dict) or not page.get("hasNextPage"):
                return
            after = page.get("endCursor")
        raise DirectoryError(f"one user is in more than {MOST_PAGES_OF_ONE * 100} teams")


def _same(user: dict[str, Any], login: str) -> dict[str, Any]:
    if id_of(user, "login").lower() != login.lower():
        raise DirectoryError("GitHub returned another user than the requested one")
    return user


def _graphql(base: str) -> str:
    """The GraphQL endpoint beside a REST API: `/graphql`, on a server of one's own `/api/graphql`."""
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
    return api.listed(path, PAGE, link_next)
