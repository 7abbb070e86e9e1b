"""May this caller make this request?"""

from typing import Any

import pytest

from authorize.policy.decision import Decision, Outcome, decide
from authorize.policy.identity import Identity
from authorize.policy.reasons import Reason
from tests.unit.authorize.builders import NOW, make_route, request, table, user

ALLOWED, SIGN_IN, FORBIDDEN, NO_ROUTE = Outcome.ALLOWED, Outcome.SIGN_IN, Outcome.FORBIDDEN, Outcome.NO_ROUTE


def decision(keys: dict[str, Any], caller: Identity | None, **facts: Any) -> Decision:
    return decide(request(**facts), caller, table(make_route(**keys)), NOW)


@pytest.mark.parametrize(
    ("keys", "caller", "outcome", "reason"),
    [
        pytest.param({"allow_public_unauthenticated_access": True}, None, ALLOWED, Reason.PUBLIC, id="public, no user"),
        pytest.param({"allow_public_unauthenticated_access": True}, user(), ALLOWED, Reason.PUBLIC, id="public, a user"),
        pytest.param({"to": None, "redirect": {"https_redirect": True}}, None, ALLOWED, Reason.REDIRECT, id="a redirect needs no sign-in"),
        pytest.param({"allow_any_authenticated_user": True}, None, SIGN_IN, Reason.NOT_SIGNED_IN, id="any user, no user"),
        pytest.param({"allow_any_authenticated_user": True}, user(), ALLOWED, Reason.SIGNED_IN, id="any user"),
        pytest.param({"allowed_users": ["ann@corp.com"]}, user(), ALLOWED, Reason.USER_LISTED, id="a listed user"),
        pytest.param({"allowed_users": ["bob@corp.com"]}, user(), FORBIDDEN, Reason.USER_NOT_LISTED, id="another user"),
        pytest.param({"allowed_domains": ["corp.com"]}, user(), ALLOWED, Reason.DOMAIN_LISTED, id="a listed domain"),
        pytest.param({"allowed_domains": ["corp.org"]}, user(), FORBIDDEN, Reason.DOMAIN_NOT_LISTED, id="another domain"),
        pytest.param({"allowed_groups": ["g"]}, user(group_ids=frozenset({"g"})), ALLOWED, Reason.GROUP_LISTED, id="a listed group"),
        pytest.param({"allowed_groups": ["g"]}, user(), FORBIDDEN, Reason.NO_GROUPS, id="no group"),
        pytest.param(
            {"allowed_idp_claims": {"a": {"b": "c"}}}, user(claims={"a.b": ("c",)}), ALLOWED, Reason.CLAIM_LISTED, id="a listed claim"
        ),
        pytest.param({"allowed_idp_claims": {"a": ["c"]}}, user(), FORBIDDEN, Reason.CLAIM_NOT_LISTED, id="no such claim"),
        pytest.param({"allowed_users": ["x@x.org"]}, None, SIGN_IN, Reason.NOT_SIGNED_IN, id="a list, no user"),
    ],
)
def test_each_rule_decides(keys: dict[str, Any], caller: Identity | None, outcome: Outcome, reason: Reason) -> None:
    keys = {key: value for key, value in keys.items() if value is not None}
    found = decision(keys, caller)
    assert (found.outcome, found.trace[-1].reason, found.is_allowed) == (outcome, reason, outcome is ALLOWED)


def test_route_without_rules_denies() -> None:
    assert (decision({}, user()).outcome, decision({}, None).outcome) == (FORBIDDEN, SIGN_IN)


def test_an_unknown_host_or_path_has_no_route() -> None:
    found = decide(request("/b"), user(), table(make_route(prefix="/a", allow_public_unauthenticated_access=True)), NOW)
    assert (found.outcome, found.compiled_route, found.trace) == (NO_ROUTE, None, ())


@pytest.mark.parametrize("listed", ["allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims"])
def test_one_hit_in_any_list_is_enough(listed: str) -> None:
    hits: dict[str, Any] = {
        "allowed_users": ["1"],
        "allowed_groups": ["g"],
        "allowed_domains": ["corp.com"],
        "allowed_idp_claims": {"c": "1"},
    }
    misses: dict[str, Any] = {
        "allowed_users": ["no"],
        "allowed_groups": ["no"],
        "allowed_domains": ["no.org"],
        "allowed_idp_claims": {"c": "no"},
    }
    caller = user(group_ids=frozenset({"g"}), claims={"c": ("1",)})
    assert decision({**misses, listed: hits[listed]}, caller).is_allowed
    assert not decision(misses, caller).is_allowed


def test_the_trace_holds_every_rule_looked_at_and_nothing_after_the_one_that_decided() -> None:
    caller = user(group_ids=frozenset({"g"}))
    found = decision({"allowed_domains": ["corp.com"], "allowed_groups": ["g"], "allowed_users": ["no"]}, caller)
    assert [(step.rule, step.holds) for step in found.trace] == [("allowed_users", False), ("allowed_groups", True)]


def test_a_preflight_passes_only_where_the_route_lets_it() -> None:
    facts = {"method": "OPTIONS", "origin": b"https://o.example", "access_control_request_method": b"PUT"}
    assert decision({"cors_allow_preflight": True}, None, **facts).is_allowed
    assert decision({}, None, **facts).outcome is SIGN_IN
    assert decision({"cors_allow_preflight": True}, None).outcome is SIGN_IN


@pytest.mark.parametrize("target", ["/secret?x=/.gate/", "/secret?/.gate/callback/", "/secret?/ping", "/secret/.gate/"])
def test_nothing_in_the_query_opens_a_route(target: str) -> None:
    assert decision({"allow_any_authenticated_user": True}, None, target=target).outcome is SIGN_IN
