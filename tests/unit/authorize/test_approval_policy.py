"""Routes where a user may request access, and users who may approve."""

from typing import Any

import pytest

from authorize.approval_policy import ApprovalPolicy, may_request, requestable_tool
from authorize.policy.decision import Outcome, decide
from authorize.policy.identity import GrantPeriod
from authorize.policy.mcp_message import McpMessage
from tests.unit.authorize.builders import NOW, make_route, request, table, user

KEYS = {"approvers": [{"groups": "leads"}, {"and": [{"domain": "corp.com"}, {"claim/role": "boss"}]}]}
WAGES = make_route(name="wages", allowed_groups=["payroll"], access_requests=KEYS)
RULES = ApprovalPolicy([make_route("open.example.com"), WAGES])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"group_ids": frozenset({"leads"})}, True),
        ({"claims": {"role": ("boss",)}}, True),
        ({"claims": {"role": ("boss",)}, "email": "ann@other.com"}, False),
        ({"group_ids": frozenset({"payroll"})}, False),
        ({}, False),
        ({"groups_incomplete": True}, False),
        ({"group_ids": frozenset({"leads"}), "provider": "service_account"}, False),
        ({"group_ids": frozenset({"leads"}), "provider": "jwt"}, False),
        ({"group_ids": frozenset({"leads"}), "session_id": "bearer/x"}, False),
    ],
)
def test_approver_must_match_for_certain(attributes: dict[str, Any], expected: bool) -> None:
    assert RULES.may_approve(WAGES.grant_key, user(**attributes), NOW) is expected


def test_an_approver_is_of_a_provider_that_the_route_is_for() -> None:
    route = make_route(name="pay", allowed_groups=["payroll"], identity_providers=["corp"], access_requests=KEYS)
    rules, lead = ApprovalPolicy([route]), frozenset({"leads"})
    assert rules.may_approve(route.grant_key, user(provider="corp", group_ids=lead), NOW)
    assert not rules.may_approve(route.grant_key, user(provider="partner", group_ids=lead), NOW)


@pytest.mark.parametrize(
    ("attributes", "keys", "expected"),
    [
        ({"provider": "corp"}, {}, True),
        ({"provider": "partner"}, {}, False),
        ({"provider": "partner"}, {"identity_providers": []}, True),
        ({"provider": "corp"}, {"access_requests": None}, False),
        ({"provider": "service_account"}, {"identity_providers": []}, False),
        ({"provider": "corp", "session_id": "bearer/x"}, {}, False),
        ({"provider": "corp", "client_id": "ticket-agent"}, {}, True),
    ],
)
def test_a_user_requests_access_only_where_their_provider_is_accepted(
    attributes: dict[str, Any], keys: dict[str, Any], expected: bool
) -> None:
    route = make_route(allowed_groups=["payroll"], **{"identity_providers": ["corp"], "access_requests": KEYS, **keys})
    assert may_request(route, user(**attributes)) is expected


def test_only_current_routes_accept_access_requests() -> None:
    assert RULES.routes == (WAGES,)
    assert RULES.route(f"{WAGES.id} other") is None
    assert not RULES.may_approve(f"{WAGES.id} other", user(group_ids=frozenset({"leads"})), NOW)
    assert not ApprovalPolicy([make_route(mode="shadow", access_requests=KEYS), make_route("open.example.com")])


def test_grant_key_allows_only_its_user() -> None:
    holder = user(grants={WAGES.grant_key: GrantPeriod(NOW - 60, NOW + 60)})
    assert decide(request(), holder, table(WAGES), NOW).is_allowed
    assert not decide(request(), holder, table(WAGES), NOW + 60).is_allowed
    assert not decide(request(), user(), table(WAGES), NOW).is_allowed
    assert not decide(request(), user(group_ids=frozenset({"leads"})), table(WAGES), NOW).is_allowed, "who approves is not let in by it"
    assert decide(request(), None, table(WAGES), NOW).outcome is Outcome.SIGN_IN
    (compiled,) = table(WAGES).routes()
    assert compiled.is_time_dependent
    alone = make_route(access_requests=KEYS)
    assert decide(request(), None, table(alone), NOW).outcome is Outcome.SIGN_IN


ROBOT = {"provider": "service_account", "user_id": "service_account/robot", "group_ids": frozenset({"leads"})}
NAMED = {"user": "service_account/robot"}


@pytest.mark.parametrize(
    ("approvers", "expected"),
    [
        ([NAMED], True),
        ([{"groups": "leads"}, NAMED], True),
        ([{"user": {"in": ["ann@corp.com", "service_account/robot"]}}], True),
        ([{"groups": "leads"}], False),
        ([{"user": "robot"}], False),
        ([{"groups": "service_account/robot"}], False),
        ([{"user": "service_account/robot2"}], False),
        ([{"user": {"not_in": ["service_account/robot"]}}], False),
        ([{"user": {"not_in": ["service_account/other"]}}], False),
        ([{"not": NAMED}], False),
        ([{"nor": [NAMED]}], False),
        ([{"or": [{"not": NAMED}, {"groups": "leads"}]}], False),
        ([{"and": [NAMED, {"groups": "leads"}]}], False),
    ],
)
def test_service_account_approves_only_if_listed_by_id(approvers: list[Any], expected: bool) -> None:
    route = make_route(name="wages", access_requests={"approvers": approvers, "break_glass": {"allowed": [NAMED]}})
    rules = ApprovalPolicy([route])
    assert rules.may_approve(route.grant_key, user(**ROBOT), NOW) is expected
    assert not rules.may_break_glass(route.grant_key, user(**ROBOT), NOW)
    assert not rules.may_approve("another", user(**ROBOT), NOW)


TOOL_KEYS = {"approvers": [{"groups": "leads"}], "tools": ["delete_*"]}
EXCEPT_GRANTED = {"deny": {"and": [{"mcp_tool": {"not_in": ["search"]}}, {"not": {"granted": True}}]}}
ONLY_SEARCH = {"deny": {"mcp_tool": {"not_in": ["search"]}}}


@pytest.mark.parametrize(
    ("policy", "tool", "attributes", "expected"),
    [
        ([EXCEPT_GRANTED], "delete_repo", {}, "delete_repo"),
        ([EXCEPT_GRANTED], "delete_repo", {"client_id": "agent"}, "delete_repo"),
        ([EXCEPT_GRANTED], "merge", {}, ""),
        ([EXCEPT_GRANTED], "search", {}, ""),
        ([EXCEPT_GRANTED], "", {}, ""),
        ([EXCEPT_GRANTED], "delete_" + "x" * 300, {}, ""),
        # Access would not help: another rule denies as well.
        ([ONLY_SEARCH], "delete_repo", {}, ""),
        ([EXCEPT_GRANTED, {"deny": {"user": "oidc/1"}}], "delete_repo", {}, ""),
        # Accounts that request nothing.
        ([EXCEPT_GRANTED], "delete_repo", {"provider": "service_account"}, ""),
        ([EXCEPT_GRANTED], "delete_repo", {"session_id": "bearer/1"}, ""),
    ],
)
def test_tool_of_a_denied_call_may_be_requested(policy: Any, tool: str, attributes: dict[str, Any], expected: str) -> None:
    route = make_route(mcp={}, allowed_domains=["corp.com"], access_requests=TOOL_KEYS, policy=policy)
    call = request(method="POST", mcp=McpMessage("tools/call", tool=tool) if tool else McpMessage("tools/list"))
    assert requestable_tool(decide(call, user(**attributes), table(route), NOW)) == expected


def test_no_tool_may_be_requested_of_other_routes() -> None:
    call = request(method="POST", mcp=McpMessage("tools/call", tool="delete_repo"))
    whole = make_route(mcp={}, access_requests={"approvers": [{"groups": "leads"}]})
    for route in (whole, make_route(mcp={}), make_route()):
        assert requestable_tool(decide(call, user(), table(route), NOW)) == ""
    anonymous = make_route(mcp={}, allowed_domains=["corp.com"], access_requests=TOOL_KEYS, policy=[EXCEPT_GRANTED])
    assert requestable_tool(decide(call, None, table(anonymous), NOW)) == ""
