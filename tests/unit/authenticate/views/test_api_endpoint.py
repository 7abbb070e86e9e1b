"""The API's door to the outside: methods, problems, limits, and stores in trouble."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.db import OperationalError

from authenticate.service import MAX_API_CALLS, MAX_API_CALLS_PER_ACCOUNT
from databroker.models import Session
from databroker.records import SERVICE_ACCOUNT
from foundation.errors import BrokerError
from tests.support.api_site import ApiSite
from tests.support.authenticate_site import Site
from tests.support.fake_idp import FakeIdP

ROOT = Path(__file__).parents[4]
LISTS = ("sessions", "users", "decisions", "grants", "requests", "service_accounts", "routes")


@pytest.fixture
async def api(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[ApiSite]:
    async with ApiSite.running(Site(tmp_path, idp, django_pages)) as api:
        yield api


async def test_responses_are_uncached_json(api: ApiSite) -> None:
    for name in LISTS:
        response = await api.ask("GET", name)
        assert response.status == 200
        assert (response.headers["content-type"], response.headers["cache-control"]) == ("application/json", "no-store")
        assert json.loads(response.text)["next"] is None
        assert response.set_cookies == []


async def test_methods_that_are_not_possible_name_those_that_are(api: ApiSite) -> None:
    for method in ("PUT", "PATCH", "POST", "TRACE", "BREW"):
        response = await api.ask(method, "routes")
        assert (response.status, response.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert (await api.ask("POST", "openapi.json")).headers["allow"] == "GET, HEAD, OPTIONS"
    options = await api.ask("OPTIONS", "service_accounts", token="")
    assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    assert (await api.ask("OPTIONS", "openapi.json", token="")).status == 204
    assert "access-control-allow-origin" not in options.headers


@pytest.mark.parametrize(
    "path", ["", "nothing", "sessions/", "sessions/a/b", "sessions/%C3%A4", "sessions/..", "requests/x/approve", "Routes"]
)
async def test_unknown_path_is_a_problem(api: ApiSite, path: str) -> None:
    await api.problem(404, "GET", path)


async def test_document_is_public_and_committed(api: ApiSite) -> None:
    response = await api.ask("GET", "openapi.json", token="")
    assert json.loads(response.text) == json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())


async def test_unknown_keys_and_cursors_of_others_are_named(api: ApiSite) -> None:
    for name in LISTS:
        problem = await api.problem(400, "GET", f"{name}?colour=red")
        assert problem["errors"] == [{"in": "query", "name": "colour", "reason": "unknown key"}]
        other = "WyJvdGhlciIsIngiXQ"  # ["other","x"]
        assert (await api.problem(400, "GET", f"{name}?cursor={other}"))["errors"][0]["name"] == "cursor"


async def test_permission_is_checked_first(api: ApiSite) -> None:
    token = await api.account("nobody", [])
    for name in LISTS:
        assert (await api.problem(403, "GET", f"{name}?colour=red", token=token))["permission"] == f"{name}:read"
    await api.problem(403, "POST", "end_sessions", b"not json", token=token)
    await api.problem(401, "GET", "sessions?colour=red", token="")


async def test_failures_have_no_details(api: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OperationalError("no such table: databroker_session")

    monkeypatch.setattr(type(Session.objects), "filter", broken)
    response = await api.ask("GET", "sessions")
    assert (response.status, response.headers["retry-after"]) == (503, "5")
    assert "table" not in response.text


async def test_without_store_all_calls_fail(api: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(type: str, id: str) -> None:
        raise BrokerError("connection refused at 10.0.0.7")

    assert await api.site.broker.get(SERVICE_ACCOUNT, "robot") is not None
    monkeypatch.setattr(api.site.broker, "get", away)
    problem = await api.problem(503, "GET", "routes")
    assert "10.0.0.7" not in str(problem)


async def test_concurrency_limit_per_account(api: ApiSite) -> None:
    places = api.site.service.api_slots
    for _ in range(MAX_API_CALLS_PER_ACCOUNT):
        assert places.acquire("service_account/robot")
    response = await api.ask("GET", "routes")
    assert (response.status, response.headers["retry-after"]) == (429, "1")
    other = await api.account("other", ["routes:read"])
    assert (await api.ask("GET", "routes", token=other)).status == 200
    for _ in range(MAX_API_CALLS - MAX_API_CALLS_PER_ACCOUNT):
        assert places.acquire("")
    await api.problem(429, "GET", "routes", token=other)
    for _ in range(MAX_API_CALLS_PER_ACCOUNT):
        places.release("service_account/robot")
    assert (await api.ask("GET", "routes")).status == 200


async def test_slot_is_released_after_any_outcome(api: ApiSite) -> None:
    for path in ("routes", "routes?colour=red", "sessions/x", "nothing") * (MAX_API_CALLS_PER_ACCOUNT + 1):
        await api.ask("GET", path)
    assert (await api.ask("GET", "routes")).status == 200
