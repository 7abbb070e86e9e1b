"""Portal: the accessible applications of a user, in sections and pages, with cached tile markup."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import TypeVar

from markupsafe import Markup

from authenticate.portal.applications import Application, to_application
from authenticate.portal.icons import BUILTIN_ICON_PATHS, Icons
from authenticate.portal.preferences import load_preferences
from authenticate.upstream_oauth.connection_service import STATE_TEXTS
from authorize.accessible_routes import YIELD_INTERVAL_SECONDS, AccessibleRoute
from authorize.authorizer import Authorizer
from authorize.policy.policy_request import PolicyRequest
from authorize.route_settings import RouteLinks
from authorize.upstream.account_connections import ConnectionState
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.records import SessionRecord
from foundation.values import WatchedFile
from foundation.web import pages
from foundation.web.languages import ENGLISH
from foundation.web.message import Message

T = TypeVar("T")

FAVOURITES = Message("Favourites")
MAX_RECENT_LISTED = 6
PAGE_SIZE = 100
MAX_SEARCH_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Applications:
    """Applications that a user may open now, in order, and those of them that are favourites or recent."""

    all: tuple[Application, ...]
    favourites: tuple[Application, ...]
    recent: tuple[Application, ...]

    def find(self, id: str) -> Application | None:
        return next((each for each in self.all if each.id == id), None)


@dataclass(frozen=True, slots=True)
class PortalPage:
    """Page `number` of `pages`.  `match_count` is the number of matching applications; sections are (heading, tiles)."""

    sections: list[tuple[str, list[Markup]]]
    match_count: int
    number: int
    pages: int


class Portal:
    """Portal under one set of Options."""

    def __init__(self, options: Options, broker: BrokerClient):
        self._url = options.authenticate_service_url
        self._broker = broker
        self.icons = Icons(options)
        self._links = RouteLinks(options)
        # By the route and what differs between users, and by the language, favourite and state of the user's account.
        self._applications: dict[tuple[str, bool, bool, bool], Application] = {}
        self._tiles: dict[tuple[str, bool, str, str, bool, str, ConnectionState | None], Markup] = {}

    async def applications(
        self, authorize: Authorizer, request: PolicyRequest, cookies: Iterable[bytes], session: SessionRecord
    ) -> Applications:
        """Return the applications of the user of this session.  Raises BrokerError."""
        opened = [each for each in await authorize.accessible_routes(request, cookies) if each.route.route.is_in_portal]
        choices = await load_preferences(self._broker, session)
        every = [self._application(each) async for each in _in_slices(opened)]
        every.sort(key=lambda each: each.order)
        by_key = {each.key: each for each in every}
        recent = [by_key[key] for key in choices.recent if key in by_key]
        starred = frozenset(choices.favourites)
        return Applications(tuple(every), tuple(each for each in every if each.key in starred), tuple(recent[:MAX_RECENT_LISTED]))

    async def page(
        self,
        applications: Applications,
        search: str = "",
        number: int = 1,
        language: str = ENGLISH,
        connections: Mapping[str, ConnectionState] = MappingProxyType({}),
    ) -> PortalPage:
        """Return a page of matching applications, favourites first.  An invalid page number is clamped.

        `connections`: the state of the user's account at each third-party MCP server, by the server's URL.
        """
        terms = search[:MAX_SEARCH_LENGTH].casefold().split()
        starred = {each.id for each in applications.favourites}
        ordered = (*applications.favourites, *(each for each in applications.all if each.id not in starred))
        found = [each async for each in _in_slices(ordered) if each.matches(terms)] if terms else ordered
        pages = max(1, ceil(len(found) / PAGE_SIZE))
        number = min(max(1, number), pages)
        sections: dict[str, list[Markup]] = {}
        async for each in _in_slices(found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]):
            heading = FAVOURITES if each.id in starred else each.heading
            sections.setdefault(heading, []).append(
                self._tile(each, language, connections.get(each.mcp_url), is_favourite=each.id in starred)
            )
        return PortalPage(list(sections.items()), len(found), number, pages)

    def _application(self, opening: AccessibleRoute) -> Application:
        key = opening.route.id, opening.needs_step_up, opening.opens_page, opening.serves_mcp
        if (application := self._applications.get(key)) is None:
            application = self._applications[key] = to_application(opening, self._url, self._links.link_id(opening.route.route))
        return application

    def _tile(self, application: Application, language: str, connection: ConnectionState | None, *, is_favourite: bool) -> Markup:
        key = application.id, application.needs_step_up, application.url, application.mcp_url, is_favourite, language, connection
        if (tile := self._tiles.get(key)) is None:
            icon = application.icon
            tile = self._tiles[key] = pages.render_fragment(
                "authenticate/tile.html",
                language,
                app=application,
                is_favourite=is_favourite,
                connection=connection,
                account_text=STATE_TEXTS[connection] if connection is not None else "",
                drawn=BUILTIN_ICON_PATHS.get(icon, "") if isinstance(icon, str) else "",
                picture=self.icons.path_for(icon) if isinstance(icon, WatchedFile) else "",
            )
        return tile


async def _in_slices(items: Iterable[T]) -> AsyncGenerator[T]:
    """Yield the items, and let other requests run after each SLICE."""
    started = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - started > YIELD_INTERVAL_SECONDS:
            await asyncio.sleep(0)
            started = time.monotonic()
