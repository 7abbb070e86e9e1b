"""Settings of MCP routes: the endpoint, its canonical URI, and combinations in which gate could not read the messages."""

from typing import Any

import pytest

from config.routes.route_mcp import is_mcp_endpoint, mcp_resource_uri
from tests.unit.authorize.builders import make_route
from tests.unit.config.conftest import Load, Problems

ROUTE = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True}


def test_empty_map_has_the_defaults(load: Load) -> None:
    settings = load(policy=[{**ROUTE, "mcp": {}}]).policy[0].mcp
    assert settings is not None
    assert (settings.path, settings.name, settings.scopes, settings.max_body) == (None, None, {}, 262_144)
    assert load(policy=[ROUTE]).policy[0].mcp is None


@pytest.mark.parametrize(
    ("keys", "place", "message"),
    [
        ({"mcp": {"path": "mcp"}}, "mcp.path", "must be a path"),
        ({"mcp": {"path": "/mcp/"}}, "mcp.path", "slash"),
        ({"mcp": {"path": "/a/../mcp"}}, "mcp.path", "must be a path"),
        ({"mcp": {"path": "/mcp?x=1"}}, "mcp.path", "must be a path"),
        ({"mcp": {"path": "/%6Dcp"}}, "mcp.path", "must be a path"),
        ({"mcp": {"max_body": 100}}, "mcp.max_body", "from 1024 to 4194304"),
        ({"mcp": {"max_body": 5_000_000}}, "mcp.max_body", "from 1024 to 4194304"),
        ({"mcp": {"scopes": {}}}, "mcp.scopes", "must be a map"),
        ({"mcp": {"scopes": {"a b": "x"}}}, "mcp.scopes", "is not a scope"),
        ({"mcp": {"scopes": {"offline_access": "x"}}}, "mcp.scopes", "is not a scope"),
        ({"mcp": {"scopes": {"a": ""}}}, "mcp.scopes", "must not be empty"),
        ({"mcp": {"scopes": {"a": "x" * 201}}}, "mcp.scopes", "at most 200"),
        ({"mcp": {"scopes": {f"s{number}": "x" for number in range(65)}}}, "mcp.scopes", "at most 64"),
        ({"mcp": {"tools": []}}, "mcp.tools", ""),
        ({"mcp": {"path": "/other"}, "path": "/mcp"}, "mcp.path", "must be /mcp"),
        ({"mcp": {"path": "/mcp"}, "prefix": "/api/"}, "mcp.path", "must start with /api/"),
        ({"mcp": {}, "regex": "/m.*"}, "mcp.path", "is required with regex"),
        ({"mcp": {}, "allow_websockets": True}, "allow_websockets", "cannot be combined with mcp"),
        ({"mcp": {}, "allow_spdy": True}, "allow_spdy", "cannot be combined with mcp"),
        ({"mcp": {}, "upstream_http2": True}, "upstream_http2", "cannot be combined with mcp"),
        ({"policy": [{"deny": {"mcp_tool": "x"}}]}, "policy", "mcp_tool requires the key"),
        ({"policy": [{"deny": {"not": {"or": [{"mcp_method": "x"}]}}}]}, "policy", "mcp_method requires the key"),
        ({"policy": [{"allow": {"scope": "a"}}]}, "policy", "scope requires scopes"),
        ({"mcp": {}, "policy": [{"allow": {"scope": {"matches": "a"}}}]}, "policy", "Set `mcp.scopes`"),
        ({"mcp": {"scopes": {"a": "A"}}, "policy": [{"deny": {"scope": {"not_in": ["a", "b"]}}}]}, "policy", "b is not a scope"),
    ],
)
def test_invalid_settings_are_reported_at_their_place(problems: Problems, keys: dict[str, Any], place: str, message: str) -> None:
    assert message in problems(policy=[{**ROUTE, **keys}])[f"policy[0].{place}"]


def test_route_without_upstream_has_no_mcp_server(problems: Problems) -> None:
    redirect = {"from": "https://app.example.com", "redirect": {"host_redirect": "b.example.com"}, "mcp": {}}
    assert "requires an upstream" in problems(policy=[redirect])["policy[0].mcp"]
    tunnel = {"from": "tcp+https://db.example.com:5432", "to": "tcp://127.0.0.1:9", "allow_any_authenticated_user": True, "mcp": {}}
    assert "TCP route" in problems(policy=[tunnel])["policy[0].mcp"]


@pytest.mark.parametrize(
    ("keys", "uri"),
    [
        ({"mcp": {}}, "https://app.example.com"),
        ({"mcp": {"path": "/"}}, "https://app.example.com"),
        ({"mcp": {"path": "/mcp"}}, "https://app.example.com/mcp"),
        ({"mcp": {}, "prefix": "/tools/"}, "https://app.example.com/tools"),
        ({"mcp": {}, "path": "/mcp"}, "https://app.example.com/mcp"),
        ({"mcp": {"path": "/tools/mcp"}, "prefix": "/tools/"}, "https://app.example.com/tools/mcp"),
    ],
)
def test_canonical_uri_has_no_slash_at_the_end(keys: dict[str, Any], uri: str) -> None:
    assert mcp_resource_uri(make_route(**keys), "app.example.com") == uri
    assert mcp_resource_uri(make_route(**keys), "app.example.com:8443") == uri.replace(".com", ".com:8443")


@pytest.mark.parametrize(
    ("endpoint", "path", "expected"),
    [
        ("/mcp", "/mcp", True),
        ("/mcp", "/mcp/", True),
        ("/mcp", "/mcp/x", True),
        ("/mcp", "/mcpx", False),
        ("/mcp", "/", False),
        ("/mcp", "//mcp", False),
        ("/", "/anything", True),
        (None, "/anything", True),
    ],
)
def test_paths_below_the_endpoint_belong_to_it(endpoint: str | None, path: str, expected: bool) -> None:
    assert is_mcp_endpoint(make_route(mcp={} if endpoint is None else {"path": endpoint}), path) is expected
    assert not is_mcp_endpoint(make_route(), path)
