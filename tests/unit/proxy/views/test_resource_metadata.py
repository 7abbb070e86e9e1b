"""Metadata of protected resources: public, of this host's resources alone, in path and root form."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings

from proxy.reserved_paths import RequestHandler
from tests.support.agents import OTHER_RESOURCE, RESOURCE, ROUTES
from tests.support.asgi import incoming_from
from tests.support.route_site import RouteSite

WELL_KNOWN = "/.well-known/oauth-protected-resource"
TWO = [
    {"from": "https://two.example.com", "prefix": "/a", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True, "mcp": {}},
    {"from": "https://two.example.com", "prefix": "/b", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True, "mcp": {}},
    {"from": "https://*.wild.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True, "mcp": {}},
    {"from": "tcp+https://db.example.com:5432", "to": "tcp://127.0.0.1:1", "name": "orders", "allow_any_authenticated_user": True},
    {"from": "tcp+https://app.example.com:22", "to": "tcp://127.0.0.1:1", "allow_any_authenticated_user": True},
]
COMMAND_LINE = "/.well-known/gate/oauth-protected-resource"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RouteSite]:
    with override_settings(ROOT_URLCONF="proxy.urls", MIDDLEWARE=[], ALLOWED_HOSTS=["*"]):
        yield RouteSite(tmp_path, ASGIHandler(), policy=[*ROUTES, *TWO])


@pytest.mark.parametrize(
    ("url", "resource"),
    [
        (f"https://mcp.example.com{WELL_KNOWN}/mcp", RESOURCE),
        (f"https://mcp.example.com{WELL_KNOWN}/mcp/", RESOURCE),
        (f"https://mcp.example.com{WELL_KNOWN}", RESOURCE),
        (f"https://mcp.example.com{WELL_KNOWN}/", RESOURCE),
        (f"https://tools.example.com{WELL_KNOWN}", OTHER_RESOURCE),
        (f"https://two.example.com{WELL_KNOWN}/b", "https://two.example.com/b"),
        (f"https://x.wild.example.com{WELL_KNOWN}", "https://x.wild.example.com"),
        (f"https://mcp.example.com{WELL_KNOWN}/other", None),
        (f"https://mcp.example.com{WELL_KNOWN}/MCP", None),
        (f"https://tools.example.com{WELL_KNOWN}/mcp", None),
        (f"https://two.example.com{WELL_KNOWN}", None),  # which of the two is not determined
    ],
)
async def test_documents(site: RouteSite, url: str, resource: str | None) -> None:
    answer = await site.ask(url)
    assert answer.header("access-control-allow-origin") == "*"
    if resource is None:
        assert answer.status == 404
    else:
        assert (answer.status, answer.json["resource"]) == (200, resource)
        assert answer.json["authorization_servers"] == ["https://auth.example.com"]
        assert answer.json["bearer_methods_supported"] == ["header"]


async def test_complete_document(site: RouteSite) -> None:
    assert (await site.ask(f"https://mcp.example.com{WELL_KNOWN}/mcp")).json == {
        "resource": RESOURCE,
        "authorization_servers": ["https://auth.example.com"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Ticket tools",
        "scopes_supported": ["tickets:read", "tickets:write"],
    }


@pytest.mark.parametrize(("method", "status"), [("OPTIONS", 204), ("HEAD", 200), ("POST", 405), ("DELETE", 405)])
async def test_methods(site: RouteSite, method: str, status: int) -> None:
    answer = await site.ask(f"https://mcp.example.com{WELL_KNOWN}/mcp", method=method)
    assert (answer.status, answer.header("access-control-allow-origin")) == (status, "*")


@pytest.mark.parametrize(
    ("host", "handler"), [("mcp.example.com", RequestHandler.ROUTE_PAGES), ("app.example.com", RequestHandler.DATA_PLANE)]
)
def test_other_hosts_keep_the_path(site: RouteSite, host: str, handler: RequestHandler) -> None:
    assert site.proxy.handler_for(incoming_from(f"https://{host}{WELL_KNOWN}").request) is handler


@pytest.mark.parametrize(
    ("url", "resource", "name"),
    [
        ("https://app.example.com", "https://app.example.com", "app.example.com"),
        ("https://app.example.com?port=", "https://app.example.com", "app.example.com"),
        ("https://app.example.com?port=22", "tcp+https://app.example.com:22", "app.example.com:22"),
        ("https://mcp.example.com", "https://mcp.example.com", "mcp.example.com"),
        ("https://db.example.com?port=5432", "tcp+https://db.example.com:5432", "orders"),
        ("https://db.example.com?port=05432", "tcp+https://db.example.com:5432", "orders"),
        ("https://db.example.com", None, ""),  # it has no pages
        ("https://db.example.com?port=22", None, ""),
        ("https://app.example.com?port=22&port=22", None, ""),
        ("https://app.example.com?port=22/", None, ""),
        ("https://app.example.com?port=-22", None, ""),
        ("https://app.example.com?port=%D9%A2%D9%A2", None, ""),
        ("https://app.example.com?port=" + "1" * 10_000, None, ""),
        ("https://tools.example.com", None, ""),  # it is an MCP server everywhere
        ("https://x.wild.example.com", None, ""),
    ],
)
async def test_resource_of_the_command_line(site: RouteSite, url: str, resource: str | None, name: str) -> None:
    host, _, query = url.partition("?")
    answer = await site.ask(f"{host}{COMMAND_LINE}?{query}")
    if resource is None:
        assert answer.status == 404
    else:
        assert answer.status == 200
        assert answer.json == {
            "resource": resource,
            "authorization_servers": ["https://auth.example.com"],
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        }


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("POST", 405), ("OPTIONS", 405)])
async def test_methods_of_the_command_line_resource(site: RouteSite, method: str, status: int) -> None:
    answer = await site.ask(f"https://app.example.com{COMMAND_LINE}", method=method)
    assert (answer.status, answer.values("access-control-allow-origin")) == (status, [])
