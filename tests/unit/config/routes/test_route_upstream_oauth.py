"""Settings of upstream OAuth: endpoints, the client, the URI of the server, and routes that may have it."""

from typing import Any

import pytest

from config.routes.route_upstream_oauth import upstream_oauth_settings, upstream_resource_uri
from tests.unit.authorize.builders import make_route
from tests.unit.config.conftest import Load, Problems

ROUTE = {"from": "https://app.example.com", "to": "https://mcp.example.org", "allow_any_authenticated_user": True}
OAUTH = {
    "client_id": "gate",
    "authorization_url": "https://login.example.org/authorize?prompt=consent",
    "token_url": "https://login.example.org/token",
}


def route(oauth: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    mcp = {"path": "/mcp", "upstream_oauth": {**OAUTH, **(oauth or {})}}
    return {name: value for name, value in {**ROUTE, "mcp": mcp, **keys}.items() if value is not None}


def test_defaults_and_secret_file(load: Load) -> None:
    settings = upstream_oauth_settings(load(policy=[route()]).policy[0])
    assert settings is not None
    assert (settings.client_secret, settings.client_auth_method, settings.scopes) == (None, "client_secret_basic", ())
    assert (settings.revocation_url, settings.issuer, settings.resource) == (None, None, None)
    assert upstream_oauth_settings(load(policy=[{**ROUTE, "mcp": {}}]).policy[0]) is None


@pytest.mark.parametrize(
    ("oauth", "key", "message"),
    [
        ({"client_id": 7}, "client_id", "must be text"),
        ({"client_id": "gäte"}, "client_id", "must be the client_id"),
        ({"client_id": "x" * 513}, "client_id", "at most 512"),
        ({"client_secret": "a\u00e4"}, "client_secret", "the client secret"),
        ({"client_auth_method": "private_key_jwt"}, "client_auth_method", "must be one of client_secret_basic, client_secret_post"),
        ({"scopes": ["a b"]}, "scopes", "must be scopes"),
        ({"scopes": [f"s{number}" for number in range(65)]}, "scopes", "at most 64"),
        ({"authorization_url": "http://login.example.org/a"}, "authorization_url", "must be an https URL"),
        ({"token_url": "http://login.example.org/t"}, "token_url", "must be an https URL"),
        ({"token_url": "login"}, "token_url", "needs a scheme"),
        ({"revocation_url": "http://login.example.org/r"}, "revocation_url", "must be an https URL"),
        ({"issuer": "https://login.example.org?x=1"}, "issuer", "no query"),
        ({"resource": "https://mcp.example.org/mcp?x=1"}, "resource", "no query"),
        ({"tenant": "x"}, "tenant", ""),
    ],
)
def test_invalid_settings_are_reported_at_their_key(problems: Problems, oauth: dict[str, Any], key: str, message: str) -> None:
    assert message in problems(policy=[route(oauth)])[f"policy[0].mcp.upstream_oauth.{key}"]


def test_everything_is_discovered_by_default(load: Load) -> None:
    settings = upstream_oauth_settings(load(policy=[{**ROUTE, "mcp": {"path": "/mcp", "upstream_oauth": {}}}]).policy[0])
    assert settings is not None
    assert (settings.client_id, settings.authorization_url, settings.token_url) == (None, None, None)


@pytest.mark.parametrize(
    ("oauth", "key", "message"),
    [
        ({"authorization_url": "https://l.example.org/a"}, "authorization_url", "needs token_url"),
        ({"token_url": "https://l.example.org/t"}, "token_url", "needs authorization_url"),
        ({"revocation_url": "https://l.example.org/r"}, "revocation_url", "has no effect"),
        ({"client_secret": "x"}, "client_secret", "requires client_id"),
        ({"client_id": "x", "client_secret": "y"}, "issuer", "is required"),
    ],
)
def test_incomplete_client(problems: Problems, oauth: dict[str, Any], key: str, message: str) -> None:
    assert message in problems(policy=[{**ROUTE, "mcp": {"upstream_oauth": oauth}}])[f"policy[0].mcp.upstream_oauth.{key}"]


@pytest.mark.parametrize(
    ("keys", "place", "message"),
    [
        ({"allow_any_authenticated_user": None, "allow_public_unauthenticated_access": True}, "", "needs a signed-in user"),
        ({"bearer_token": "idp_access_token"}, "", "cannot be combined with bearer_token"),
        ({"basic_auth": {"user": "gate", "password": "x"}}, "", "cannot be combined with basic_auth"),
        ({"cluster_service_account_token": "x"}, "", "cannot be combined with cluster_service_account_token"),
        ({"enable_cloud_serverless_authentication": True}, "", "cannot be combined with enable_cloud"),
        ({"from": "https://*.example.com"}, "", "without a wildcard"),
        ({"to": "http://mcp.example.org"}, "", "unencrypted"),
        ({"to": ["https://a.example.org", "https://b.example.org"]}, ".resource", "required with several upstreams"),
        ({"host_rewrite": "mcp.example.net"}, ".resource", "several upstreams or a rewrite"),
    ],
)
def test_routes_that_may_not_have_it(problems: Problems, keys: dict[str, Any], place: str, message: str) -> None:
    assert message in problems(policy=[route(**keys)]).get(f"policy[0].mcp.upstream_oauth{place}", "")


def test_header_of_the_route_may_not_replace_the_token(problems: Problems) -> None:
    found = problems(policy=[route(set_request_headers={"Authorization": "Bearer x"})])
    assert "sets Authorization" in found["policy[0].set_request_headers"]


@pytest.mark.parametrize(
    ("keys", "uri"),
    [
        ({"to": "https://mcp.example.org", "mcp": {"path": "/mcp"}}, "https://mcp.example.org/mcp"),
        ({"to": "https://mcp.example.org/base/", "mcp": {"path": "/mcp"}}, "https://mcp.example.org/base/mcp"),
        ({"to": "https://mcp.example.org", "mcp": {}}, "https://mcp.example.org"),
        ({"to": "https://mcp.example.org:8443", "path": "/mcp", "mcp": {}}, "https://mcp.example.org:8443/mcp"),
        ({"to": "https://mcp.example.org", "mcp": {"oauth": {"resource": "https://x.example.org/y/"}}}, "https://x.example.org/y"),
    ],
)
def test_uri_of_the_server(keys: dict[str, Any], uri: str) -> None:
    mcp = dict(keys["mcp"])
    oauth = mcp.pop("oauth", {})
    assert upstream_resource_uri(make_route(**{**keys, "mcp": {**mcp, "upstream_oauth": {**OAUTH, **oauth}}})) == uri
