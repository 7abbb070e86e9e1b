"""Protected resources: one canonical URI for each MCP route, and the spellings of it that clients send."""

from pathlib import Path

import pytest

from authorize.protected_resources import ProtectedResources, resource_for
from tests.support.agents import OTHER_RESOURCE, RESOURCE, ROUTES
from tests.support.options import make_options


@pytest.fixture
def resources(tmp_path: Path) -> ProtectedResources:
    routes = [
        *ROUTES,
        {"from": "https://port.example.com:8443", "to": "http://127.0.0.1:1", "prefix": "/a/", "mcp": {}},
        {"from": "https://*.tenants.example.com", "to": "http://127.0.0.1:1", "mcp": {"path": "/mcp"}},
    ]
    return ProtectedResources(make_options(tmp_path, policy=routes).policy)


def test_canonical_uris(resources: ProtectedResources) -> None:
    assert [each.uri for each in resources] == [
        RESOURCE,
        OTHER_RESOURCE,
        "https://port.example.com:8443/a",
        "https://*.tenants.example.com/mcp",
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


@pytest.mark.parametrize(("path", "is_covered"), [("/mcp", True), ("/mcp/x", True), ("/mcpx", False), ("/", False), ("/x/mcp", False)])
def test_covered_paths(resources: ProtectedResources, path: str, is_covered: bool) -> None:
    resource = resources.find(RESOURCE)
    assert resource is not None
    assert resource.covers(path) is is_covered
    whole_host = resources.find(OTHER_RESOURCE)
    assert whole_host is not None
    assert whole_host.covers(path)


def test_metadata_url_and_name(resources: ProtectedResources) -> None:
    first, second, *_ = resources
    assert first.metadata_url == "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
    assert second.metadata_url == "https://tools.example.com/.well-known/oauth-protected-resource"
    assert (first.name, second.name) == ("Ticket tools", "tools.example.com")


def test_only_routes_with_mcp_are_resources(tmp_path: Path) -> None:
    assert resource_for(make_options(tmp_path, policy=ROUTES).policy[2], "app.example.com") is None


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
