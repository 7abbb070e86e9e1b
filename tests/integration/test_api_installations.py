"""The API where gate is several processes, and where its records and tables are PostgreSQL's: each call may reach another process."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from databroker.permissions import PERMISSIONS
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import run
from tests.support.gate import HTML, GateBuilder, sign_in, until_status
from tests.support.grants import press
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.split import AUTHENTICATE_HOST, ROUTE_HOST, Split
from tests.support.upstream import SampleUpstream
from tests.support.workers import WORKERS

APPROVERS = [{"user": {"in": ["service_account/first", "service_account/second"]}}]
ROUTES: list[dict[str, Any]] = [
    {"prefix": "/wages/", "name": "wages", "allowed_groups": ["nobody"], "access_requests": {"approvers": APPROVERS, "approvals": 2}},
    {"prefix": "/", "name": "app", "allow_any_authenticated_user": True},
]
# Enough for each process to be asked.
EACH = 12


@dataclass(frozen=True, slots=True)
class Installation:
    """Where an installation is found: its application, its API, and the configuration that a command reads."""

    application: str
    api: str
    config: Path
    client: Callable[[], httpx.AsyncClient]

    def account(self, name: str, *permissions: str) -> str:
        requested = [part for each in permissions or PERMISSIONS for part in ("--permission", each)]
        return self.command("create", name, *requested)

    def command(self, *arguments: str) -> str:
        done = run("manage.py", "serviceaccount", *arguments, "-config", self.config)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    async def ask(self, method: str, path: str, token: str, document: Any = None) -> httpx.Response:
        """Send one request over a separate connection."""
        async with self.client() as program:
            return await program.request(method, f"{self.api}{path}", json=document, headers={"Authorization": f"Bearer {token}"})

    async def statuses(self, method: str, path: str, token: str) -> set[int]:
        return {(await self.ask(method, path, token)).status_code for _ in range(EACH)}

    async def until_listed(self, path: str, token: str, count: int) -> list[dict[str, Any]]:
        """The items of a list, once each process lists `count` of them, because tables follow the store."""
        for _ in range(200):
            lists = [(await self.ask("GET", path, token)).json()["items"] for _ in range(EACH)]
            if all(len(items) == count for items in lists):
                return list(lists[0])
        raise AssertionError(f"never {count} at {path}")


@contextmanager
def split(provider: DevelopmentProvider, upstream: SampleUpstream, directory: Path) -> Iterator[Installation]:
    with RedisServer(directory / "redis") as redis, PostgresServer() as database:
        policy = [{**route, "to": upstream.url} for route in ROUTES]
        with Split(directory, provider.url, redis, policy, database_url=database.url) as running:
            api = f"https://{AUTHENTICATE_HOST}:{running.ports['authenticate']}/.gate/api/"
            yield Installation(running.url(), api, running.write("authenticate", 0), running.client)


@contextmanager
def one_gate(provider: DevelopmentProvider, upstream: SampleUpstream, directory: Path, **settings: Any) -> Iterator[Installation]:
    builder = GateBuilder(provider.url).setting(groups_claim="groups", **settings)
    for route in ROUTES:
        builder.route(ROUTE_HOST, to=upstream.url, **route)
    with builder.start(directory) as running:
        api = builder.url(AUTHENTICATE_HOST, "/.gate/api/")
        yield Installation(builder.url(ROUTE_HOST), api, running.config_file, running.client)


@pytest.fixture(scope="module", params=["split", "workers", "postgresql"])
def installation(
    request: pytest.FixtureRequest, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "split":
        with split(provider, upstream, directory) as running:
            yield running
    elif request.param == "workers":
        with one_gate(provider, upstream, directory, workers=WORKERS, grpc_address=f"127.0.0.1:{free_port()}") as running:
            yield running
    else:
        with PostgresServer() as database:
            tables = {"database_url": database.url, "databroker_storage_type": "database"}
            with one_gate(provider, upstream, directory, **tables) as running:
                yield running


async def test_sessions_are_read_a_page_at_a_time_and_end_for_every_process(installation: Installation) -> None:
    token, people = installation.account("robot"), ("alice", "bob", "carol")
    clients = {name: installation.client() for name in people}
    for name, client in clients.items():
        assert (await sign_in(client, installation.application, name)).status_code == 200
    await installation.until_listed("sessions", token, 3)
    found = [item async for item in pages(installation, "sessions", token)]
    assert sorted(item["user_id"] for item in found) == [f"oidc/{name}" for name in people]
    assert [item["email"] async for item in pages(installation, "users", token)] == [f"{name}@example.com" for name in people]
    for item in found[:2]:
        assert (await installation.ask("DELETE", f"sessions/{item['id']}", token)).status_code == 204
        assert await installation.statuses("GET", f"sessions/{item['id']}", token) == {404}
    left = found[2]["user_id"]
    ended = await installation.ask("POST", "end_sessions", token, {"user_id": left})
    assert ended.json() == {"ended": 1}
    for client in clients.values():
        await until_status(client, installation.application, 302)
        await client.aclose()
    assert await installation.until_listed("sessions", token, 0) == []
    (decision,) = await installation.until_listed("decisions?outcome=allowed&user=carol@example.com&limit=1", token, 1)
    assert (decision["route"], decision["user_id"]) == ("app", "oidc/carol")


async def test_revoked_account_fails_on_every_process(installation: Installation) -> None:
    boss = installation.account("boss")
    made = await installation.ask("POST", "service_accounts", boss, {"name": "boss--own", "permissions": ["routes:read"]})
    token = made.json()["token"]
    assert await installation.statuses("GET", "routes", token) == {200}
    assert await installation.statuses("GET", "users", token) == {403}
    assert (await installation.ask("DELETE", "service_accounts/boss--own", boss)).status_code == 204
    assert await installation.statuses("GET", "routes", token) == {401}
    installation.command("revoke", "boss")
    assert await installation.statuses("GET", "routes", boss) == {401}


async def test_two_services_approve_and_one_revokes(installation: Installation) -> None:
    first, second = installation.account("first"), installation.account("second")
    async with installation.client() as alice:
        wages = f"{installation.application}wages/"
        assert (await sign_in(alice, wages, "alice")).status_code == 403
        refused = await alice.get(wages, headers=HTML)
        (link,) = re.findall(r'href="([^"]+/.gate/access\?route=[^"]+)"', refused.text)
        requested = await press(alice, link, "ask", route=link.partition("route=")[2], why="the year's end", duration="3600")
        assert requested.status_code == 303
        (waiting,) = await installation.until_listed("requests", first, 1)
        path = f"requests/{waiting['id']}/approve"
        assert [(await installation.ask("POST", path, token)).json()["granted"] for token in (first, first, second)] == [
            False,
            False,
            True,
        ]
        await until_status(alice, wages, 200)
        (grant,) = await installation.until_listed("grants", second, 1)
        assert grant["granted_by"] == "service_account/first, service_account/second"
        assert (await installation.ask("DELETE", f"grants/{grant['id']}", second)).status_code == 204
        await until_status(alice, wages, 403)
        assert await installation.until_listed("grants", second, 0) == []
    assert (await installation.ask("POST", "end_sessions", first, {"user_id": "oidc/alice"})).json() == {"ended": 1}
    assert await installation.until_listed("sessions", first, 0) == []


async def test_concurrent_calls_get_200_or_429(installation: Installation) -> None:
    token = installation.account("busy")
    answers = await asyncio.gather(*(installation.ask("GET", "service_accounts", token) for _ in range(30)))
    assert {answer.status_code for answer in answers} <= {200, 429}
    assert (await installation.ask("GET", "service_accounts", token)).status_code == 200


async def pages(installation: Installation, path: str, token: str) -> AsyncIterator[dict[str, Any]]:
    """Each item of a list, two a page."""
    cursor = ""
    while True:
        page = (await installation.ask("GET", f"{path}?limit=2{cursor}", token)).json()
        for item in page["items"]:
            yield item
        if page["next"] is None:
            return
        cursor = f"&cursor={page['next']}"
