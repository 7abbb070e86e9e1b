"""Routes by the API: in the order in which they count, without what only gate may know."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIHandler

from authenticate.api.cursors import encode_cursor
from tests.support.api_site import ApiSite
from tests.support.authenticate_site import Site
from tests.support.fake_idp import FakeIdP

ROUTES = [
    {
        "from": "https://wiki.example.com",
        "to": "http://127.0.0.1:1",
        "name": "wiki",
        "prefix": "/docs/",
        "allowed_groups": ["staff"],
        "set_request_headers": {"X-Key": "a-secret-of-the-upstream"},
    },
    {"from": "https://open.example.com", "to": ["http://127.0.0.1:1", "http://127.0.0.1:2"], "allow_public_unauthenticated_access": True},
    {"from": "https://old.example.com", "redirect": {"host_redirect": "new.example.com"}, "allow_public_unauthenticated_access": True},
]


@pytest.fixture
async def api(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[ApiSite]:
    site = Site(tmp_path, idp, django_pages, policy=ROUTES)
    await site.service.start()
    api = ApiSite(site)
    api.token = await api.account()
    yield api
    await site.service.stop()


async def test_routes_are_listed_in_their_order(api: ApiSite) -> None:
    first = await api.done("GET", "routes?limit=1")
    (wiki,) = first["items"]
    assert (wiki["position"], wiki["name"], wiki["from"], wiki["prefix"]) == (0, "wiki", "https://wiki.example.com", "/docs/")
    assert (wiki["access"]["groups"], wiki["access"]["public"]) == (["staff"], False)
    rest = (await api.done("GET", f"routes?cursor={first['next']}"))["items"]
    assert [(item["position"], item["to"], item["type"]) for item in rest] == [
        (1, ["http://127.0.0.1:1", "http://127.0.0.1:2"], "http"),
        (2, [], "redirect"),
    ]
    assert "a-secret-of-the-upstream" not in str((await api.done("GET", "routes"))["items"])


async def test_routes_of_one_host_are_found(api: ApiSite) -> None:
    assert [item["position"] for item in (await api.done("GET", "routes?host=open.example.com"))["items"]] == [1]


@pytest.mark.parametrize("key", ["", "-1", "x", "9" * 30])
async def test_a_cursor_of_no_route_is_refused(api: ApiSite, key: str) -> None:
    await api.problem(400, "GET", f"routes?cursor={encode_cursor('routes', key)}")
