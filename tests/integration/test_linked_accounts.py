"""One person with an account at each of two linked providers, in the running product: one to applications, and to who gives access."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from config.settings.linked_accounts import VERIFIED_EMAIL
from examples.demo.people import ALICE, BOB
from tests.integration.test_several_providers import HTML, IDP_KEYS, OPEN, entry, signed_in
from tests.integration.test_several_providers_on_planes import PLANES
from tests.integration.test_temporary_access import command, until
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import AUTHENTICATE_HOST, PATIENCE, GateBuilder, RunningGate, follow
from tests.support.reloading import reload
from tests.support.sample_upstream import SampleUpstream

pytestmark = pytest.mark.slow

WAGES = "wages.localhost"
LINKED_ALICE = f"{VERIFIED_EMAIL}/alice@example.com"
LINK: dict[str, Any] = {"link_by": VERIFIED_EMAIL}
Providers = dict[str, DevelopmentProvider]


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    """At both there is an alice of one address, and at the partner's she is in other groups."""
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


def told(page: httpx.Response) -> dict[str, str]:
    claims = {name: value for name, value in page.json()["headers"] if name.startswith("x-gate-claim-")}
    return {name.removeprefix("x-gate-claim-"): value for name, value in claims.items()}


async def test_linked_accounts_are_one_person_and_keep_what_each_provider_says(
    gate: RunningGate, providers: Providers, entries: list[dict[str, Any]]
) -> None:
    async with gate.client() as at_corp, gate.client() as at_partner:
        clients = {"corp": at_corp, "partner": at_partner}
        for id, groups in (("corp", "engineering"), ("partner", "guests")):
            page = await signed_in(gate, clients[id], id, providers[id])
            assert told(page) == {"user": LINKED_ALICE, "email": "alice@example.com", "groups": groups}
            line = gate.wait_for_event("request", lambda line, account=f"{id}/alice": line.get("user_id") == account)
            assert line["person"] == LINKED_ALICE
            assert (await follow(clients[id], await clients[id].get(gate.url(WAGES), headers=HTML))).status_code == 403
        given = command(gate.config_file, "give", "--user", "alice@example.com", "--route", "wages", "--for", "1h", "--why", "a test")
        for client in clients.values():
            await until(client, gate.url(WAGES), 200)
        command(gate.config_file, "revoke", "--id", given.partition(":")[0])
        for client in clients.values():
            await until(client, gate.url(WAGES), 403)
        page = (await at_partner.get(gate.url(AUTHENTICATE_HOST, "/.gate/sessions"))).text
        assert page.count('name="end" value="') == 1, "the other account's session can be ended here"
        reload(gate, identity_providers=[{name: value for name, value in each.items() if name != "link_by"} for each in entries])
        for id, client in clients.items():
            await until_told(client, gate.url(OPEN), f"{id}/alice")


async def until_told(client: httpx.AsyncClient, url: str, user: str) -> None:
    """Each process and Envoy's memory hears of a new configuration by itself."""
    async with asyncio.timeout(PATIENCE):
        while told(await client.get(url))["user"] != user:
            await asyncio.sleep(0.02)
