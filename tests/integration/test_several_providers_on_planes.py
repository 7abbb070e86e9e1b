"""Two providers on each data plane, with workers and as split services: whose people get where, whose sessions end with a provider."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.demo.people import ALICE
from tests.support.cookies import client_cookies
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import HTML, PATIENCE, GateBuilder, RunningGate, follow, status_or_cut
from tests.support.postgresql import PostgresServer
from tests.support.provider_selection import CORP_ONLY, IDP_KEYS, OPEN, PLANES, configure, entry, signed_in
from tests.support.raw_http import Broken, RawClient, RawResponse
from tests.support.redis_server import RedisServer
from tests.support.reloading import reload
from tests.support.split import Split
from tests.support.upstream import SampleUpstream

GONE = "sessions of removed identity provider ended"
Providers = tuple[DevelopmentProvider, DevelopmentProvider]


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    with DevelopmentProvider() as corp, DevelopmentProvider([replace(ALICE, full_name="Alice of the partner")]) as partner:
        yield corp, partner


@pytest.fixture(scope="module")
def entries(providers: Providers) -> list[dict[str, Any]]:
    corp, partner = providers
    return [entry("corp", corp, "example.com", groups_claim="groups"), entry("partner", partner, "partner.example")]


@pytest.fixture(params=PLANES)
def gate(request: pytest.FixtureRequest, entries: list[dict[str, Any]], upstream: SampleUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    builder = GateBuilder("https://not-used.invalid").setting(**dict.fromkeys(IDP_KEYS), identity_providers=entries)
    builder.setting(jwt_claims_headers=["email", "user", "groups"], **PLANES[request.param])
    builder.route(OPEN, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
    builder.route(CORP_ONLY, to=upstream.url, allow_any_authenticated_user=True, identity_providers=["corp"])
    with builder.start(tmp_path) as running:
        yield running


def ask(gate: RunningGate, cookie: str) -> RawResponse:
    lines = ("GET /x HTTP/1.1", f"Host: {OPEN}:{gate.port}", f"Cookie: {cookie}", "", "")
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=OPEN) as client:
        return client.send("\r\n".join(lines).encode()).response()


def received(page: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in page.json()["headers"] if name.startswith("x-gate-claim-")}


async def visit(gate: RunningGate, client: httpx.AsyncClient, id: str, provider: DevelopmentProvider) -> str:
    """Sign in as alice of this provider, check her identity headers and her access, and return her cookie."""
    page = await signed_in(gate, client, id, provider)
    of_corp = {"x-gate-claim-email": "alice@example.com", "x-gate-claim-groups": "engineering"} if id == "corp" else {}
    for answer in (page, await client.get(gate.url(OPEN)), await client.get(gate.url(OPEN))):
        assert received(answer) == {"x-gate-claim-user": f"{id}/alice", **of_corp}
    cookie = client_cookies(client, OPEN)
    only = await follow(client, await client.get(gate.url(CORP_ONLY), headers=HTML))
    assert only.status_code == (200 if id == "corp" else 403)
    return cookie


def is_out(gate: RunningGate, cookie: str) -> bool:
    """Whether nothing passes any more; an answer that is cut says nothing yet."""
    try:
        return ask(gate, cookie).status != 200
    except (OSError, Broken):
        return False


def until_out(gate: RunningGate, cookie: str) -> None:
    """Several times in a row: a connection may be to either process."""
    gate.child.wait_for(lambda: all(is_out(gate, cookie) for _ in range(6)), "nothing of it passes")


async def test_users_of_two_providers_are_separate_and_their_sessions_end_with_the_provider(
    gate: RunningGate, providers: Providers, entries: list[dict[str, Any]]
) -> None:
    async with gate.client() as employee, gate.client() as guest:
        cookies = [
            await visit(gate, client, id, provider)
            for client, id, provider in zip((employee, guest), ("corp", "partner"), providers, strict=True)
        ]
        reload(gate, identity_providers=[entries[0]])
        gate.wait_for_event(GONE, lambda line: (line["provider"], line["sessions"]) == ("partner", 1))
        until_out(gate, cookies[1])
        assert ask(gate, cookies[0]).status == 200
        reload(gate, identity_providers=entries)
        until_out(gate, cookies[1])


async def test_a_renamed_provider_takes_its_sessions_along(gate: RunningGate, providers: Providers, entries: list[dict[str, Any]]) -> None:
    async with gate.client() as employee, gate.client() as guest:
        cookies = [await visit(gate, employee, "corp", providers[0]), await visit(gate, guest, "partner", providers[1])]
        reload(gate, identity_providers=[entries[0], {**entries[1], "id": "friend"}])
        gate.wait_for_event(GONE, lambda line: (line["provider"], line["sessions"]) == ("partner", 1))
        until_out(gate, cookies[1])
        assert ask(gate, cookies[0]).status == 200


@pytest.fixture
def split(entries: list[dict[str, Any]], upstream: SampleUpstream, tmp_path: Path) -> Iterator[Split]:
    """Only authenticate has the clients' secrets."""
    with ExitStack() as stack:
        redis = RedisServer(tmp_path / "redis")
        stack.callback(redis.child.__exit__)
        database = stack.enter_context(PostgresServer())
        keys = {"to": upstream.url, "allow_any_authenticated_user": True}
        policy = [{**keys, "prefix": "/corp/", "identity_providers": ["corp"]}, {**keys, "prefix": "/", "pass_identity_headers": True}]
        split = Split(tmp_path, "https://not-used.invalid", redis, policy, database_url=database.url, jwt_claims_headers=["email", "user"])
        configure(split, entries)
        yield stack.enter_context(split)


async def test_split_services_keep_two_providers_apart_and_end_the_sessions_of_one_that_goes(
    split: Split, providers: Providers, entries: list[dict[str, Any]]
) -> None:
    async with split.client() as employee, split.client() as guest:
        for client, id, provider in ((employee, "corp", providers[0]), (guest, "partner", providers[1])):
            page = await signed_in(split, client, id, provider)
            email = {"x-gate-claim-email": "alice@example.com"} if id == "corp" else {}
            assert received(page) == {"x-gate-claim-user": f"{id}/alice", **email}
            for _ in range(4):
                assert (await client.get(split.url("/corp/"))).status_code == (200 if id == "corp" else 403)
        configure(split, [entries[0]])
        for service, number in split.instances():
            split.write(service, number)
        refused = 0
        async with asyncio.timeout(PATIENCE):
            while refused < 8:  # each proxy asks each authorize in turn
                refused = refused + 1 if await status_or_cut(guest, split.url()) == 401 else 0
        for _ in range(4):
            assert (await employee.get(split.url())).status_code == 200
