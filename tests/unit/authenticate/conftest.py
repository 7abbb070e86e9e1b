"""The authenticate host as its visitors meet it: real views behind Django's own ASGI handler, a real provider on loopback."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings

from tests.support import agents, connections
from tests.support.authenticate_site import Site
from tests.support.fake_idp import FakeIdP


@pytest.fixture
async def idp() -> AsyncIterator[FakeIdP]:
    provider = await FakeIdP.started()
    yield provider
    await provider.stop()


@pytest.fixture
def django_pages(database: None) -> Iterator[ASGIHandler]:
    middleware = [f"gateproject.middleware.{name}Middleware" for name in ("TimeZone", "StoreUnavailable")]
    with override_settings(ROOT_URLCONF="authenticate.urls", MIDDLEWARE=middleware, ALLOWED_HOSTS=["*"]):
        yield ASGIHandler()


@pytest.fixture
async def site(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> AsyncIterator[Site]:
    site = Site(tmp_path, idp, django_pages)
    await site.service.start()
    yield site
    await site.service.stop()


@pytest.fixture
async def agent_site(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> AsyncIterator[Site]:
    """The authenticate host with OAuth clients and routes with `mcp`."""
    site = Site(tmp_path, idp, django_pages, **agents.SETTINGS)
    await site.service.start()
    yield site
    await site.service.stop()


@pytest.fixture
async def server() -> AsyncIterator[FakeIdP]:
    """The authorization server of a third-party MCP server."""
    running = await FakeIdP.started()
    yield running
    await running.stop()


@pytest.fixture
async def connection_site(tmp_path: Path, idp: FakeIdP, server: FakeIdP, django_pages: ASGIHandler) -> AsyncIterator[Site]:
    """The authenticate host with routes to a third-party MCP server."""
    site = Site(tmp_path, idp, django_pages, policy=connections.routes(server), oauth_clients=agents.CLIENTS)
    server.clock = site.clock
    await site.service.start()
    yield site
    await site.service.stop()
