"""An allowed user whose sign-in is too weak or too old is redirected to a stronger one.  No other outcome changes."""

from typing import Any

import pytest

from authorize.policy import decision_text
from authorize.policy.decision import Decision, Outcome, decide
from authorize.policy.identity import Identity
from authorize.policy.reasons import Reason
from tests.unit.authorize.builders import NOW, make_route, request, table, user

ANY = {"allow_any_authenticated_user": True}
MFA, AGE = {"acr_values": ["mfa", "hw"]}, {"max_age": "15m"}
ALLOWED, SIGN_IN, STEP_UP, FORBIDDEN = Outcome.ALLOWED, Outcome.SIGN_IN, Outcome.STEP_UP, Outcome.FORBIDDEN


def decision_for(keys: dict[str, Any], caller: Identity | None, **facts: Any) -> Decision:
    return decide(request(**facts), caller, table(make_route(**keys)), NOW)


def signed_in_user(acr: Any = None, ago: float = 0.0, **facts: Any) -> Identity:
    claims = {} if acr is None else {"acr": acr if isinstance(acr, tuple) else (acr,)}
    return user(claims=claims, auth_time=NOW - ago, **facts)


@pytest.mark.parametrize(
    ("keys", "caller", "outcome", "reason"),
    [
        pytest.param({**ANY, **MFA}, signed_in_user("mfa"), ALLOWED, Reason.SIGNED_IN, id="strong"),
        pytest.param({**ANY, **MFA}, signed_in_user("hw"), ALLOWED, Reason.SIGNED_IN, id="strong otherwise"),
        pytest.param({**ANY, **MFA}, signed_in_user("pwd"), STEP_UP, Reason.ACR_NOT_MET, id="weak"),
        pytest.param({**ANY, **MFA}, signed_in_user("MFA"), STEP_UP, Reason.ACR_NOT_MET, id="another case is another way"),
        pytest.param({**ANY, **MFA}, signed_in_user(), STEP_UP, Reason.ACR_UNKNOWN, id="unknown strength"),
        pytest.param({**ANY, **MFA}, signed_in_user(("mfa", "pwd")), STEP_UP, Reason.ACR_UNKNOWN, id="two strengths"),
        pytest.param({**ANY, **MFA}, signed_in_user(1), STEP_UP, Reason.ACR_UNKNOWN, id="a strength that is a number"),
        pytest.param({**ANY, **AGE}, signed_in_user(ago=900), ALLOWED, Reason.SIGNED_IN, id="recent"),
        pytest.param({**ANY, **AGE}, signed_in_user(ago=901), STEP_UP, Reason.SIGN_IN_TOO_OLD, id="old"),
        pytest.param({**ANY, **AGE}, user(), STEP_UP, Reason.AGE_UNKNOWN, id="unknown sign-in time"),
        pytest.param({**ANY, **MFA, **AGE}, signed_in_user("mfa", 901), STEP_UP, Reason.SIGN_IN_TOO_OLD, id="strong but old"),
        pytest.param({**ANY, **MFA, **AGE}, signed_in_user("pwd", 1), STEP_UP, Reason.ACR_NOT_MET, id="recent but weak"),
        pytest.param({**ANY, **MFA, **AGE}, None, SIGN_IN, Reason.NOT_SIGNED_IN, id="no user"),
        pytest.param(
            {"allowed_users": ["x@x.org"], **MFA}, signed_in_user("pwd"), FORBIDDEN, Reason.USER_NOT_LISTED, id="no way in anyway"
        ),
    ],
)
def test_each_sign_in_meets_its_answer(keys: dict[str, Any], caller: Identity | None, outcome: Outcome, reason: Reason) -> None:
    decision = decision_for(keys, caller)
    assert (decision.outcome, decision.trace[-1].reason) == (outcome, reason)
    assert decision.is_allowed is (outcome is ALLOWED)


def test_a_refusal_by_rules_on_the_sign_in_itself_is_lifted_by_another_one() -> None:
    for keys in (
        {"policy": [{"allow": {"acr": "mfa"}}], **MFA},
        {"policy": [{"allow": {"claim/amr": "otp"}}], **MFA},
        {**ANY, "policy": [{"deny": {"session_age": {"at_least": "8h"}}}], "acr_values": ["mfa"]},
        {"allowed_idp_claims": {"acr": ["mfa"]}, **MFA},
    ):
        assert decision_for(keys, signed_in_user("pwd", issued_at=NOW - 9 * 3600)).outcome is STEP_UP, keys
    # A user whose sign-in is strong enough, and who is denied, remains denied.
    assert decision_for({"policy": [{"allow": {"acr": "hw"}}], **MFA}, signed_in_user("mfa")).outcome is FORBIDDEN
    assert decision_for({"policy": [{"allow": {"email": "x@x.org"}}], **MFA}, signed_in_user("pwd")).outcome is FORBIDDEN


def test_requirement_applies_without_identity() -> None:
    by_address = {"policy": [{"allow": {"source_ip": "192.0.2.0/24"}}], **MFA}
    assert decision_for(by_address, None, source_ip="192.0.2.1").outcome is SIGN_IN
    assert decision_for(by_address, signed_in_user("pwd"), source_ip="192.0.2.1").outcome is STEP_UP
    assert decision_for(by_address, signed_in_user("mfa"), source_ip="192.0.2.1").outcome is ALLOWED


def test_preflight_needs_no_step_up() -> None:
    facts = {"method": "OPTIONS", "origin": b"https://a.example", "access_control_request_method": b"GET"}
    decision = decision_for({**ANY, **MFA, "cors_allow_preflight": True}, None, **facts)
    assert decision.is_allowed
    assert decision.is_preflight


def test_the_trace_shows_it_as_a_step() -> None:
    weak = decision_for({**ANY, **MFA, **AGE}, signed_in_user("pwd", 60))
    assert [(row["rule"], row["holds"]) for row in decision_text.trace_rows(weak)] == [
        ("allow_any_authenticated_user", True),
        ("acr_values", False),
    ]
    assert decision_text.user_message(weak).params == {"reason": weak.trace[-1].reason.value}
    assert "mfa" not in decision_text.user_message(weak)
    assert decision_text.remedies(weak) == ["acr_values: one of hw, mfa"]
    assert decision_text.decisive_rows(weak) == [1]
    strong = decision_for({**ANY, **MFA, **AGE}, signed_in_user("mfa", 60))
    assert [row["rule"] for row in decision_text.trace_rows(strong)] == ["acr_values", "max_age", "allow_any_authenticated_user"]
    old = decision_for({**ANY, **AGE}, signed_in_user(ago=3600))
    assert decision_text.trace_rows(old)[-1] | {"reason": ""} == {
        "rule": "max_age", "holds": False, "result": "no", "reason": "", "actual": "1:00:00", "expected": "at most 0:15:00",
    }  # fmt: skip


def test_routes_without_requirements_have_none() -> None:
    (plain,) = table(make_route(**ANY)).routes()
    assert (plain.authentication_requirements, plain.is_time_dependent) == ((), False)
    (timed,) = table(make_route(**ANY, **AGE)).routes()
    assert timed.is_time_dependent
