"""Upstreams from the client's side, and a route host with its own pages."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings

from proxy.upstreams.upstream_client import UpstreamClient
from tests.support.route_site import RouteSite
from tests.support.signed_in import SignedIn, sign_in


@pytest.fixture
async def client() -> AsyncIterator[UpstreamClient]:
    client = UpstreamClient()
    yield client
    await client.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RouteSite]:
    with override_settings(ROOT_URLCONF="proxy.urls", MIDDLEWARE=[], ALLOWED_HOSTS=["*"]):
        yield RouteSite(tmp_path, ASGIHandler())


@pytest.fixture
async def ann(site: RouteSite) -> SignedIn:
    return await sign_in(site.broker, site.options)
