"""When temporary access allows a request."""

import pytest

from authorize.policy.criterion import EvaluationContext
from authorize.policy.decision import Outcome, decide, evaluate_route
from authorize.policy.decision_text import remedies, trace_rows, user_message
from authorize.policy.identity import GrantPeriod, Identity
from authorize.policy.language.grant_criteria import grant_period
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from authorize.policy.reasons import Reason
from authorize.policy.route_table import RouteTable
from config.routes.route import Route
from config.routes.route_access_requests import tool_grant_key
from foundation.web.message import join_list
from tests.unit.authorize.builders import NOW, make_route, request, table, user
from tests.unit.authorize.policy.policy_texts import criterion

WIKI = make_route(name="wiki", policy=[{"allow": {"or": [{"groups": "writers"}, {"granted": True}]}}])
WIKI_POLICY = [{"allow": {"granted": True}}, {"allow": {"groups": "writers"}}]
LIVE = GrantPeriod(NOW - 600, NOW + 600)


def holder(route: Route = WIKI, span: GrantPeriod = LIVE) -> Identity:
    return user(grants={route.grant_key: span})


def outcome(identity: Identity | None, routes: RouteTable | None = None, now: float = NOW) -> Outcome:
    return decide(request(), identity, routes or table(WIKI), now).outcome


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (LIVE, Outcome.ALLOWED),
        (GrantPeriod(NOW, NOW + 0.1), Outcome.ALLOWED),
        (GrantPeriod(NOW - 600, NOW), Outcome.FORBIDDEN),
        (GrantPeriod(NOW + 59, NOW + 600), Outcome.ALLOWED),  # another machine's clock is ahead
        (GrantPeriod(NOW + 61, NOW + 600), Outcome.FORBIDDEN),  # this clock was set back: access is not the longer for it
        (GrantPeriod(NOW - 600, float("nan")), Outcome.FORBIDDEN),
    ],
)
def test_access_holds_from_its_beginning_to_its_end(span: GrantPeriod, expected: Outcome) -> None:
    assert outcome(holder(span=span)) is expected


def test_grant_allows_only_its_user() -> None:
    assert outcome(user()) is Outcome.FORBIDDEN
    assert outcome(user(group_ids=frozenset({"writers"}))) is Outcome.ALLOWED
    assert outcome(None) is Outcome.SIGN_IN


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "handbook"},
        {"name": None},
        {"to": "http://other.example.com"},
        {"path": "/"},
        {"prefix": "/"},
        {"host": "wiki.example.com"},
        {"prefix_rewrite": "/payroll"},
        {"regex_rewrite_pattern": "^/", "regex_rewrite_substitution": "/payroll/"},
        {"preserve_host_header": True},
        {"host_rewrite": "payroll.internal"},
        {"host_rewrite_header": "X-Where"},
        {"host_path_regex_rewrite_pattern": "^/([a-z]+)/.*$", "host_path_regex_rewrite_substitution": r"\1.internal"},
        {"tls_server_name": "payroll.internal"},
    ],
)
def test_a_route_that_was_changed_is_another_and_takes_nothing_over(changed: dict[str, str]) -> None:
    policy = [{"allow": {"granted": True}}]
    other = make_route(**{"name": "wiki", "policy": policy, **changed})
    found = decide(request(host=other.from_.host), holder(), table(other), NOW)
    assert found.outcome is Outcome.FORBIDDEN
    assert decide(request(host=other.from_.host), holder(other), table(other), NOW).is_allowed


def test_two_ways_to_one_upstream_are_two_routes() -> None:
    one, other = (make_route(name="wiki", prefix_rewrite=place, policy=[{"allow": {"granted": True}}]) for place in ("/a/", "/b/"))
    assert not decide(request(), holder(one), table(other), NOW).is_allowed
    assert decide(request(), holder(one), table(make_route(name="wiki", prefix_rewrite="/a/", policy=WIKI_POLICY)), NOW).is_allowed


def test_a_route_of_the_same_name_gains_nothing() -> None:
    other = make_route("pay.example.com", name="wiki", policy=[{"allow": {"granted": True}}])
    assert not decide(request(host="pay.example.com"), holder(), table(WIKI, other), NOW).is_allowed


def test_a_deny_is_above_it() -> None:
    policy = [{"allow": {"granted": True}}, {"deny": {"source_ip": "192.0.2.0/24"}}]
    route = make_route(policy=policy)
    assert not decide(request(source_ip="192.0.2.1"), holder(route), table(route), NOW).is_allowed
    assert decide(request(source_ip="198.51.100.1"), holder(route), table(route), NOW).is_allowed
    assert not decide(request(), holder(route), table(route), NOW).is_allowed, "nor is an unknown deny"


def test_a_decision_that_looks_at_it_depends_on_time() -> None:
    (compiled,) = table(WIKI).routes()
    assert compiled.is_time_dependent


def test_explanation_has_grant_period() -> None:
    (compiled,) = table(WIKI).routes()
    found = evaluate_route(request(), holder(), compiled, NOW)
    (row,) = [row for row in trace_rows(found) if row["rule"].endswith("granted")]
    assert (row["result"], row["reason"]) == ("yes", Reason.GRANT_ACTIVE.value)
    assert row["actual"] == "access from 2027-01-15 07:50:00 UTC until 2027-01-15 08:10:00 UTC"
    refused = evaluate_route(request(), user(), compiled, NOW)
    assert user_message(refused).params == {"reasons": join_list([Reason.NO_GROUPS.value, Reason.NO_GRANT.value])}
    assert any("temporary access" in way for way in remedies(refused))


def test_no_grant_without_route() -> None:
    assert not criterion({"granted": True}).evaluate(EvaluationContext(request(), holder(), NOW)).holds


def test_simulated_grant_does_not_expire() -> None:
    found = criterion({"granted": True}).description.actual(
        EvaluationContext(request(), holder(span=GrantPeriod(float("-inf"), float("inf"))), NOW, WIKI)
    )
    assert found == "access from any time until any time"


TOOLS = make_route(
    mcp={},
    allowed_domains=["corp.com"],
    policy=[{"deny": {"and": [{"mcp_tool": {"not_in": ["search"]}}, {"not": {"granted": True}}]}}],
)
ROUTE_KEY, TOOL_KEY = TOOLS.grant_key, tool_grant_key(TOOLS.grant_key, "delete_repo")
ENDED = GrantPeriod(NOW - 600, NOW - 60)


@pytest.mark.parametrize(
    ("grants", "tool", "expected"),
    [
        ({}, "search", Outcome.ALLOWED),
        ({}, "delete_repo", Outcome.FORBIDDEN),
        ({TOOL_KEY: LIVE}, "delete_repo", Outcome.ALLOWED),
        ({TOOL_KEY: LIVE}, "delete_repos", Outcome.FORBIDDEN),
        ({TOOL_KEY: ENDED}, "delete_repo", Outcome.FORBIDDEN),
        ({ROUTE_KEY: LIVE}, "delete_repo", Outcome.ALLOWED),
        ({ROUTE_KEY: ENDED, TOOL_KEY: LIVE}, "delete_repo", Outcome.ALLOWED),
        ({ROUTE_KEY: LIVE, TOOL_KEY: ENDED}, "delete_repo", Outcome.ALLOWED),
        ({tool_grant_key(WIKI.grant_key, "delete_repo"): LIVE}, "delete_repo", Outcome.FORBIDDEN),
    ],
)
def test_access_to_a_tool_allows_its_calls_only(grants: dict[str, GrantPeriod], tool: str, expected: Outcome) -> None:
    call = request(method="POST", mcp=McpMessage("tools/call", tool=tool))
    assert decide(call, user(grants=grants), table(TOOLS), NOW).outcome is expected


@pytest.mark.parametrize("message", [NO_MESSAGE, McpMessage("tools/list"), McpMessage("prompts/get", prompt="delete_repo"), None])
def test_access_to_a_tool_is_none_to_the_route(message: McpMessage | None) -> None:
    route = make_route(mcp={}, access_requests={"approvers": [{"groups": "leads"}], "tools": ["delete_repo"]})
    identity = user(grants={tool_grant_key(route.grant_key, "delete_repo"): LIVE})
    assert decide(request(mcp=message), identity, table(route), NOW).outcome is Outcome.FORBIDDEN
    call = request(mcp=McpMessage("tools/call", tool="delete_repo"))
    assert decide(call, identity, table(route), NOW).outcome is Outcome.ALLOWED


def test_period_is_the_one_with_the_latest_end() -> None:
    later = GrantPeriod(NOW - 600, NOW + 6000)
    call = request(mcp=McpMessage("tools/call", tool="delete_repo"))
    for grants in ({ROUTE_KEY: LIVE, TOOL_KEY: later}, {ROUTE_KEY: later, TOOL_KEY: LIVE}, {TOOL_KEY: later}):
        assert grant_period(EvaluationContext(call, user(grants=grants), NOW, TOOLS)) == later
    assert grant_period(EvaluationContext(request(), user(grants={TOOL_KEY: later}), NOW, TOOLS)) is None
