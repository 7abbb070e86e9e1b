"""Applications: their names, addresses and commands, out of what the route says or out of its host."""

from typing import Any

import pytest

from authenticate.portal.applications import Application, to_application
from authorize.accessible_routes import AccessibleRoute
from config.routes.route import Route
from foundation.values import Url
from tests.unit.authorize.builders import table

AUTHENTICATE = Url("https", "auth.example.com")


def of(
    host: str = "team-wiki.example.com",
    at: Url = AUTHENTICATE,
    *,
    needs_step_up: bool = False,
    opens_page: bool = True,
    serves_mcp: bool = False,
    **keys: Any,
) -> Application:
    route = Route.model_validate({"from": f"https://{host}", "to": "http://up", "allow_any_authenticated_user": True, **keys})
    return to_application(AccessibleRoute(table(route).routes()[0], needs_step_up, opens_page, serves_mcp), at, "id")


@pytest.mark.parametrize(
    ("keys", "url", "mcp_url"),
    [
        ({"mcp": {"path": "/mcp"}}, "https://notes.example.com/", "https://notes.example.com/mcp"),
        ({"mcp": {"path": "/mcp"}, "opens_page": False}, "", "https://notes.example.com/mcp"),
        ({"mcp": {}}, "", "https://notes.example.com"),
        ({"mcp": {}, "path": "/mcp"}, "", "https://notes.example.com/mcp"),
        ({"mcp": {}, "prefix": "/tools/"}, "", "https://notes.example.com/tools"),
        ({"mcp": {"path": "/mcp"}, "serves_mcp": False}, "https://notes.example.com/", ""),
        ({"mcp": {}, "serves_mcp": False}, "https://notes.example.com/", ""),
    ],
)
def test_mcp_server_has_the_url_for_its_clients(keys: dict[str, Any], url: str, mcp_url: str) -> None:
    found = of("notes.example.com", **{"serves_mcp": True, **keys})
    assert (found.url, found.mcp_url, found.heading) == (url, mcp_url, "MCP servers" if mcp_url else "")


def test_mcp_server_is_named_by_its_settings_and_listed_last() -> None:
    settings = {"serves_mcp": True, "mcp": {"name": "Ticket tools"}}
    assert (of(**settings).title, of(**settings, title="Tickets").title) == ("Ticket tools", "Tickets")
    assert of(**settings, category="Docs").heading == "Docs"
    displayed = [of(**settings), of(title="Z"), of(title="a", category="Tools")]
    assert [each.title for each in sorted(displayed, key=lambda each: each.order)] == ["a", "Z", "Ticket tools"]


@pytest.mark.parametrize(
    ("host", "keys", "title"),
    [
        ("team-wiki.example.com", {}, "Team wiki"),
        ("www.example.com", {}, "Example"),
        ("team-chat.example.com:8443", {}, "Team chat"),
        ("wiki.example.com", {"prefix": "/admin/"}, "Wiki /admin/"),
        ("wiki.example.com", {"title": "Our wiki", "prefix": "/admin/"}, "Our wiki"),
        ("192.0.2.7", {}, "192.0.2.7"),
        ("xn--bcher-kva.example", {}, "xn--bcher-kva.example"),
        ("wiki", {}, "Wiki"),
    ],
)
def test_untitled_application_is_named_after_its_host(host: str, keys: dict[str, Any], title: str) -> None:
    assert of(host, **keys).title == title


def test_the_address_is_the_one_that_the_route_names() -> None:
    found = of("wiki.example.com:8443", prefix="/a b/")
    assert (found.url, found.key, found.address) == ("https://wiki.example.com:8443/a%20b/",) * 2 + ("wiki.example.com:8443/a%20b/",)
    assert of("wiki.example.com").address == "wiki.example.com"
    assert (found.needs_step_up, of(needs_step_up=True).needs_step_up) == (False, True)


@pytest.mark.parametrize(
    ("port", "at", "command"),
    [
        (5432, AUTHENTICATE, "gate tunnel db.example.com:5432 --listen 127.0.0.1:5432"),
        (22, AUTHENTICATE, "gate tunnel db.example.com:22"),
        (22, Url("https", "auth.example.com", 8443), "gate tunnel db.example.com:22 --url https://db.example.com:8443"),
    ],
)
def test_a_tunnel_has_a_command_and_no_address_for_browsers(port: int, at: Url, command: str) -> None:
    keys = {"from": f"tcp+https://db.example.com:{port}", "to": "tcp://127.0.0.1:9", "allow_any_authenticated_user": True}
    found = to_application(AccessibleRoute(table(Route.model_validate(keys)).routes()[0]), at, "id")
    assert (found.url, found.command, found.title) == ("", command, f"Db {port}")


def test_categories_are_ordered_and_uncategorized_is_last() -> None:
    displayed = [of(title="b"), of(title="A"), of(title="z", category="Tools"), of(title="y", category="engineering")]
    assert [each.title for each in sorted(displayed, key=lambda each: each.order)] == ["y", "z", "A", "b"]


def test_search_covers_all_texts() -> None:
    displayed = of(title="Wiki", description="Minutes and plans", category="Engineering")
    assert displayed.matches(["wiki", "plans", "engine"])
    assert displayed.matches([])
    assert not displayed.matches(["wiki", "money"])
