"""Portal: sections and their order, for a list that one person may open."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from authenticate.portal import preferences
from authenticate.portal.portal import MAX_RECENT_LISTED, Applications, Portal
from authenticate.upstream_oauth.connection_service import STATE_TEXTS
from authorize.accessible_routes import AccessibleRoute
from authorize.authorizer import Authorizer
from authorize.policy.policy_request import PolicyRequest
from authorize.upstream.account_connections import ConnectionState
from databroker.records import SessionRecord
from databroker.store.memory import MemoryStore
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route, request, table

SESSION = SessionRecord("s", "oidc/1", "1", "oidc", 0.0, 9e9, issuer="https://idp.example")


class Opened:
    """An authorizer that opens all of its routes."""

    def __init__(self, **titles: str):
        self.routes = [
            make_route(f"{host}.example.com", title=title.partition("|")[2] or title, category=title.rpartition("|")[0] or None)
            for host, title in titles.items()
        ]

    async def accessible_routes(self, request: PolicyRequest, cookie_headers: Any) -> tuple[AccessibleRoute, ...]:
        return tuple(map(AccessibleRoute, table(*self.routes).routes()))


@pytest.fixture
def broker() -> MemoryStore:
    return MemoryStore(lambda: 0.0)


def headings(sections: list[tuple[str, list[Any]]]) -> list[tuple[str, int]]:
    return [(heading, len(tiles)) for heading, tiles in sections]


async def test_favourites_stand_first_and_nowhere_else(tmp_path: Path, broker: MemoryStore) -> None:
    portal = Portal(make_options(tmp_path), broker)
    authorize: Authorizer = Opened(a="Tools|Zebra", b="Wiki", c="Tools|Ant", d="Bank")  # type: ignore[assignment]
    await preferences.update_preferences(broker, SESSION, preferences.toggle_favourite, "https://b.example.com/", 0.0)
    await preferences.update_preferences(broker, SESSION, preferences.toggle_favourite, "https://gone.example.com/", 0.0)
    displayed = await portal.applications(authorize, request(), [], SESSION)
    assert [each.title for each in displayed.all] == ["Ant", "Zebra", "Bank", "Wiki"]
    sections = (await portal.page(displayed)).sections
    assert headings(sections) == [("Favourites", 1), ("Tools", 2), ("", 1)]
    assert "Wiki" in sections[0][1][0]
    assert 'aria-pressed="true"' in sections[0][1][0]
    assert 'aria-pressed="false"' in sections[1][1][0]
    assert headings((await portal.page(displayed, "WIKI")).sections) == [("Favourites", 1)]
    assert headings((await portal.page(displayed, "tools ant")).sections) == [("Tools", 1)]
    assert (await portal.page(displayed, "nothing of the kind")).sections == []


@pytest.mark.parametrize(
    ("number", "search", "expected"),
    [
        (1, "", (["A000", "A099"], 250, 1, 3)),
        (2, "", (["A100", "A199"], 250, 2, 3)),
        (3, "", (["A200", "A249"], 250, 3, 3)),
        (0, "", (["A000", "A099"], 250, 1, 3)),
        (999, "", (["A200", "A249"], 250, 3, 3)),
        (1, "a24", (["A240", "A249"], 10, 1, 1)),
        (2, "a1", (["A100", "A199"], 100, 1, 1)),
        (1, "nothing", ([], 0, 1, 1)),
    ],
)
async def test_pagination(number: int, search: str, expected: tuple[list[str], int, int, int], tmp_path: Path, broker: MemoryStore) -> None:
    portal = Portal(make_options(tmp_path), broker)
    authorize: Authorizer = Opened(**{f"a{at:03}": f"A{at:03}" for at in range(250)})  # type: ignore[assignment]
    page = await portal.page(await portal.applications(authorize, request(), [], SESSION), search, number)
    titles = [re.findall("<b><bdi>(A[0-9]+)", tile)[0] for _, tiles in page.sections for tile in tiles]
    assert (titles[:1] + titles[-1:], page.match_count, page.number, page.pages) == expected


async def test_recent_lists_only_accessible(tmp_path: Path, broker: MemoryStore) -> None:
    portal = Portal(make_options(tmp_path), broker)
    authorize: Authorizer = Opened(**{f"a{number}": f"A{number}" for number in range(9)})  # type: ignore[assignment]
    for number in (1, 2, 3, 4, 5, 6, 7):
        await preferences.update_preferences(broker, SESSION, preferences.record_opened, f"https://a{number}.example.com/", 0.0)
    await preferences.update_preferences(broker, SESSION, preferences.record_opened, "https://gone.example.com/", 0.0)
    displayed = await portal.applications(authorize, request(), [], SESSION)
    assert [each.title for each in displayed.recent] == ["A7", "A6", "A5", "A4", "A3", "A2"]
    assert len(displayed.recent) == MAX_RECENT_LISTED
    assert displayed.find(displayed.all[0].id) is displayed.all[0]
    assert displayed.find("0" * 16) is None


async def test_tile_markup(tmp_path: Path, broker: MemoryStore) -> None:
    portal = Portal(make_options(tmp_path), broker)
    authorize: Authorizer = Opened(a="<b>Wiki</b> & more")  # type: ignore[assignment]
    displayed = await portal.applications(authorize, request(), [], SESSION)
    ((_, (tile,)),) = (await portal.page(displayed)).sections
    assert "&lt;b&gt;Wiki&lt;/b&gt; &amp; more" in tile
    assert '<a href="https://a.example.com/">' in tile
    assert "MCP" not in tile
    assert len(tile) < 500


async def mcp_portal(directory: Path, broker: MemoryStore, *, opens_page: bool = True) -> tuple[Portal, Applications]:
    """Return a portal with one MCP server, and its application."""
    route = make_route("notes.example.com", mcp={"path": "/mcp", "name": "Notes"}, allow_any_authenticated_user=True)
    opening = AccessibleRoute(table(route).routes()[0], opens_page=opens_page, serves_mcp=True)

    class Openings:
        async def accessible_routes(self, *_: object) -> tuple[AccessibleRoute, ...]:
            return (opening,)

    portal = Portal(make_options(directory), broker)
    return portal, await portal.applications(Openings(), request(), [], SESSION)  # type: ignore[arg-type]


@pytest.mark.parametrize("opens_page", [True, False])
async def test_tile_of_an_mcp_server_has_its_url_as_text(tmp_path: Path, broker: MemoryStore, opens_page: bool) -> None:
    portal, displayed = await mcp_portal(tmp_path, broker, opens_page=opens_page)
    ((heading, (tile,)),) = (await portal.page(displayed)).sections
    assert heading == "MCP servers"
    assert "<code>https://notes.example.com/mcp</code><button" in tile
    assert ('<a href="https://notes.example.com/">' in tile) is opens_page
    german = (await portal.page(displayed, language="de")).sections[0][1][0]
    assert "MCP-Server" in german


CONNECT, MANAGE = 'formaction="/.gate/connections" name="connect" value="https://notes.example.com/mcp"', 'href="/.gate/sessions#servers"'


@pytest.mark.parametrize(
    ("state", "element"),
    [
        (ConnectionState.CONNECTED, MANAGE),
        (ConnectionState.NOT_CONNECTED, CONNECT),
        (ConnectionState.EXPIRED, CONNECT),
        (ConnectionState.CHANGED, CONNECT),
        (ConnectionState.UNKNOWN, MANAGE),
    ],
)
async def test_tile_of_a_third_party_server_has_the_state_of_the_account(
    state: ConnectionState, element: str, tmp_path: Path, broker: MemoryStore
) -> None:
    portal, displayed = await mcp_portal(tmp_path, broker)
    tile = (await portal.page(displayed, connections={"https://notes.example.com/mcp": state})).sections[0][1][0]
    assert STATE_TEXTS[state] in unescape(tile)
    assert element in tile
    other = (await portal.page(displayed, connections={"https://other.example.com/mcp": state})).sections[0][1][0]
    assert "account" not in other
