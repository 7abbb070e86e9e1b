"""Requested access: the complete route, or a tool that the route's settings accept."""

from contextlib import nullcontext
from typing import Any

import pytest

from authenticate.access_requests.requested_access import access_title, require_requestable, route_title
from databroker.grants.grant_store import AccessError
from tests.unit.authorize.builders import make_route

APPROVERS = {"approvers": [{"groups": "leads"}]}


@pytest.mark.parametrize(
    ("keys", "tool", "problem"),
    [
        (APPROVERS, "", None),
        (APPROVERS, "delete_repo", "cannot be requested"),
        ({**APPROVERS, "tools": ["delete_*"]}, "delete_repo", None),
        ({**APPROVERS, "tools": ["delete_*"]}, "", "name the tool"),
        ({**APPROVERS, "tools": ["delete_*"]}, "merge", "cannot be requested"),
        ({**APPROVERS, "tools": ["*"]}, "a\u202eb", "cannot be requested"),
        (None, "", "cannot be requested"),
    ],
)
def test_accepted_requests(keys: dict[str, Any] | None, tool: str, problem: str | None) -> None:
    route = make_route(mcp={}, **({"access_requests": keys} if keys else {}))
    with pytest.raises(AccessError, match=problem) if problem is not None else nullcontext():
        require_requestable(route, tool)


def test_title_has_the_tool() -> None:
    route = make_route(mcp={}, title="Repositories")
    assert (access_title(route, ""), access_title(route, "merge")) == ("Repositories", "Repositories: merge")
    assert route_title(make_route(name="wiki")) == "wiki"
