"""Findings on user entries that can never match."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.authorize.test_config_checks import checked

CI = "https://ci.example.com"
APP = {"from": "https://app.example.com", "to": "http://a"}
JWT = {**APP, "bearer_token": "jwt", "bearer_token_issuer": CI, "bearer_token_audience": ["https://app.example.com"]}
USERS, ADMINS, POLICY = "policy[0].allowed_users[0]", "admin_allowed_users[0]", "policy[0].policy[0].allow.user"


def warnings_for(directory: Path, **settings: Any) -> dict[str, str]:
    """Return key path -> message, with errors in capitals."""
    found = checked(directory, **settings)
    return {problem.key: problem.message.upper() for problem in found.errors} | {
        problem.key: problem.message for problem in found.warnings if problem.rule == "doubtful-name"
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("alice", ""),
        ("ann@corp.example", ""),
        ("oidc/alice", ""),
        ("oidc/google/alice", ""),
        ("service_account/deploy", ""),
        ("google/alice", "idp_provider is oidc"),
        ("team/alice", "as oidc/team/alice"),
        ("jwt/bot", "write https://issuer#sub"),
        (f"{CI}#bot", "refers to a token"),
        ("a@b@c", "IS NOT AN E-MAIL ADDRESS"),
        ("oidc/", "MUST HAVE A PROVIDER AND A SUBJECT"),
        (CI, "WRITE HTTPS://ISSUER#SUB"),
    ],
)
def test_unmatchable_entry_is_reported_at_every_location(tmp_path: Path, entry: str, message: str) -> None:
    for key, settings in (
        (USERS, {"policy": [{**APP, "allowed_users": [entry]}]}),
        (POLICY, {"policy": [{**APP, "policy": [{"allow": {"user": entry}}]}]}),
        (ADMINS, {"admin_allowed_users": [entry]}),
    ):
        found = warnings_for(tmp_path, **settings)
        assert set(found) == ({key} if message else set()), found
        assert message in found.get(key, "")


def test_policy_test_with_unmatchable_user_fails(tmp_path: Path) -> None:
    test = {"url": "https://app.example.com/", "user": "oidc/", "expect": "refuse"}
    found = warnings_for(tmp_path, policy=[{**APP, "allowed_users": ["alice"]}], policy_tests=[test])
    assert "MUST HAVE A PROVIDER AND A SUBJECT" in found["policy_tests[0]"]


def test_entry_of_accepted_issuer_is_valid(tmp_path: Path) -> None:
    assert warnings_for(tmp_path, policy=[{**JWT, "allowed_users": [f"{CI}#bot"]}]) == {}
    other = warnings_for(tmp_path, policy=[{**JWT, "allowed_users": [f"{CI}#bot", "https://other.example#bot"]}])
    assert set(other) == {"policy[0].allowed_users[1]"}


@pytest.mark.parametrize(
    "rule", [{"allowed_users": ["repo:a", "ann@corp.example"]}, {"allowed_groups": ["engineering"]}, {"allowed_domains": ["corp.example"]}]
)
def test_bearer_route_without_matching_rule_is_reported(tmp_path: Path, rule: dict[str, Any]) -> None:
    assert "allows no token: addresses" in warnings_for(tmp_path, policy=[{**JWT, **rule}])["policy[0].bearer_token"]


@pytest.mark.parametrize(
    "rule",
    [
        {"allowed_users": [f"{CI}#bot", "alice"]},
        {"allowed_idp_claims": {"repository": ["a/b"]}},
        {"policy": [{"allow": {"claim/repository": "a/b"}}]},
        {"policy": [{"allow": {"and": [{"claim/iss": CI}, {"claim/groups": "ops"}]}}]},
    ],
)
def test_bearer_route_with_matching_rule_is_valid(tmp_path: Path, rule: dict[str, Any]) -> None:
    assert warnings_for(tmp_path, policy=[{**JWT, **rule}]) == {}


@pytest.mark.parametrize("claim", ["sub", "email", "groups"])
def test_identifying_claims_need_issuer(tmp_path: Path, claim: str) -> None:
    found = warnings_for(tmp_path, policy=[{**JWT, "policy": [{"allow": {f"claim/{claim}": "x"}}]}])
    assert "matches users of the" in found[f"policy[0].policy[0].allow.claim/{claim}"]
    listed = warnings_for(tmp_path, policy=[{**JWT, "allowed_idp_claims": {claim: ["x"]}}])
    assert f"CLAIM/{claim.upper()}" in listed[f"policy[0].allowed_idp_claims.{claim}"]
    assert warnings_for(tmp_path, policy=[{**APP, "allowed_idp_claims": {claim: ["x"]}}]) == {}, "of our provider alone"
