"""Settings of bearer tokens: nothing that lets in more than it seems to, and nothing without effect."""

import json
from pathlib import Path

import pytest

from tests.unit.config.conftest import Load, Problems

ROUTE = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allowed_groups": ["a"]}
ISSUER = "https://token.actions.githubusercontent.com"
JWT = {"bearer_token": "jwt", "bearer_token_issuer": ISSUER, "bearer_token_audience": ["https://app.example.com"]}


@pytest.mark.parametrize(
    "keys",
    [
        {"bearer_token": "idp_id_token"},
        {"bearer_token": "idp_access_token", "bearer_token_audience": ["api://app"]},
        {"bearer_token": "idp_access_token", "bearer_token_audience": "*"},
        JWT,
        {**JWT, "bearer_token_jwks_url": f"{ISSUER}/.well-known/jwks"},
        {**JWT, "bearer_token_issuer": "http://127.0.0.1:9000/a/"},
    ],
)
def test_complete_settings_are_accepted(load: Load, keys: dict) -> None:
    route = load(policy=[{**ROUTE, **keys}]).policy[0]
    assert route.bearer_token == keys["bearer_token"]
    assert route.bearer_token_issuer == keys.get("bearer_token_issuer"), "as it is written, slash and all"


@pytest.mark.parametrize(
    ("keys", "invalid"),
    [
        ({"bearer_token": "opaque"}, "bearer_token"),
        ({"bearer_token_issuer": ISSUER}, "bearer_token_issuer"),
        ({"bearer_token_audience": ["x"]}, "bearer_token_audience"),
        ({"bearer_token": "idp_access_token"}, "bearer_token_audience"),
        ({"bearer_token": "idp_access_token", "bearer_token_audience": ["*", "x"]}, "bearer_token_audience"),
        ({"bearer_token": "idp_id_token", "bearer_token_audience": ["x"]}, "bearer_token_audience"),
        ({"bearer_token": "idp_id_token", "bearer_token_issuer": ISSUER}, "bearer_token_issuer"),
        ({**JWT, "bearer_token_audience": ["*"]}, "bearer_token_audience"),
        ({**JWT, "bearer_token_audience": None}, "bearer_token_audience"),
        ({**JWT, "bearer_token_issuer": None}, "bearer_token_issuer"),
        ({**JWT, "bearer_token_issuer": "http://ci.example.com"}, "bearer_token_issuer"),
        ({**JWT, "bearer_token_issuer": f"{ISSUER}#x"}, "bearer_token_issuer"),
        ({**JWT, "bearer_token_jwks_url": "http://ci.example.com/jwks"}, "bearer_token_jwks_url"),
        ({**JWT, "allowed_groups": None, "allow_any_authenticated_user": True}, "allow_any_authenticated_user"),
        ({**JWT, "allowed_idp_claims": {"repository": ["a"], "groups": ["a"]}}, "allowed_idp_claims.groups"),
        ({**JWT, "allowed_idp_claims": {"email": ["a@b.example"]}}, "allowed_idp_claims.email"),
        ({**JWT, "allowed_idp_claims": {"sub": ["a"]}}, "allowed_idp_claims.sub"),
        ({**JWT, "allowed_groups": None, "allow_public_unauthenticated_access": True}, "bearer_token"),
    ],
)
def test_values_granting_more_or_no_access_are_refused(problems: Problems, keys: dict, invalid: str) -> None:
    route = {key: value for key, value in {**ROUTE, **keys}.items() if value is not None}
    assert set(problems(policy=[route])) == {f"policy[0].{invalid}"}


def test_github_gives_no_signed_tokens(load: Load, problems: Problems) -> None:
    github = {"idp_provider": "github", "idp_provider_url": None}
    route = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allowed_users": ["ann"]}
    access = {**route, "bearer_token": "idp_access_token"}
    assert set(problems(**github, policy=[{**route, "bearer_token": "idp_id_token"}])) == {"policy[0].bearer_token"}
    assert set(problems(**github, policy=[{**access, "bearer_token_audience": ["x"]}])) == {"policy[0].bearer_token"}
    assert load(**github, policy=[{**access, "bearer_token_audience": ["*"]}]).policy[0].bearer_token


def test_keys_in_a_file_are_keys(load: Load, problems: Problems, tmp_path: Path) -> None:
    valid, bad = tmp_path / "keys.json", tmp_path / "bad.json"
    valid.write_text(json.dumps({"keys": [{"kty": "RSA"}]}))
    assert load(policy=[{**ROUTE, **JWT, "bearer_token_jwks_file": str(valid)}]).policy[0].bearer_token_jwks_file.content
    for content in ("", "{}", '{"keys": []}', "[]"):
        bad.write_text(content)
        assert set(problems(policy=[{**ROUTE, **JWT, "bearer_token_jwks_file": str(bad)}])) == {"policy[0].bearer_token_jwks_file"}
    both = {**ROUTE, **JWT, "bearer_token_jwks_file": str(valid), "bearer_token_jwks_url": f"{ISSUER}/jwks"}
    assert set(problems(policy=[both])) == {"policy[0].bearer_token_jwks_url"}
