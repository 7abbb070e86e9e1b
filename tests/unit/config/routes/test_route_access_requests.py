"""Settings of access requests, and criteria that cannot identify an approver."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from config.routes.route import Route
from config.routes.route_access_requests import tool_grant_key
from foundation.errors import ConfigError
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route, table, user

LEADS = [{"groups": "leads"}]


def problems(directory: Path, keys: Any, **more: Any) -> list[str]:
    route = {"from": "https://wages.example.com", "to": "http://127.0.0.1:9", "access_requests": keys, **more}
    with pytest.raises(ConfigError) as found:
        make_options(directory, policy=[route])
    return [f"{problem.key}: {problem.message}" for problem in found.value.problems]


def test_unset_field_has_a_default() -> None:
    keys = make_route(access_requests={"approvers": LEADS}).access_requests
    assert keys is not None
    assert (keys.max_duration, keys.reason, keys.approvals) == (timedelta(hours=8), "required", 1)


@pytest.mark.parametrize(
    ("keys", "place", "message"),
    [
        ({}, "access_requests.approvers", "is required"),
        ({"approvers": []}, "access_requests.approvers", "at least one"),
        ({"approvers": {"groups": "leads"}}, "access_requests.approvers", "list"),
        ({"approvers": [{"group": "leads"}]}, "access_requests.approvers[0].group", "Did you mean groups?"),
        ({"approvers": [{"source_ip": "10.0.0.0/8"}]}, "access_requests.approvers", "source_ip does not identify a user"),
        ({"approvers": [{"not": {"granted": True}}]}, "access_requests.approvers", "granted does not identify a user"),
        ({"approvers": [{"and": [{"groups": "a"}, {"session_age": "1h"}]}]}, "access_requests.approvers", "session_age"),
        ({"approvers": LEADS, "max_duration": "0s"}, "access_requests.max_duration", ""),
        ({"approvers": LEADS, "max_duration": "721h"}, "access_requests.max_duration", "30 days"),
        ({"approvers": LEADS, "reason": "never"}, "access_requests.reason", "one of"),
        ({"approvers": LEADS, "approvals": 0}, "access_requests.approvals", "from 1 to 5"),
        ({"approvers": LEADS, "approvals": True}, "access_requests.approvals", "from 1 to 5"),
        ({"approvers": LEADS, "break_glass": {"allowed": []}}, "access_requests.break_glass.allowed", "at least one"),
        ({"approvers": LEADS, "break_glass": {}}, "access_requests.break_glass.allowed", "is required"),
        ({"approvers": LEADS, "break_glass": {"allowed": LEADS, "max_duration": "721h"}}, "access_requests.break_glass.max_duration", "30"),
        ({"approvers": LEADS, "approver": LEADS}, "access_requests.approver", ""),
        ({"approvers": LEADS, "tools": ["a"]}, "access_requests.tools", "requires the key mcp"),
        ({"approvers": LEADS, "tools": []}, "access_requests.tools", "from 1 to 100"),
        ({"approvers": LEADS, "tools": [" a"]}, "access_requests.tools", "is not a tool"),
        ({"approvers": LEADS, "tools": ["a\u202eb"]}, "access_requests.tools", "is not a tool"),
        ({"approvers": LEADS, "tools": ["x" * 201]}, "access_requests.tools", "is not a tool"),
    ],
)
def test_nonsense_is_refused_with_its_location(tmp_path: Path, keys: dict[str, Any], place: str, message: str) -> None:
    found = problems(tmp_path, keys)
    assert any(each.startswith(f"policy[0].{place}: ") and message in each for each in found), found


@pytest.mark.parametrize(
    "more",
    [
        {"allow_any_authenticated_user": True},
        {"allow_public_unauthenticated_access": True},
        {"to": None, "redirect": {"host_redirect": "a.example.com"}},
    ],
)
def test_public_route_has_no_access_requests(tmp_path: Path, more: dict[str, Any]) -> None:
    more = {name: value for name, value in more.items() if value is not None}
    assert any("no effect" in each for each in problems(tmp_path, {"approvers": LEADS}, **more))


def test_unknown_operand_is_found_with_its_route() -> None:
    with pytest.raises(ConfigError, match=r"access_requests\.approvers: "):
        table(make_route(access_requests={"approvers": [{"user": "ann@"}]}))


def test_requestable_route_requires_access_check() -> None:
    route: Route = make_route(access_requests={"approvers": LEADS})
    assert route.uses_temporary_access
    assert user().grants == {}


@pytest.mark.parametrize(
    ("tools", "tool", "expected"),
    [
        ((), "", True),
        ((), "delete_repo", False),
        (("delete_repo",), "delete_repo", True),
        (("delete_repo",), "", False),
        (("delete_repo",), "delete_repos", False),
        (("delete_repo",), "Delete_repo", False),
        (("merge_*",), "merge_now", True),
        (("merge_*",), "merge_", False),
        (("merge_*",), "merge", False),
        (("*_repo",), "delete_repo", True),
        (("a*c**e",), "abcde", True),
        (("*",), "anything", True),
        (("*",), "", False),
        (("a.b",), "axb", False),
        (("[ab]",), "a", False),
        (("x", "delete_*"), "delete_repo", True),
    ],
)
def test_accepted_tools(tools: tuple[str, ...], tool: str, expected: bool) -> None:
    route = make_route(mcp={}, access_requests={"approvers": LEADS, **({"tools": list(tools)} if tools else {})})
    assert route.access_requests is not None
    assert route.access_requests.accepts(tool) is expected


def test_tools_may_be_requested_where_every_user_has_access(tmp_path: Path) -> None:
    route = {"from": "https://tools.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True, "mcp": {}}
    make_options(tmp_path, policy=[{**route, "access_requests": {"approvers": LEADS, "tools": ["a"]}}])


def test_key_of_a_tool_is_that_of_no_route() -> None:
    assert tool_grant_key("0123 a", "") == "0123 a"
    assert tool_grant_key("0123 a", "b") not in ("0123 a", "0123 a b", tool_grant_key("0123 a", "c"))
