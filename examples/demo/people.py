"""Users and sites of the demo, and the access of each user."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DemoUser:
    sub: str
    full_name: str
    groups: tuple[str, ...]
    department: str

    @property
    def email(self) -> str:
        return f"{self.sub}@example.com"

    def claims(self) -> dict[str, Any]:
        """Claims of this user, as JSON-ready values."""
        return {
            "sub": self.sub,
            "name": self.full_name,
            "email": self.email,
            "email_verified": True,
            "groups": list(self.groups),
            "department": self.department,
        }

    def to_argument(self) -> str:
        return json.dumps(self.claims())


ALICE = DemoUser("alice", "Alice Archer", ("engineering",), "Engineering")
BOB = DemoUser("bob", "Bob Baker", ("sales",), "Sales")
CAROL = DemoUser("carol", "Carol Cook", (), "Facilities")
USERS = (ALICE, BOB, CAROL)

AUTHENTICATE_HOST = "authenticate.localhost"


@dataclass(frozen=True, slots=True)
class Site:
    """One host of the demo: `access` has the route keys of its policy; `visitors` is None for a public site."""

    name: str
    title: str
    about: str
    access: dict[str, Any]
    visitors: tuple[DemoUser, ...] | None
    icon: str
    passes_identity: bool = False

    @property
    def host(self) -> str:
        return f"{self.name}.localhost"

    def describe_visitors(self) -> str:
        if self.visitors is None:
            return "everyone"
        if self.visitors == USERS:
            return "any signed-in user"
        names = ", ".join(user.sub for user in self.visitors)
        groups = " or ".join(self.access.get("allowed_groups", ()))
        return f"group {groups} ({names})" if groups else f"only {names}"


SITES = (
    Site(
        "hello",
        "Hello",
        "the identity that an application receives",
        {"allow_any_authenticated_user": True},
        USERS,
        "home",
        passes_identity=True,
    ),
    Site(
        "chat",
        "Chat",
        "a chat room over a WebSocket",
        {"allowed_groups": ["engineering", "sales"], "allow_websockets": True},
        (ALICE, BOB),
        "chat",
        passes_identity=True,
    ),
    Site("files", "Files", "large downloads and uploads", {"allowed_groups": ["engineering"]}, (ALICE,), "files", passes_identity=True),
    Site("finance", "Finance", "this quarter's numbers", {"allowed_users": [ALICE.email]}, (ALICE,), "money", passes_identity=True),
    Site(
        "notes",
        "Notes",
        "an MCP server for agents",
        {
            "allow_any_authenticated_user": True,
            "mcp": {"path": "/mcp", "name": "Notes"},
            "policy": [{"deny": {"and": [{"mcp_tool": {"is": "delete_note"}}, {"groups": {"not_in": ["engineering"]}}]}}],
        },
        USERS,
        "book",
        passes_identity=True,
    ),
    Site("public", "Public", "a page that needs no sign-in", {"allow_public_unauthenticated_access": True}, None, "globe"),
)
# TCP route at the host of a site; its port is a name only.
ECHO = "echo"
ECHO_AUTHORITY = "hello.localhost:7"
HOSTS = (AUTHENTICATE_HOST, *(site.host for site in SITES))
