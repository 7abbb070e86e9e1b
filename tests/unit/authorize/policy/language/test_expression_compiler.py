"""Blocks of allow and deny: their combined result, and their trace."""

from typing import Any

import pytest

from authorize.policy.decision import Decision, Outcome, decide
from authorize.policy.decision_text import user_message
from authorize.policy.identity import Identity
from authorize.policy.reasons import Reason
from foundation.errors import ConfigError
from tests.unit.authorize.builders import NOW, make_route, request, table, user

ALLOWED, SIGN_IN, FORBIDDEN = Outcome.ALLOWED, Outcome.SIGN_IN, Outcome.FORBIDDEN
TRUE, FALSE = {"http_method": "GET"}, {"http_method": "POST"}
UNKNOWN = {"claim/missing": "x"}
ANN = {"user": "ann@corp.com"}
PREFLIGHT = {"method": "OPTIONS", "origin": b"https://o.example", "access_control_request_method": b"PUT"}


def decision(policy: Any, caller: Identity | None = None, keys: dict[str, Any] | None = None, **facts: Any) -> Decision:
    return decide(request(**facts), caller, table(make_route(policy=policy, **(keys or {}))), NOW)


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        (TRUE, ALLOWED),
        (FALSE, FORBIDDEN),
        (UNKNOWN, FORBIDDEN),
        ({"not": FALSE}, ALLOWED),
        ({"not": [FALSE]}, ALLOWED),
        ({"not": TRUE}, FORBIDDEN),
        ({"not": UNKNOWN}, FORBIDDEN),
        ({"not": {"not": UNKNOWN}}, FORBIDDEN),
        ({"and": [TRUE, TRUE]}, ALLOWED),
        ({"and": [TRUE, FALSE]}, FORBIDDEN),
        ({"and": [TRUE, UNKNOWN]}, FORBIDDEN),
        ({"or": [FALSE, TRUE]}, ALLOWED),
        ({"or": [UNKNOWN, TRUE]}, ALLOWED),
        ({"or": [UNKNOWN, FALSE]}, FORBIDDEN),
        ({"nor": [FALSE, FALSE]}, ALLOWED),
        ({"nor": [FALSE, TRUE]}, FORBIDDEN),
        ({"nor": [FALSE, UNKNOWN]}, FORBIDDEN),
        ({"not": {"and": [UNKNOWN, FALSE]}}, ALLOWED),
        ({"and": [{"or": [FALSE, TRUE]}, {"nor": [FALSE]}]}, ALLOWED),
    ],
)
def test_an_allow_lets_in_where_it_certainly_holds(expression: dict[str, Any], outcome: Outcome) -> None:
    assert decision([{"allow": expression}], user()).outcome is outcome


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        (FALSE, ALLOWED),
        (TRUE, FORBIDDEN),
        (UNKNOWN, FORBIDDEN),
        ({"not": UNKNOWN}, FORBIDDEN),
        ({"nor": [TRUE]}, ALLOWED),
        ({"or": [FALSE, UNKNOWN]}, FORBIDDEN),
        ({"and": [FALSE, UNKNOWN]}, ALLOWED),
    ],
)
def test_a_deny_keeps_out_unless_it_certainly_does_not_hold(expression: dict[str, Any], outcome: Outcome) -> None:
    keys = {"allow_any_authenticated_user": True}
    assert decision([{"deny": expression}], user(), keys).outcome is outcome


@pytest.mark.parametrize(
    "keys",
    [
        {"allow_public_unauthenticated_access": True},
        {"allow_any_authenticated_user": True},
        {"allowed_users": ["ann@corp.com"]},
        {"allowed_domains": ["corp.com"]},
        {"allowed_idp_claims": {"a": "b"}},
        {"cors_allow_preflight": True},
    ],
    ids=str,
)
def test_a_deny_outranks_every_grant(keys: dict[str, Any]) -> None:
    facts = PREFLIGHT if "cors_allow_preflight" in keys else {}
    caller = user(claims={"a": ("b",)})
    assert decision([{"deny": {"http_method": "PUT"}}], caller, keys, **facts).outcome is ALLOWED
    assert decision([{"deny": {"http_method": ["GET", "OPTIONS"]}}], caller, keys, **facts).outcome is FORBIDDEN


def test_one_allow_block_of_several_is_enough_and_one_deny_block_too_much() -> None:
    assert decision([{"allow": FALSE}, {"allow": TRUE}]).outcome is ALLOWED
    assert decision([{"allow": TRUE}, {"deny": FALSE}, {"deny": TRUE}]).outcome is FORBIDDEN
    assert decision({"allow": TRUE, "deny": FALSE}).outcome is ALLOWED


@pytest.mark.parametrize(
    ("policy", "keys", "outcome"),
    [
        pytest.param([{"allow": ANN}], {}, SIGN_IN, id="a user is required"),
        pytest.param([{"allow": {"not": ANN}}], {}, SIGN_IN, id="any user except one"),
        pytest.param([{"allow": {"and": [ANN, FALSE]}}], {}, FORBIDDEN, id="signing in could not help"),
        pytest.param([{"allow": {"or": [ANN, FALSE]}}], {}, SIGN_IN, id="signing in could help"),
        pytest.param([{"allow": {"and": [ANN, {"source_ip": "10.0.0.1"}]}}], {}, FORBIDDEN, id="signing in cannot help an unknown address"),
        pytest.param([{"allow": {"nor": [ANN, TRUE]}}], {}, FORBIDDEN, id="none of them, and one holds already"),
        pytest.param([{"deny": ANN}], {"allow_public_unauthenticated_access": True}, SIGN_IN, id="a public route that denies a user"),
        pytest.param([{"deny": ANN}], {"allow_any_authenticated_user": True}, SIGN_IN, id="the user decides the deny"),
        pytest.param([{"deny": {"or": [ANN, TRUE]}}], {"allow_any_authenticated_user": True}, FORBIDDEN, id="denied for every user"),
        pytest.param([{"deny": {"and": [ANN, FALSE]}}], {"allow_public_unauthenticated_access": True}, ALLOWED, id="not denied"),
        pytest.param([{"deny": {"and": [ANN, UNKNOWN]}}], {"allow_public_unauthenticated_access": True}, SIGN_IN, id="may not hold"),
        pytest.param([{"deny": ANN}, {"deny": TRUE}], {"allow_any_authenticated_user": True}, FORBIDDEN, id="a later deny is certain"),
        pytest.param([{"deny": FALSE}], {}, FORBIDDEN, id="no rule could allow a user"),
    ],
)  # fmt: skip
def test_anonymous_caller_is_prompted_only_if_sign_in_may_help(policy: Any, keys: dict[str, Any], outcome: Outcome) -> None:
    assert decision(policy, None, keys).outcome is outcome


def test_preflight_ignores_identity_deny_rules() -> None:
    keys = {"cors_allow_preflight": True, "allow_any_authenticated_user": True}
    found = decision([{"deny": ANN}], None, keys, **PREFLIGHT)
    assert (found.outcome, found.is_preflight) == (ALLOWED, True)
    assert (
        decision([{"deny": {"or": [ANN, {"source_ip": "10.0.0.0/8"}]}}], None, keys, source_ip="10.1.1.1", **PREFLIGHT).outcome is FORBIDDEN
    )


def test_the_trace_names_each_criterion_by_its_place_and_ends_with_the_block() -> None:
    found = decision([{"deny": FALSE}, {"allow": {"and": [TRUE, {"or": [FALSE, ANN]}]}}], user())
    assert [(step.rule, step.holds) for step in found.trace] == [
        ("policy[0].deny.http_method", False),
        ("policy[0].deny", False),
        ("policy[1].allow.and[0].http_method", True),
        ("policy[1].allow.and[1].or[0].http_method", False),
        ("policy[1].allow.and[1].or[1].user", True),
        ("policy[1].allow", True),
    ]
    assert found.trace[-1].reason is Reason.ALLOWED_BY_POLICY


def test_step_has_actual_and_expected_value() -> None:
    found = decision([{"allow": {"source_ip": {"not_cidr": "10.0.0.0/8"}}}], user(), source_ip="10.1.2.3")
    description = found.trace[0].description
    assert description is not None
    assert found.context is not None
    assert (description.actual(found.context), description.expected) == ("10.1.2.3", "not_cidr 10.0.0.0/8")


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ([{"allow": {"user": "bob@corp.com"}}], Reason.USER_NOT_LISTED),
        ([{"allow": {"and": [{"user": "bob@corp.com"}, TRUE]}}], Reason.USER_NOT_LISTED),
        ([{"allow": {"not": ANN}}], Reason.NOT_ALLOWED_BY_POLICY),
        ([{"allow": {"not": {"and": [{"not": {"user": "bob@corp.com"}}, TRUE]}}}], Reason.NOT_ALLOWED_BY_POLICY),
        ([{"allow": {"user": {"not_in": ["ann@corp.com"]}}}], Reason.NOT_ALLOWED_BY_POLICY),
        ([{"allow": TRUE}, {"deny": ANN}], Reason.DENIED_BY_POLICY),
        ([{"allow": TRUE}, {"deny": UNKNOWN}], Reason.DENY_UNKNOWN),
    ],
)
def test_denied_user_gets_disclosed_reason(policy: Any, reason: Reason) -> None:
    assert user_message(decision(policy, user())).params == {"reasons": reason.value}


def test_an_operand_that_makes_no_sense_to_the_policy_is_a_problem_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        table(make_route(policy=[{"allow": {"or": [TRUE, {"domain": "-corp-"}]}}, {"deny": {"http_path": "/a/%zz/..%2F"}}]))
    assert [problem.key for problem in caught.value.problems] == [
        "policy[0].policy[0].allow.or[1].domain",
        "policy[0].policy[1].deny.http_path",
    ]
