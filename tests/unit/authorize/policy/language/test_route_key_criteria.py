"""Each key of a route that decides who may enter: who gets in by it, and who does not."""

from typing import Any

import pytest

from authorize.policy.criterion import EvaluationContext, TraceStep
from authorize.policy.identity import Identity
from authorize.policy.language.expression_compiler import compile_block
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.reasons import Reason
from tests.unit.authorize.builders import NOW, make_route, request, user

PREFLIGHT = {"origin": b"https://other.example", "access_control_request_method": b"PUT"}


@pytest.mark.parametrize(
    ("entries", "caller", "reason"),
    [
        pytest.param(["ann@corp.com"], user("ann@corp.com"), Reason.USER_LISTED, id="by e-mail"),
        pytest.param(["Ann@CORP.com"], user("aNN@corp.COM"), Reason.USER_LISTED, id="in any case"),
        pytest.param(["oidc/1"], user(subject="1"), Reason.USER_LISTED, id="by user id"),
        pytest.param(["1"], user(subject="1"), Reason.USER_LISTED, id="by subject"),
        pytest.param(["1"], user(subject="01"), Reason.USER_NOT_LISTED, id="another subject"),
        pytest.param(["ABC"], user(subject="abc"), Reason.USER_NOT_LISTED, id="a subject has its case"),
        pytest.param(["google/1"], user(subject="1"), Reason.USER_NOT_LISTED, id="another provider"),
        pytest.param(
            ["ann@corp.com"], user("x@x.org", subject="ann@corp.com"), Reason.USER_NOT_LISTED, id="a subject does not pass for an e-mail"
        ),
        pytest.param(
            ["oidc/a@corp.com"], user("x@x.org", subject="a@corp.com"), Reason.USER_LISTED, id="unless it is written as a user id"
        ),
        pytest.param(["oidc/a@corp.com"], user("oidc/a@corp.com"), Reason.USER_NOT_LISTED, id="an e-mail does not pass for a user id"),
        pytest.param(["ann@corp.com"], user("ann@corp.com.evil"), Reason.USER_NOT_LISTED, id="another domain"),
        pytest.param(["ann@corp.com"], user(""), Reason.EMAIL_NOT_USABLE, id="no usable e-mail"),
        pytest.param(["oidc/2"], user("", subject=""), Reason.USER_NOT_LISTED, id="nothing does not equal nothing"),
    ],
)
def test_allowed_users(entries: list[str], caller: Identity, reason: Reason) -> None:
    check("allowed_users", entries, caller, reason)


@pytest.mark.parametrize(
    ("entries", "caller", "reason"),
    [
        pytest.param(["corp.com"], user("ann@corp.com"), Reason.DOMAIN_LISTED, id="the domain"),
        pytest.param(["CORP.com"], user("ann@corp.com"), Reason.DOMAIN_LISTED, id="in any case"),
        pytest.param(["bücher.example"], user("a@xn--bcher-kva.example"), Reason.DOMAIN_LISTED, id="as U-label and A-label"),
        pytest.param(["corp.com"], user("a@sub.corp.com"), Reason.DOMAIN_NOT_LISTED, id="a subdomain"),
        pytest.param(["corp.com"], user("a@evil-corp.com"), Reason.DOMAIN_NOT_LISTED, id="a suffix"),
        pytest.param(["corp.com"], user("a@corp.com.evil"), Reason.DOMAIN_NOT_LISTED, id="a prefix"),
        pytest.param(["corp.com"], user("a@cоrp.com"), Reason.DOMAIN_NOT_LISTED, id="a look-alike"),
        pytest.param(["corp.com"], user('"a@corp.com"@evil'), Reason.EMAIL_NOT_USABLE, id="a quoted local part"),
        pytest.param(["corp.com"], user(""), Reason.EMAIL_NOT_USABLE, id="no usable e-mail"),
    ],
)
def test_allowed_domains(entries: list[str], caller: Identity, reason: Reason) -> None:
    check("allowed_domains", entries, caller, reason)


@pytest.mark.parametrize(
    ("entries", "caller", "reason"),
    [
        pytest.param(["g1"], user(group_ids=frozenset({"g1"})), Reason.GROUP_LISTED, id="by id"),
        pytest.param(["sales"], user(group_ids=frozenset({"g1"}), group_names=frozenset({"sales"})), Reason.GROUP_LISTED, id="by name"),
        pytest.param(["G1"], user(group_ids=frozenset({"g1"})), Reason.GROUP_NOT_LISTED, id="an id has its case"),
        pytest.param(["g1 "], user(group_ids=frozenset({"g1"})), Reason.GROUP_NOT_LISTED, id="white space counts"),
        pytest.param(["g1"], user(), Reason.NO_GROUPS, id="no groups"),
        pytest.param(["g1"], user(group_ids=frozenset({"g2"}), groups_incomplete=True), Reason.GROUPS_INCOMPLETE, id="not all are known"),
        pytest.param(["g1"], user(group_ids=frozenset({"g1"}), groups_incomplete=True), Reason.GROUP_LISTED, id="listed among others"),
        pytest.param(["g1"], user(groups=("g1",)), Reason.NO_GROUPS, id="groups for upstreams are not compared"),
    ],
)
def test_allowed_groups(entries: list[str], caller: Identity, reason: Reason) -> None:
    check("allowed_groups", entries, caller, reason)


@pytest.mark.parametrize(
    ("wanted", "claims", "holds"),
    [
        pytest.param({"team": ("a",)}, {"team": ("a",)}, True, id="the value"),
        pytest.param({"team": ("a", "b")}, {"team": ("c", "b")}, True, id="any of the values"),
        pytest.param({"x": ("1",), "team": ("a",)}, {"team": ("a",)}, True, id="any of the claims"),
        pytest.param({"realm.role": ("a",)}, {"realm.role": ("a",)}, True, id="a dotted key"),
        pytest.param({"team": ("a",)}, {"team": ("A",)}, False, id="another case"),
        pytest.param({"team": ("a",)}, {"other": ("a",)}, False, id="another claim"),
        pytest.param({"level": (1,)}, {"level": ("1",)}, False, id="a number is not text"),
        pytest.param({"level": (1,)}, {"level": (True,)}, False, id="true is not one"),
        pytest.param({"level": (False,)}, {"level": (0,)}, False, id="false is not zero"),
        pytest.param({"level": (True,)}, {"level": (True,)}, True, id="true is true"),
        pytest.param({"level": (0,)}, {"level": (False,)}, False, id="zero is not false"),
        pytest.param({"team": ("a",)}, {"team": ()}, False, id="a claim without a value"),
    ],
)
def test_allowed_claims(wanted: dict[str, tuple[Any, ...]], claims: dict[str, tuple[Any, ...]], holds: bool) -> None:
    reason = Reason.CLAIM_LISTED if holds else Reason.CLAIM_NOT_LISTED
    check("allowed_idp_claims", wanted, user(claims=claims), reason)


def test_any_user_requires_sign_in() -> None:
    check("allow_any_authenticated_user", True, user(""), Reason.SIGNED_IN)


@pytest.mark.parametrize(
    ("method", "headers", "holds"),
    [
        ("OPTIONS", PREFLIGHT, True),
        ("OPTION", PREFLIGHT, False),
        ("GET", PREFLIGHT, False),
        ("OPTIONS", {"origin": b"https://other.example"}, False),
        ("OPTIONS", {"access_control_request_method": b"PUT"}, False),
    ],
)
def test_only_complete_preflight_matches(method: str, headers: dict[str, bytes], holds: bool) -> None:
    (step,) = steps("cors_allow_preflight", True, None, request(method=method, **headers))
    assert (step.holds, step.reason) == (holds, Reason.PREFLIGHT if holds else Reason.NOT_PREFLIGHT)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("allow_any_authenticated_user", True),
        ("allowed_users", ["a@b.c"]),
        ("allowed_groups", ["g"]),
        ("allowed_domains", ["b.c"]),
        ("allowed_idp_claims", {"a": [1]}),
        ("identity_providers", ["okta"]),
        ("acr_values", ["mfa"]),
        ("max_age", "15m"),
    ],
)
def test_anonymous_caller_satisfies_no_identity_rule(key: str, value: Any) -> None:
    (step,) = steps(key, value, None)
    assert (step.rule, step.holds, step.reason) == (key, False, Reason.NOT_SIGNED_IN)


def test_each_claim_has_its_step() -> None:
    found = steps("allowed_idp_claims", {"x": ["1", "2"], "team": ["a"]}, user(claims={"team": ("a",)}))
    assert [(step.rule, step.reason, step.description.expected) for step in found if step.description] == [
        ("allowed_idp_claims", Reason.CLAIM_NOT_LISTED, "x: 1, 2"),
        ("allowed_idp_claims", Reason.CLAIM_LISTED, "team: a"),
    ]


def steps(key: str, value: Any, caller: Identity | None, incoming: PolicyRequest | None = None) -> list[TraceStep]:
    """Steps that the one block of the key leaves."""
    (block,) = make_route(**{key: value}).blocks
    trace: list[TraceStep] = []
    compile_block(block)(EvaluationContext(incoming or request(), caller, NOW), trace)
    return trace


def check(key: str, value: Any, caller: Identity, reason: Reason) -> None:
    step = steps(key, value, caller)[-1]
    holds = reason.name.endswith(("_LISTED", "SIGNED_IN")) and "NOT" not in reason.name
    assert (step.rule, step.reason, step.holds) == (key, reason, holds)
