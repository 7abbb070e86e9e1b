"""Scopes that would let a denied token make its request: those that the policy needs, and none where another rule denies as well."""

from typing import Any

import pytest

from authorize.policy.decision import decide
from authorize.policy.identity import Identity
from authorize.policy.mcp_message import McpMessage
from authorize.policy.missing_scopes import missing_scopes
from tests.unit.authorize.builders import NOW, make_route, request, table, user

SCOPES = {"read": "Read", "write": "Write", "admin": "Administer"}
ALLOW = {"allow": {"domain": "corp.com"}}
WRITE_DENIED = {"deny": {"and": [{"mcp_tool": {"not_in": ["search"]}}, {"scope": {"not_in": ["write"]}}]}}


def agent(*scopes: str, **facts: Any) -> Identity:
    return user(client_id="build-agent", scopes=frozenset(scopes), **facts)


@pytest.mark.parametrize(
    ("policy", "identity", "expected"),
    [
        ([{"allow": {"and": [{"domain": "corp.com"}, {"scope": "write"}]}}], agent("read"), ("write",)),
        ([{"allow": {"and": [{"scope": "write"}, {"scope": "admin"}]}}], agent("read"), ("write", "admin")),
        ([{"allow": {"scope": ["write", "admin"]}}], agent(), ("admin",)),
        ([{"allow": {"or": [{"scope": "admin"}, {"scope": "write"}]}}], agent(), ("admin",)),
        ([{"allow": {"not": {"scope": {"not_in": ["write"]}}}}], agent(), ("write",)),
        ([ALLOW, WRITE_DENIED], agent("read"), ("write",)),
        ([ALLOW, {"deny": {"not": {"scope": "write"}}}], agent("read"), ("write",)),
        # Another rule denies as well.
        ([{"allow": {"and": [{"email": "boss@corp.com"}, {"scope": "write"}]}}], agent("read"), ()),
        ([ALLOW, WRITE_DENIED, {"deny": {"mcp_tool": "delete"}}], agent("read"), ()),
        ([{"deny": {"mcp_tool": "delete"}}, WRITE_DENIED, ALLOW], agent("read"), ()),
        ([{"allow": {"email": "boss@corp.com"}}], agent("read"), ()),
        # Allowed, or not the token of a client.
        ([ALLOW, WRITE_DENIED], agent("write"), ()),
        ([{"allow": {"scope": "write"}}], user(), ()),
        ([{"allow": {"scope": "write"}}], None, ()),
        ([{"allow": {"client": "other"}}], agent("read"), ()),
    ],
)
def test_scopes_that_would_help(policy: list[dict[str, Any]], identity: Identity | None, expected: tuple[str, ...]) -> None:
    route = make_route(mcp={"scopes": SCOPES}, policy=policy)
    delete = request(method="POST", mcp=McpMessage("tools/call", tool="delete"))
    assert missing_scopes(decide(delete, identity, table(route), NOW)) == expected


def test_no_route_and_no_mcp_server() -> None:
    assert missing_scopes(decide(request(host="other.example.com"), agent(), table(make_route()), NOW)) == ()
    assert missing_scopes(decide(request(), agent(), table(make_route(policy=[{"allow": {"claim/team.scope": "x"}}])), NOW)) == ()
