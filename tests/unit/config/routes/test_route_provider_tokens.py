"""The provider's tokens go only where the operator configures it, and a contradiction is refused when the configuration is loaded."""

from typing import Any

import pytest

from config.routes.route import Route
from config.routes.route_identity_headers import provider_token_templates
from config.routes.upstreams.upstream_credentials import injects_credentials, sets_authorization
from tests.support.options import make_options
from tests.unit.config.conftest import Problems

BEARER = {"Authorization": "Bearer ${access_token}"}
PASSED: dict[str, Any] = {
    "to": "https://app.internal",
    "allow_any_authenticated_user": True,
    "pass_provider_tokens": True,
    "set_request_headers": BEARER,
}
OPEN = {"allow_public_unauthenticated_access": True, "allow_any_authenticated_user": None}
PASS, IN_CLEAR = "pass_provider_tokens", "pass_provider_tokens_unencrypted"


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ({PASS: None}, "set_request_headers.Authorization", "requires pass_provider_tokens: true"),
        ({PASS: None, "set_request_headers": {"X-T": "${id_token}"}}, "set_request_headers.X-T", "requires pass_provider_tokens: true"),
        ({"set_request_headers": {"X-T": "${id_token} ${user}"}}, "set_request_headers.X-T", "contains a token of"),
        ({"set_request_headers": {"X-T": "${access_token}${id_token}"}}, "set_request_headers.X-T", "contains a token of"),
        ({"set_request_headers": {"X-T": "$${id_token}"}}, PASS, "has no effect without"),
        (OPEN, PASS, "requires a route with"),
        ({"to": None, "redirect": {"https_redirect": True}, "allow_any_authenticated_user": None}, PASS, "with an upstream"),
        ({"bearer_token": "idp_id_token"}, PASS, "two routes"),
        ({"to": "http://app.internal:8000"}, PASS, "http://app.internal:8000 unencrypted"),
        ({"to": ["http://127.0.0.1:1", "http://10.0.0.1:2"]}, PASS, "http://10.0.0.1:2 unencrypted"),
        ({IN_CLEAR: True}, IN_CLEAR, "has no effect"),
        ({PASS: None, "set_request_headers": {}, IN_CLEAR: True}, IN_CLEAR, "has no effect without"),
        ({"basic_auth": {"user": "gate", "password": "p"}}, "set_request_headers", "sets Authorization"),
        ({"cluster_service_account_token": "token"}, "set_request_headers", "sets Authorization"),
        ({"enable_cloud_serverless_authentication": True}, "set_request_headers", "sets Authorization"),
        ({"set_request_headers": {"Host": "${id_token}"}}, "set_request_headers.Host", "has no value for"),
        ({"set_request_headers": {"Impersonate_User": "${id_token}"}}, "set_request_headers.Impersonate_User", "has no value for"),
    ],
    ids=str,
)
def test_a_contradiction_is_refused(route_problems: Problems, keys: dict[str, Any], key: str, message: str) -> None:
    assert message in route_problems(**{**PASSED, **keys})[key]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"to": "http://127.0.0.1:8000"},
        {"to": "http://app.internal", IN_CLEAR: True},
        {"basic_auth": {"user": "gate", "password": "p"}, "set_request_headers": {"X-T": "${id_token}"}},
    ],
    ids=str,
)
def test_operator_value_is_used(route_problems: Problems, keys: dict[str, Any]) -> None:
    assert route_problems(**{**PASSED, **keys}) == {}


def test_such_route_needs_gate_data_plane_and_preserves_client_authorization_elsewhere(tmp_path: Any) -> None:
    sending = {**PASSED, "from": "https://app.example.com", "set_request_headers": {"X-Token": "${access_token}", "X-User": "${user}"}}
    route = Route.model_validate(sending)
    options = make_options(tmp_path)
    assert injects_credentials(route, options)
    assert not sets_authorization(route, options)
    assert set(provider_token_templates(route)) == {"X-Token"}


def test_github_gives_no_id_token(problems: Problems) -> None:
    route = {**PASSED, "from": "https://app.example.com"}
    found = problems(idp_provider="github", policy=[{**route, "set_request_headers": {"X-T": "${id_token}"}}, {**route, "prefix": "/b"}])
    key = "policy[0].set_request_headers.X-T"
    assert [found_key for found_key in found if "policy" in found_key] == [key]
    assert "ID token" in found[key]
    assert "github" in found[key]
