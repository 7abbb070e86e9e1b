"""Protected resources: one canonical URI for each MCP route, and the spellings of it that clients send."""

from pathlib import Path
from typing import Any

import pytest

from authorize.policy.policy_request import PolicyRequest
from authorize.policy.route_table import RouteTable
from authorize.protected_resources import ProtectedResources, ResourceKind, mcp_server_for, requested_resource
from tests.support.agents import OTHER_RESOURCE, RESOURCE, ROUTES
from tests.support.options import make_options
from tests.support.several_providers import several

TUNNEL = "tcp+https://db.example.com:5432"
ALL_ROUTES: list[dict[str, Any]] = [
    *ROUTES,
    {"from": "https://port.example.com:8443", "to": "http://127.0.0.1:1", "prefix": "/a/", "mcp": {}},
    {
        "from": "https://*.tenants.example.com",
        "to": "http://127.0.0.1:1",
        "title": "Tenants",
        "mcp": {"path": "/mcp", "agent_session_expire": "1h"},
    },
    {"from": "https://db.example.com:5432", "to": "http://127.0.0.1:1"},
    {"from": TUNNEL, "to": "tcp://127.0.0.1:1", "title": "Orders"},
    {"from": "tcp+https://*.tenants.example.com:22", "to": "tcp://127.0.0.1:1"},
    {"from": "https://shadow.example.com", "to": "http://127.0.0.1:1", "mode": "shadow"},
    {"from": "https://both.example.com", "to": "http://127.0.0.1:1", "prefix": "/app", "title": "Application"},
    {"from": "https://both.example.com", "to": "http://127.0.0.1:1", "mcp": {}},
    {"from": "https://tools.tenants.example.com", "to": "http://127.0.0.1:1", "mcp": {}},
]


@pytest.fixture
def resources(tmp_path: Path) -> ProtectedResources:
    return ProtectedResources(make_options(tmp_path, policy=ALL_ROUTES).policy, frozenset({"sign-in.tenants.example.com"}))


def test_canonical_uris(resources: ProtectedResources) -> None:
    assert [each.uri for each in resources] == [
        RESOURCE,
        OTHER_RESOURCE,
        "https://port.example.com:8443/a",
        "https://*.tenants.example.com/mcp",
        "https://both.example.com",
        "https://tools.tenants.example.com",
    ]


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        (RESOURCE, RESOURCE),
        ("HTTPS://MCP.Example.com/mcp", RESOURCE),
        (f"{RESOURCE}/", RESOURCE),
        ("https://mcp.example.com:443/mcp", RESOURCE),
        (f"{OTHER_RESOURCE}/", OTHER_RESOURCE),
        ("https://mcp.example.com/MCP", None),
        ("https://mcp.example.com", None),
        ("https://mcp.example.com/", None),
        (f"{RESOURCE}#fragment", None),
        (f"{RESOURCE}?query", None),
        (f"{RESOURCE}?", None),
        (f"{RESOURCE}/sub", None),
        ("https://mcp.example.com/x/../mcp", None),
        ("https://user@mcp.example.com/mcp", None),
        ("http://mcp.example.com/mcp", None),
        ("https://app.example.com", None),
        ("https://a.tenants.example.com/mcp", "https://a.tenants.example.com/mcp"),
        ("https://a.tenants.example.com/", None),
        ("https://a.b.tenants.example.com/mcp", None),
        ("https://*.tenants.example.com/mcp", None),
        ("", None),
        ("mcp", None),
        (f"https://mcp.example.com/{'x' * 2000}", None),
    ],
)
def test_named_resource(resources: ProtectedResources, uri: str, found: str | None) -> None:
    resource = resources.find(uri)
    assert (resource.uri if resource is not None else None) == found


@pytest.mark.parametrize(
    ("method", "host_port", "path", "kind", "uri"),
    [
        ("GET", "mcp.example.com", "/mcp", ResourceKind.MCP, RESOURCE),
        ("GET", "mcp.example.com", "/mcp/x", ResourceKind.MCP, RESOURCE),
        ("GET", "mcp.example.com", "/mcpx", ResourceKind.HOST, "https://mcp.example.com"),
        ("GET", "mcp.example.com", "/", ResourceKind.HOST, "https://mcp.example.com"),
        ("GET", "tools.example.com", "/x", ResourceKind.MCP, OTHER_RESOURCE),
        ("GET", "app.example.com", "/mcp", ResourceKind.HOST, "https://app.example.com"),
        ("", "app.example.com", "/", ResourceKind.HOST, "https://app.example.com"),
        ("GET", "db.example.com:5432", "/", ResourceKind.HOST, "https://db.example.com:5432"),
        ("CONNECT", "db.example.com:5432", "/", ResourceKind.TUNNEL, TUNNEL),
        ("GET", "a.tenants.example.com", "/mcp", ResourceKind.MCP, "https://a.tenants.example.com/mcp"),
        ("GET", "a.tenants.example.com", "/", ResourceKind.HOST, "https://a.tenants.example.com"),
    ],
)
def test_resource_of_a_request(tmp_path: Path, method: str, host_port: str, path: str, kind: ResourceKind, uri: str) -> None:
    host, _, port = host_port.partition(":")
    request = PolicyRequest(method, host, int(port) if port else None, path)
    route = RouteTable.build(make_options(tmp_path, policy=ALL_ROUTES).policy, client_ca=None).match(request)
    assert route is not None
    resource = requested_resource(route.route, request)
    assert (resource.kind, resource.uri) == (kind, uri)


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("https://app.example.com", ResourceKind.HOST),
        ("HTTPS://App.Example.com/", ResourceKind.HOST),
        ("https://app.example.com:443", ResourceKind.HOST),
        ("https://app.example.com:8443", None),
        ("https://app.example.com/x", None),
        ("https://app.example.com?", None),
        ("http://app.example.com", None),
        ("app.example.com", None),
        ("https://mcp.example.com", ResourceKind.HOST),
        (RESOURCE, None),
        (OTHER_RESOURCE, None),
        ("https://both.example.com", ResourceKind.HOST),
        (TUNNEL, ResourceKind.TUNNEL),
        ("TCP+HTTPS://DB.example.com:5432/", ResourceKind.TUNNEL),
        ("tcp+https://db.example.com:5433", None),
        ("tcp+https://db.example.com", None),
        ("https://db.example.com:5432", ResourceKind.HOST),
        ("https://db.example.com", None),
        ("https://a.tenants.example.com", ResourceKind.HOST),
        ("tcp+https://a.tenants.example.com:22", ResourceKind.TUNNEL),
        ("https://*.tenants.example.com", None),
        ("https://a.b.tenants.example.com", None),
        ("https://tools.tenants.example.com", None),
        ("https://sign-in.tenants.example.com", None),
        ("tcp+https://sign-in.tenants.example.com:22", None),
        ("https://shadow.example.com", None),
        ("https://unknown.example.com", None),
        (f"https://app.example.com/{'x' * 2000}", None),
        ("", None),
    ],
)
def test_resource_of_the_command_line(resources: ProtectedResources, uri: str, found: ResourceKind | None) -> None:
    resource = resources.find(uri, of_command_line=True)
    assert (resource.kind if resource is not None else None) is found
    if found is not None:
        other = resources.find(uri)
        assert other is None or other.kind is ResourceKind.MCP


@pytest.mark.parametrize(("uri", "is_command_line"), [(RESOURCE, False), ("https://app.example.com", True), (TUNNEL, True)])
def test_clients_of_a_resource(resources: ProtectedResources, uri: str, is_command_line: bool) -> None:
    resource = resources.find(uri, of_command_line=is_command_line)
    assert resource is not None
    assert [resource.accepts(client) for client in ("gate", "ticket-agent", "service_account/gate", "")] == [is_command_line] + [
        not is_command_line
    ] * 3


@pytest.mark.parametrize(
    ("uri", "is_command_line", "name", "scopes", "session_seconds"),
    [
        ("https://app.example.com", True, "app.example.com", [], None),
        ("https://both.example.com", True, "both.example.com", [], None),
        ("https://mcp.example.com", True, "mcp.example.com", [], None),
        ("https://a.tenants.example.com", True, "Tenants", [], None),
        (TUNNEL, True, "Orders", [], None),
        ("tcp+https://a.tenants.example.com:22", True, "a.tenants.example.com:22", [], None),
        (RESOURCE, False, "Ticket tools", ["tickets:read", "tickets:write"], None),
        ("https://a.tenants.example.com/mcp", False, "Tenants", [], 3600.0),
    ],
)
def test_settings_of_a_resource(
    resources: ProtectedResources, uri: str, is_command_line: bool, name: str, scopes: list[str], session_seconds: float | None
) -> None:
    """Those of `mcp` are for the MCP server alone."""
    resource = resources.find(uri, of_command_line=is_command_line)
    assert resource is not None
    assert (resource.uri, resource.name, list(resource.scopes), resource.session_seconds) == (uri, name, scopes, session_seconds)


@pytest.mark.parametrize(
    ("keys", "required"),
    [
        ([{}], ((), None, ())),
        ([{"acr_values": ["gold"], "max_age": "1h", "identity_providers": ["a"]}], (("gold",), 3600, ("a",))),
        ([{"acr_values": ["gold"], "max_age": "1h", "identity_providers": ["a"]}] * 2, (("gold",), 3600, ("a",))),
        ([{"acr_values": ["gold"]}, {"acr_values": ["iron"]}], ((), None, ())),
        ([{"acr_values": ["gold"]}, {}], ((), None, ())),
        ([{"max_age": "1h"}, {"max_age": "2h"}], ((), 7200, ())),
        ([{"max_age": "1h"}, {}], ((), None, ())),
        ([{"identity_providers": ["a"]}, {"identity_providers": ["b", "a"]}], ((), None, ("a", "b"))),
        ([{"identity_providers": ["a"]}, {}], ((), None, ())),
    ],
)
def test_sign_in_that_a_host_requires(tmp_path: Path, keys: list[dict[str, Any]], required: tuple[Any, ...]) -> None:
    """A host requires what all its routes require."""
    host = {"from": "https://app.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
    routes = [{**host, "prefix": f"/{index}", **each} for index, each in enumerate(keys)]
    resource = ProtectedResources(make_options(tmp_path, policy=routes, **several("a", "b")).policy).find(
        "https://app.example.com", of_command_line=True
    )
    assert resource is not None
    assert (resource.acr_values, resource.max_age_seconds, resource.identity_providers) == required


def test_metadata_url_and_name(resources: ProtectedResources) -> None:
    first, second, *_ = resources
    assert first.metadata_url == "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
    assert second.metadata_url == "https://tools.example.com/.well-known/oauth-protected-resource"
    assert (first.name, second.name) == ("Ticket tools", "tools.example.com")


def test_only_routes_with_mcp_are_resources(tmp_path: Path) -> None:
    assert mcp_server_for(make_options(tmp_path, policy=ROUTES).policy[2], "app.example.com") is None


@pytest.mark.parametrize(
    ("host", "port", "uris"),
    [
        ("mcp.example.com", None, [RESOURCE]),
        ("port.example.com", 8443, ["https://port.example.com:8443/a"]),
        ("port.example.com", None, []),
        ("a.tenants.example.com", None, ["https://a.tenants.example.com/mcp"]),
        ("app.example.com", None, []),
    ],
)
def test_resources_of_a_host(resources: ProtectedResources, host: str, port: int | None, uris: list[str]) -> None:
    assert [each.uri for each in resources.for_host(host, port)] == uris
