"""The directory of one small company at each vendor: pagination, credentials and deltas as the vendors document them.

async with FakeDirectory.of("okta") as directory:
    options = make_options(tmp_path, **directory.settings())
    directory.company.members["engineering"].append("carol")
"""

import copy
import itertools
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlencode

import jwt

from config.issuers import expected_issuer
from databroker.records import DirectoryGroup, DirectoryUser
from tests.support.cloud import ACCOUNT, account_json
from tests.support.fake_api import Answer, FakeApi, Request, as_json
from tests.support.fake_idp import RSA_KEY

PAGE = 2  # entries per page, regardless of the request
TENANT = "11111111-2222-3333-4444-555555555555"
NUMBERS = {"ann": 101, "bob": 102, "carol": 103, "zoe": 104, "dan": 105, "engineering": 7, "backend": 101, "empty": 9}


@dataclass
class Company:
    """Members of `backend` are in `engineering` as well if the vendor has nested groups; carol is in no group, `empty` has no members."""

    users: dict[str, tuple[str, str]] = field(
        default_factory=lambda: {
            "ann": ("Ann Adams", "ann@corp.example"),
            "bob": ("Bob Brown", "bob@corp.example"),
            "carol": ("Carol Clark", "carol@corp.example"),
            "zoe": ("Zoë 东京 🦄", "zoe@corp.example"),
        }
    )
    groups: list[str] = field(default_factory=lambda: ["engineering", "backend", "empty"])
    members: dict[str, list[str]] = field(default_factory=lambda: {"engineering": ["ann", "bob", "ann"], "backend": ["zoe"], "empty": []})
    inside: dict[str, str] = field(default_factory=lambda: {"backend": "engineering"})

    def groups_for(self, user: str, *, is_nested: bool) -> set[str]:
        direct = {group for group in self.groups if user in self.members.get(group, ())}
        return direct | ({self.inside[group] for group in direct if self.inside.get(group) in self.groups} if is_nested else set())

    def all_members(self, group: str) -> list[str]:
        """Return the members, those of nested groups included."""
        inner = [child for child, parent in self.inside.items() if parent == group and child in self.groups]
        return list(dict.fromkeys(itertools.chain(*(self.members.get(each, ()) for each in (group, *inner)))))


class FakeDirectory(FakeApi):
    provider: ClassVar[str]
    knows_nesting: ClassVar[bool] = False
    lists_all_users: ClassVar[bool] = True  # includes users without groups
    knows_emails: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.company = Company()
        self.token = "token-1"
        self.foreign = ""  # origin of the next links

    @staticmethod
    def for_kind(provider: str) -> "FakeDirectory":
        return next(kind for kind in KINDS if kind.provider == provider)()

    def account(self) -> dict[str, Any]:
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        account = b64encode(json.dumps(self.account()).encode()).decode()
        return {"idp_provider": self.provider, "idp_provider_url": self.url, "idp_directory_url": self.url, "idp_service_account": account}

    @property
    def issuer(self) -> str:
        return expected_issuer(self.provider, self.settings()["idp_provider_url"])

    def user_id(self, user: str) -> str:
        return str(NUMBERS[user])

    def group_id(self, group: str) -> str:
        return str(NUMBERS[group])

    def group_named(self, group: str) -> tuple[str, str]:
        """Return name and email as the vendor returns them."""
        return group, ""

    def expected_user(self, user: str) -> DirectoryUser:
        name, email = self.company.users[user]
        groups = sorted(self.group_id(group) for group in self.company.groups_for(user, is_nested=self.knows_nesting))
        return DirectoryUser(
            f"{self.provider}/{self.user_id(user)}", email if self.knows_emails else "", name, tuple(groups), issuer=self.issuer
        )

    def expected(self) -> tuple[dict[str, DirectoryUser], dict[str, DirectoryGroup]]:
        users = [self.expected_user(user) for user in self.company.users]
        groups = [DirectoryGroup(self.group_id(group), *self.group_named(group), self.issuer) for group in self.company.groups]
        return {user.id: user for user in users if user.group_ids or self.lists_all_users}, {group.id: group for group in groups}

    def user_key(self, id: str) -> str | None:
        return next((user for user in self.company.users if self.user_id(user) == id), None)

    def group_key(self, id: str) -> str | None:
        return next((group for group in self.company.groups if self.group_id(group) == id), None)

    def handle(self, request: Request) -> Answer:
        if request.path.endswith("/token"):
            return self.issue(request)
        if not self.is_proven(request):
            return as_json({"error": "unauthorized"}, 401)
        return self.answer(request, request.path) or as_json({"error": "not found"}, 404)

    def issue(self, request: Request) -> Answer:
        return as_json({"access_token": self.token, "token_type": "Bearer", "expires_in": 3600})

    def is_proven(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.token}"

    def answer(self, request: Request, path: str) -> Answer | None:
        raise NotImplementedError

    def next_url(self, request: Request, **query: Any) -> str:
        return f"{self.foreign or self.url}{request.path}?{urlencode({**request.query, **query})}"

    def linked(self, request: Request, entries: list[Any]) -> Answer:
        """Return a paginated list with Link headers."""
        start = int(request.query.get("after", 0))
        links = [f'<{self.next_url(request, after=start)}>; rel="self"']
        if start + PAGE < len(entries):
            links.append(f'<{self.next_url(request, after=start + PAGE)}>; rel="next"')
        return as_json(entries[start : start + PAGE], Link=", ".join(links))


class Google(FakeDirectory):
    provider = "google"
    knows_nesting = True

    def account(self) -> dict[str, Any]:
        return {**json.loads(account_json(f"{self.url}/token")), "impersonate_user": "admin@corp.example"}

    def group_named(self, group: str) -> tuple[str, str]:
        return f"{group}@corp.example", f"{group}@corp.example"

    def issue(self, request: Request) -> Answer:
        times = {"verify_iat": False, "verify_exp": False}  # tests use another clock
        claims = jwt.decode(request.form["assertion"], RSA_KEY.public_key(), ["RS256"], audience=f"{self.url}/token", options=times)
        is_valid = (claims["iss"], claims["sub"]) == (ACCOUNT, "admin@corp.example")
        is_narrow = all(scope.endswith(".readonly") for scope in claims["scope"].split())
        return super().issue(request) if is_valid and is_narrow else as_json({"error": "invalid_grant"}, 400)

    def answer(self, request: Request, path: str) -> Answer | None:
        match path.removeprefix("/admin/directory/v1/").split("/"):
            case ["users"]:
                return self._page(request, "users", [self._user(user) for user in self.company.users])
            case ["users", id]:
                user = self.user_key(id)
                return as_json(self._user(user)) if user else as_json({"error": {"errors": [{"reason": "forbidden"}]}}, 403)
            case ["groups"]:
                return self._page(request, "groups", [self._group(group) for group in self._groups(request.query.get("userKey"))])
            case ["groups", id, "members"]:
                return self._page(request, "members", list(self._members(self.group_key(id))))
        return None

    def _page(self, request: Request, key: str, entries: list[Any]) -> Answer:
        start = int(request.query.get("pageToken", 0))
        page: dict[str, Any] = {"kind": f"admin#directory#{key}", **({key: entries[start : start + PAGE]} if entries else {})}
        if start + PAGE < len(entries):
            page["nextPageToken"] = str(start + PAGE)
        return as_json(page)

    def _user(self, user: str) -> dict[str, Any]:
        name, email = self.company.users[user]
        return {"id": self.user_id(user), "primaryEmail": email, "name": {"fullName": name}}

    def _group(self, group: str) -> dict[str, Any]:
        count = len(list(self._members(group)))
        return {"id": self.group_id(group), "name": group.title(), "email": f"{group}@corp.example", "directMembersCount": str(count)}

    def _groups(self, member: str | None) -> Iterator[str]:
        for group in self.company.groups:
            if member is None or member in {entry["id"] for entry in self._members(group)}:
                yield group

    def _members(self, group: str | None) -> Iterator[dict[str, Any]]:
        for user in self.company.members.get(group or "", ()):
            yield {"type": "USER", "id": self.user_id(user), "email": self.company.users.get(user, ("", ""))[1]}
        for child, parent in self.company.inside.items():
            if parent == group:
                yield {"type": "GROUP", "id": self.group_id(child)}

    def user_id(self, user: str) -> str:
        return f"1{NUMBERS[user]:020}"

    def group_id(self, group: str) -> str:
        return f"03{NUMBERS[group]:x}abc"


class Azure(FakeDirectory):
    provider = "azure"
    knows_nesting = True

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, Company] = {}  # state by delta token
        self._tokens = itertools.count(1)

    def account(self) -> dict[str, Any]:
        return {"client_id": "client", "client_secret": "secret", "directory_id": TENANT}

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "idp_provider_url": f"{self.url}/{TENANT}/v2.0"}

    def issue(self, request: Request) -> Answer:
        form = {**request.form, "path": request.path}
        wanted = {
            "grant_type": "client_credentials",
            "client_id": "client",
            "client_secret": "secret",
            "scope": f"{self.url}/.default",
            "path": f"/{TENANT}/oauth2/v2.0/token",
        }
        return super().issue(request) if form == wanted else as_json({"error": "invalid_client"}, 401)

    def forget_deltas(self) -> None:
        self.states.clear()

    def answer(self, request: Request, path: str) -> Answer | None:
        match path.removeprefix("/v1.0/").split("/"):
            case ["users" | "groups" as kind, "delta"]:
                return self._delta(request, kind)
            case ["users", id]:
                user = self.user_key(id)
                return as_json(self._user(user)) if user else None
            case ["users", id, "transitiveMemberOf", "microsoft.graph.group"]:
                groups = sorted(self.company.groups_for(self.user_key(id) or "", is_nested=True))
                return self._listed(request, [{"id": self.group_id(group), "displayName": group} for group in groups], {})
        return None

    def _delta(self, request: Request, kind: str) -> Answer:
        token = request.query.get("$deltatoken")
        if token is not None and token not in self.states:
            return as_json({"error": {"code": "syncStateNotFound"}}, 410)
        before = self.states[token] if token is not None else Company({}, [], {}, {})
        entries = list(self._users_since(before) if kind == "users" else self._groups_since(before))
        mark = f"{kind}-{next(self._tokens)}"
        self.states[mark] = copy.deepcopy(self.company)
        return self._listed(request, entries, {"@odata.deltaLink": f"{self.url}{request.path}?{urlencode({'$deltatoken': mark})}"})

    def _listed(self, request: Request, entries: list[Any], last: dict[str, str]) -> Answer:
        start = int(request.query.get("$skiptoken", 0))
        page: dict[str, Any] = {"value": entries[start : start + PAGE]}
        if start + PAGE < len(entries):
            return as_json({**page, "@odata.nextLink": self.next_url(request, **{"$skiptoken": start + PAGE})})
        return as_json({**page, **last})

    def _user(self, user: str) -> dict[str, Any]:
        name, email = self.company.users[user]
        # A guest: the address is only in the user name.
        guest = {"mail": None, "userPrincipalName": f"{email.replace('@', '_')}#EXT#@corp.onmicrosoft.com"}
        return {"id": self.user_id(user), "displayName": name, **(guest if user == "bob" else {"mail": email, "userPrincipalName": email})}

    def _users_since(self, before: Company) -> Iterator[dict[str, Any]]:
        for user in self.company.users:
            if before.users.get(user) != self.company.users[user]:
                yield self._user(user)
        for user in before.users.keys() - self.company.users.keys():
            yield {"id": self.user_id(user), "@removed": {"reason": "deleted"}}

    def _groups_since(self, before: Company) -> Iterator[dict[str, Any]]:
        for group in self.company.groups:
            old, new = (self._members(company, group) if group in company.groups else set() for company in (before, self.company))
            changes = [{"@odata.type": "#microsoft.graph.user", "id": id} for id in sorted(new - old)]
            changes += [{"@odata.type": "#microsoft.graph.user", "id": id, "@removed": {"reason": "deleted"}} for id in sorted(old - new)]
            # A large group is split over several entries; the first has the name.
            if group not in before.groups:
                yield {"id": self.group_id(group), "displayName": group, **({"members@delta": changes[:1]} if changes else {})}
                changes = changes[1:]
            if changes:
                yield {"id": self.group_id(group), "members@delta": changes}
        for group in set(before.groups) - set(self.company.groups):
            yield {"id": self.group_id(group), "@removed": {"reason": "deleted"}}

    def _members(self, company: Company, group: str) -> set[str]:
        inner = {self.group_id(child) for child, parent in company.inside.items() if parent == group and child in company.groups}
        return {self.user_id(user) for user in company.members.get(group, ())} | inner | {"a-printer-of-this-group"}

    def user_id(self, user: str) -> str:
        return f"00000000-0000-0000-0000-{NUMBERS[user]:012}"

    def group_id(self, group: str) -> str:
        return f"99999999-0000-0000-0000-{NUMBERS[group]:012}"


class Okta(FakeDirectory):
    provider = "okta"

    def __init__(self) -> None:
        super().__init__()
        self.changed: dict[str, str] = {}  # group -> time of the last change of its members

    def account(self) -> dict[str, Any]:
        return {"api_key": "okta-key"}

    def is_proven(self, request: Request) -> bool:
        return request.headers.get("authorization") == "SSWS okta-key"

    def answer(self, request: Request, path: str) -> Answer | None:
        match path.removeprefix("/api/v1/").split("/"):
            case ["groups"]:
                return self.linked(request, [self._group(group) for group in self.company.groups])
            case ["groups", id, "users"]:
                group = self.group_key(id)
                return self.linked(request, [self._user(user) for user in self.company.members[group]]) if group else None
            case ["users"]:
                return self.linked(request, [self._user(user) for user in self.company.users])
            case ["users", id]:
                user = self.user_key(id)
                return as_json(self._user(user)) if user else None
            case ["users", id, "groups"]:
                groups = sorted(self.company.groups_for(self.user_key(id) or "", is_nested=False))
                return self.linked(request, [self._group(group) for group in groups])
        return None

    def _group(self, group: str) -> dict[str, Any]:
        changed = self.changed.get(group, "2026-01-01T00:00:00.000Z")
        return {"id": self.group_id(group), "profile": {"name": group}, "lastMembershipUpdated": changed}

    def _user(self, user: str) -> dict[str, Any]:
        name, email = self.company.users[user]
        first, _, last = name.partition(" ")
        return {"id": self.user_id(user), "status": "ACTIVE", "profile": {"firstName": first, "lastName": last, "email": email}}

    def user_id(self, user: str) -> str:
        return f"00u{NUMBERS[user]}"

    def group_id(self, group: str) -> str:
        return f"00g{NUMBERS[group]}"


class OneLogin(FakeDirectory):
    provider = "onelogin"

    def account(self) -> dict[str, Any]:
        return {"client_id": "client", "client_secret": "secret"}

    def issue(self, request: Request) -> Answer:
        is_valid = b64decode(request.headers["authorization"].removeprefix("Basic ")) == b"client:secret"
        return super().issue(request) if is_valid else as_json({"status": {"error": True}}, 401)

    def is_proven(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"bearer:{self.token}"

    def answer(self, request: Request, path: str) -> Answer | None:
        match path.removeprefix("/api/1/").split("/"):
            case ["groups"]:
                return self._page(request, [self._group(group) for group in self.company.groups])
            case ["groups", id]:
                return self._page(request, [self._group(group) for group in self.company.groups if self.group_id(group) == id])
            case ["users"]:
                return self._page(request, [self._user(user) for user in self.company.users])
            case ["users", id]:
                user = self.user_key(id)
                return self._page(request, [self._user(user)]) if user else None
        return None

    def _page(self, request: Request, entries: list[Any]) -> Answer:
        start = int(request.query.get("after_cursor", 0))
        link = self.next_url(request, after_cursor=start + PAGE) if start + PAGE < len(entries) else None
        status = {"error": False, "code": 200, "type": "success", "message": "Success"}
        return as_json({"status": status, "pagination": {"next_link": link}, "data": entries[start : start + PAGE]})

    def _group(self, group: str) -> dict[str, Any]:
        return {"id": NUMBERS[group], "name": group, "reference": None}

    def _user(self, user: str) -> dict[str, Any]:
        name, email = self.company.users[user]
        first, _, last = name.partition(" ")
        group = next((group for group in self.company.groups if user in self.company.members[group]), None)
        return {
            "id": NUMBERS[user],
            "firstname": first,
            "lastname": last,
            "email": email,
            "group_id": NUMBERS[group] if group else None,
        }


class GitHub(FakeDirectory):
    """GitHub's directory. A team includes the members of its child teams."""

    provider = "github"
    knows_nesting = True
    lists_all_users = False

    def account(self) -> dict[str, Any]:
        return {"username": "robot", "personal_access_token": "ghp_token"}

    def is_proven(self, request: Request) -> bool:
        return request.headers.get("authorization") == "Bearer ghp_token"

    def answer(self, request: Request, path: str) -> Answer | None:
        match path.removeprefix("/").split("/"):
            case ["user", "orgs"]:
                return self.linked(request, [{"login": "corp"}])
            case ["orgs", "corp", "teams"]:
                return self.linked(request, [{"id": NUMBERS[group], "slug": group} for group in self.company.groups])
            case ["orgs", "corp", "teams", slug, "members"] if slug in self.company.groups:
                return self.linked(request, [{"login": user, "id": NUMBERS[user]} for user in self.company.all_members(slug)])
            case ["users", login] if login in self.company.users:
                name, email = self.company.users[login]
                return as_json({"login": login, "id": NUMBERS[login], "name": name, "email": email})
            case ["graphql"]:
                return self._graphql(json.loads(request.body)["variables"])
        return None

    def _graphql(self, query: dict[str, Any]) -> Answer:
        teams = [group for group in self.company.groups if query["login"] in self.company.members.get(group, ())]
        start = int(query["after"] or 0)
        nodes = [{**self._node(team), "ancestors": {"nodes": self._ancestors(team)}} for team in teams[start : start + 1]]
        page = {"hasNextPage": start + 1 < len(teams), "endCursor": str(start + 1)}
        return as_json({"data": {"organization": {"teams": {"nodes": nodes, "pageInfo": page}}}})

    def _node(self, team: str) -> dict[str, Any]:
        return {"databaseId": NUMBERS[team], "slug": team}

    def _ancestors(self, team: str) -> list[dict[str, Any]]:
        return [self._node(self.company.inside[team])] if team in self.company.inside else []

    def user_id(self, user: str) -> str:
        return user


class GitLab(FakeDirectory):
    """GitLab's directory. Members of a group are members of its subgroups: `engineering` is below `backend`, for the same memberships."""

    provider = "gitlab"
    knows_nesting = True
    lists_all_users = False
    knows_emails = False

    def account(self) -> dict[str, Any]:
        return {"private_token": "glpat-token"}

    def group_named(self, group: str) -> tuple[str, str]:
        return f"corp/{group}", ""

    def is_proven(self, request: Request) -> bool:
        return request.headers.get("private-token") == "glpat-token" or request.headers.get("authorization", "").startswith("Bearer ")

    def answer(self, request: Request, path: str) -> Answer | None:
        user_name = request.headers.get("authorization", "").removeprefix("Bearer token of ")
        match path.removeprefix("/api/v4/").split("/"):
            case ["groups"] if user_name:
                is_narrow = request.query.get("min_access_level") == "10"
                groups = sorted(self.company.groups_for(user_name, is_nested=True)) if is_narrow else self.company.groups
                own = {"id": 4711, "name": "engineering", "full_path": f"{user_name}s/engineering"}
                return self.linked(request, [*(self._group(group) for group in groups), own])
            case ["groups"]:
                return self.linked(request, [self._group(group) for group in self.company.groups])
            case ["groups", id, "members", "all"]:
                group = self.group_key(id)
                blocked = {"id": 666, "username": "blocked", "name": "Blocked", "state": "blocked"}
                members = [*(self._user(user) for user in self.company.all_members(group)), blocked] if group else []
                return self.linked(request, members) if group else None
            case ["users", id]:
                user = self.user_key(id)
                return as_json(self._user(user)) if user else None
        return None

    def _group(self, group: str) -> dict[str, Any]:
        return {"id": NUMBERS[group], "name": group.title(), "path": group, "full_path": f"corp/{group}"}

    def _user(self, user: str) -> dict[str, Any]:
        return {"id": NUMBERS[user], "username": user, "name": self.company.users[user][0], "state": "active"}


class Auth0(FakeDirectory):
    provider = "auth0"
    lists_all_users = False

    def account(self) -> dict[str, Any]:
        return {"client_id": "client", "secret": "secret"}

    def issue(self, request: Request) -> Answer:
        form = {"grant_type": "client_credentials", "client_id": "client", "client_secret": "secret", "audience": f"{self.url}/api/v2/"}
        return super().issue(request) if request.form == form else as_json({"error": "access_denied"}, 401)

    def answer(self, request: Request, path: str) -> Answer | None:
        match path.removeprefix("/api/v2/").split("/"):
            case ["roles"]:
                return self._numbered(request, self.company.groups)
            case ["roles", id, "users"]:
                group = self.group_key(id)
                return self._cursor(request, self.company.members[group]) if group else None
            case ["users", id]:
                user = self.user_key(id)
                return as_json(self._user(user)) if user else None
            case ["users", id, "roles"]:
                return self._numbered(request, sorted(self.company.groups_for(self.user_key(id) or "", is_nested=False)))
        return None

    def _numbered(self, request: Request, groups: list[str]) -> Answer:
        size = int(request.query["per_page"])
        start = int(request.query["page"]) * size
        roles = [{"id": self.group_id(group), "name": group} for group in groups[start : start + size]]
        return as_json({"roles": roles, "start": start, "limit": size, "total": len(groups)})

    def _cursor(self, request: Request, users: list[str]) -> Answer:
        start = int(request.query.get("from", 0))
        page: dict[str, Any] = {"users": [self._user(user) for user in users[start : start + PAGE]]}
        return as_json({**page, **({"next": str(start + PAGE)} if start + PAGE < len(users) else {})})

    def _user(self, user: str) -> dict[str, Any]:
        name, email = self.company.users[user]
        return {"user_id": self.user_id(user), "name": name, "email": email}

    def user_id(self, user: str) -> str:
        return f"auth0|{NUMBERS[user]}"

    def group_id(self, group: str) -> str:
        return f"rol_{NUMBERS[group]}"


class ByName(Okta):
    """Directory whose user ids are the subjects of the sign-in."""

    def user_id(self, user: str) -> str:
        return user


KINDS: tuple[type[FakeDirectory], ...] = (Google, Azure, Okta, OneLogin, GitHub, GitLab, Auth0)
