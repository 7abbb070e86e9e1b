"""One person with an account at each of two linked providers, in the running product: one to applications, and to who gives access."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from authenticate.views.sign_out import EVERYWHERE
from config.settings.linked_accounts import VERIFIED_EMAIL
from examples.demo.people import ALICE, BOB
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import eventually_equal
from tests.support.gate import AUTHENTICATE_HOST, HTML, PATIENCE, GateBuilder, RunningGate, follow, until_status
from tests.support.grants import command, press
from tests.support.provider_selection import IDP_KEYS, OPEN, PLANES, configure, entry, signed_in
from tests.support.redis_server import RedisServer
from tests.support.reloading import reload
from tests.support.split import Split
from tests.support.upstream import SampleUpstream

WAGES = "wages.localhost"
LINKED_ALICE = f"{VERIFIED_EMAIL}/alice@example.com"
LINK: dict[str, Any] = {"link_by": VERIFIED_EMAIL}
Providers = dict[str, DevelopmentProvider]


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    """Both providers have a user alice with the same address; at the partner she is in other groups."""
    with DevelopmentProvider([ALICE, BOB]) as corp, DevelopmentProvider([replace(ALICE, groups=("guests",))]) as partner:
        yield {"corp": corp, "partner": partner}


@pytest.fixture(scope="module")
def entries(providers: Providers) -> list[dict[str, Any]]:
    return [entry(id, provider, "example.com", groups_claim="groups", **LINK) for id, provider in providers.items()]


@pytest.fixture(params=PLANES)
def gate(request: pytest.FixtureRequest, entries: list[dict[str, Any]], upstream: SampleUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    builder = GateBuilder("https://not-used.invalid").setting(**dict.fromkeys(IDP_KEYS), identity_providers=entries)
    builder.setting(jwt_claims_headers=["email", "user", "groups"], grpc_address=f"127.0.0.1:{free_port()}", **PLANES[request.param])
    builder.route(OPEN, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
    builder.route(WAGES, to=upstream.url, name="wages", policy=[{"allow": {"granted": True}}])
    with builder.start(tmp_path) as running:
        yield running


def received(page: httpx.Response) -> dict[str, str]:
    claims = {name: value for name, value in page.json()["headers"] if name.startswith("x-gate-claim-")}
    return {name.removeprefix("x-gate-claim-"): value for name, value in claims.items()}


async def test_linked_accounts_share_identity_but_not_claims(
    gate: RunningGate, providers: Providers, entries: list[dict[str, Any]]
) -> None:
    async with gate.client() as at_corp, gate.client() as at_partner:
        clients = {"corp": at_corp, "partner": at_partner}
        for id, groups in (("corp", "engineering"), ("partner", "guests")):
            page = await signed_in(gate, clients[id], id, providers[id])
            assert received(page) == {"user": LINKED_ALICE, "email": "alice@example.com", "groups": groups}
            line = gate.wait_for_event("request", lambda line, account=f"{id}/alice": line.get("user_id") == account)
            assert line["linked_user_id"] == LINKED_ALICE
            assert (await follow(clients[id], await clients[id].get(gate.url(WAGES), headers=HTML))).status_code == 403
        granted = command(
            gate.config_file, "create", "--user", "alice@example.com", "--route", "wages", "--for", "1h", "--reason", "a test"
        )
        for client in clients.values():
            await until_status(client, gate.url(WAGES), 200)
        command(gate.config_file, "revoke", "--id", granted.partition(":")[0])
        for client in clients.values():
            await until_status(client, gate.url(WAGES), 403)
        page = (await at_partner.get(gate.url(AUTHENTICATE_HOST, "/.gate/sessions"))).text
        assert page.count('name="end" value="') == 1, "the other account's session can be ended here"
        reload(gate, identity_providers=[{name: value for name, value in each.items() if name != "link_by"} for each in entries])
        for id, client in clients.items():
            await wait_until_received(client, gate.url(OPEN), f"{id}/alice")


async def wait_until_received(client: httpx.AsyncClient, url: str, user: str) -> None:
    """Wait, because each process and Envoy's decision cache learn of a new configuration separately."""
    async with asyncio.timeout(PATIENCE):
        while received(await client.get(url))["user"] != user:
            await asyncio.sleep(0.02)


@pytest.fixture
def split(entries: list[dict[str, Any]], upstream: SampleUpstream, tmp_path: Path) -> Iterator[Split]:
    """Each service in separate processes; only authenticate has the clients' secrets. alice is an approver by each account."""
    keys = {"approvers": [{"groups": {"in": ["engineering", "guests", "sales"]}}], "max_duration": "2h"}
    policy = [
        {"name": "wages", "prefix": "/wages/", "allowed_groups": ["nobody"], "access_requests": keys},
        {"prefix": "/", "allow_any_authenticated_user": True, "pass_identity_headers": True},
    ]
    with RedisServer(tmp_path / "redis") as redis:
        received = {"jwt_claims_headers": ["email", "user", "groups"]}
        split = Split(
            tmp_path, "https://not-used.invalid", redis, [{**route, "to": upstream.url} for route in policy], database_url="", **received
        )
        configure(split, entries)
        for service in ("authenticate", "authorize"):  # each has a separate database
            split.settings[service].pop("database_url")
        with split:
            yield split


async def statuses(client: httpx.AsyncClient, split: Split, path: str) -> set[int]:
    """Twice by each proxy, which asks each authorize in turn."""
    return {(await client.get(split.url(path), headers=HTML)).status_code for _ in range(4)}


async def until_all(client: httpx.AsyncClient, split: Split, path: str, status: int) -> None:
    await eventually_equal(lambda: statuses(client, split, path), {status})


async def test_linked_accounts_share_grants_in_split_mode(split: Split, providers: Providers) -> None:
    async with split.client() as at_corp, split.client() as at_partner, split.client() as bob:
        clients = {"corp": at_corp, "partner": at_partner}
        for id, groups in (("corp", "engineering"), ("partner", "guests")):
            page = await signed_in(split, clients[id], id, providers[id])
            assert received(page) == {"user": LINKED_ALICE, "email": "alice@example.com", "groups": groups}
            for _ in range(4):
                assert received(await clients[id].get(split.url()))["user"] == LINKED_ALICE
            assert await statuses(clients[id], split, "/wages/") == {403}
        await signed_in(split, bob, "corp", providers["corp"], "bob")
        refused = await at_corp.get(split.url("/wages/"), headers=HTML)
        (link,) = re.findall(r'href="([^"]+/.gate/access\?route=[^"]+)"', refused.text)
        page, _, route = link.partition("?route=")
        assert (await press(at_corp, link, "ask", route=route, why="a test", duration="3600")).status_code == 303
        for client in clients.values():
            assert (await client.get(page, headers=HTML)).text.count("a test") == 1, "both accounts see what either has asked for"
        (request, *_) = re.findall(r'name="request" value="([^"]+)"', (await bob.get(page, headers=HTML)).text)
        for client in clients.values():
            assert (await press(client, page, "approve", request=request)).status_code == 403, "nobody answers themselves"
            assert await statuses(client, split, "/wages/") == {403}
        assert (await press(bob, page, "approve", request=request)).status_code == 303
        for client in clients.values():
            await until_all(client, split, "/wages/", 200)
        assert await statuses(bob, split, "/wages/") == {403}


async def test_split_services_show_and_end_the_sessions_of_each_linked_account(split: Split, providers: Providers) -> None:
    pages = f"https://{AUTHENTICATE_HOST}:{split.ports['authenticate']}/.gate/"
    async with split.client() as at_corp, split.client() as at_partner, split.client() as bob:
        await signed_in(split, bob, "corp", providers["corp"], "bob")
        await signed_in(split, at_partner, "partner", providers["partner"])
        for end in ("one", "others", "everywhere"):
            await signed_in(split, at_corp, "corp", providers["corp"])
            await until_all(at_corp, split, "/", 200)
            for _ in range(2):
                form = (await at_partner.get(f"{pages}sessions", headers=HTML)).text
                assert form.count('name="end" value="') == 1, "the other account's session can be ended here, and bob's is not there"
            (csrf, *_) = re.findall(r'name="_gate_csrf" value="([^"]+)"', form)
            (other,) = re.findall(r'name="end" value="([^"]+)"', form)
            if end == "everywhere":
                form = (await at_corp.get(f"{pages}signout/", headers=HTML)).text
                (csrf, *_) = re.findall(r'name="_gate_csrf" value="([^"]+)"', form)
                await at_corp.post(f"{pages}signout/", data={"_gate_csrf": csrf, EVERYWHERE: "1"}, headers=HTML)
                await until_all(at_partner, split, "/", 302)
            else:
                chosen = {"end": other} if end == "one" else {"end_others": "1"}
                assert (await at_partner.post(f"{pages}sessions", data={"_gate_csrf": csrf, **chosen}, headers=HTML)).status_code == 303
                await until_all(at_partner, split, "/", 200)
            await until_all(at_corp, split, "/", 302)
            at_corp.cookies.clear()
        assert await statuses(bob, split, "/") == {200}
