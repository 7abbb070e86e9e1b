"""A session from its sign-in to its end, by the whole product: refreshed before its token expires, and over when the provider says so."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.cookies import client_cookies
from tests.support.eventually import eventually
from tests.support.fake_idp import ABSENT, CLIENT_ID, CLIENT_SECRET, Answer, FakeIdP
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, led_to, status_or_cut
from tests.support.redis_server import RedisServer
from tests.support.upstream import SampleUpstream

APP = "app.localhost"
LIFETIME = 3  # seconds of an access token, so it is refreshed after half of it


@pytest.fixture
async def idp() -> AsyncIterator[FakeIdP]:
    provider = await FakeIdP.started()
    provider.lifetime = LIFETIME
    yield provider
    await provider.stop()


@pytest.fixture
async def gate(idp: FakeIdP, upstream: SampleUpstream, tmp_path: Path) -> AsyncIterator[RunningGate]:
    builder = GateBuilder(idp.issuer).route(APP, to=upstream.url, allow_any_authenticated_user=True)
    builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, authenticate_callback_path="/done/with/it")
    with builder.start(tmp_path) as running:
        yield running


async def signed_in(gate: RunningGate, idp: FakeIdP, client: httpx.AsyncClient) -> None:
    offered = await led_to(client, gate.url(APP), idp.issuer)
    callback = idp.pick(offered, "alice")
    assert callback.startswith(gate.url(gate.builder.authenticate_host, "/done/with/it?"))
    assert (await follow(client, await client.get(callback, headers=HTML))).status_code == 200


async def test_a_hundred_requests_on_an_expiring_session_and_one_refresh(gate: RunningGate, idp: FakeIdP) -> None:
    async with gate.client(limits=httpx.Limits(max_connections=20)) as client:
        await signed_in(gate, idp, client)
        idp.lifetime = 3600  # of the tokens that the refresh brings, so that no second one is due
        statuses = {response.status_code for response in await asyncio.gather(*(client.get(gate.url(APP)) for _ in range(100)))}
        await eventually(lambda: idp.refreshed > 0)
        statuses.add((await client.get(gate.url(APP))).status_code)
    assert (statuses, idp.refreshed, idp.reused) == ({200}, 1, 0)


async def test_trouble_keeps_the_session_and_a_refusal_ends_it(gate: RunningGate, idp: FakeIdP) -> None:
    async with gate.client() as client:
        await signed_in(gate, idp, client)
        idp.bend.answers["/token"] = Answer(500)
        await eventually(lambda: idp.count("/token") > 1)
        assert (await client.get(gate.url(APP))).status_code == 200
        idp.bend.answers["/token"] = Answer(403, b'{"error": "invalid_grant"}')

        async def is_out() -> bool:
            return await status_or_cut(client, gate.url(APP)) == 401

        await eventually(is_out)
    assert gate.wait_for_event("session ended")["reason"].endswith("invalid_grant")


async def test_invalid_id_token_at_refresh_ends_session(gate: RunningGate, idp: FakeIdP) -> None:
    async with gate.client() as client:
        await signed_in(gate, idp, client)
        before = idp.refreshed
        idp.bend.claims = {"iss": "https://evil.example"}

        async def is_out() -> bool:
            return await status_or_cut(client, gate.url(APP)) == 401

        await eventually(is_out)
        ended = gate.wait_for_event("session ended")
        assert (ended["kind"], "another issuer" in ended["reason"]) == ("invalid", True)
        assert idp.refreshed == before + 1


async def test_removed_group_is_deleted(idp: FakeIdP, upstream: SampleUpstream, tmp_path: Path) -> None:
    """The claim is gone, not empty, and the refresh brings no new ID token in which it could stand."""
    builder = GateBuilder(idp.issuer).route(APP, to=upstream.url, allowed_groups=["engineering"])
    builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, authenticate_callback_path="/done/with/it")
    builder.setting(groups_claim="groups")
    with builder.start(tmp_path) as gate:
        async with gate.client() as client:
            await signed_in(gate, idp, client)
            idp.bend.userinfo, idp.bend.tokens = {"groups": ABSENT}, {"id_token": ABSENT}

            async def is_refused() -> bool:
                return await status_or_cut(client, gate.url(APP)) == 403

            await eventually(is_refused)


async def test_two_processes_and_a_hundred_requests_refresh_once(idp: FakeIdP, upstream: SampleUpstream, tmp_path: Path) -> None:
    """Each refresh token works once at this provider, and ends the session when it comes a second time (B36)."""
    with RedisServer(tmp_path / "redis") as redis:
        one, two = two_of_a_kind(idp, upstream, redis)
        limits = httpx.Limits(max_connections=20)
        with one.start(directory(tmp_path, "one")) as gate, two.start(directory(tmp_path, "two")) as other:
            async with gate.client(limits=limits) as client, other.client(limits=limits) as elsewhere:
                await signed_in(gate, idp, client)
                idp.lifetime = 3600
                copy = as_sent_to(gate, client)

                async def both(number: int) -> set[int]:
                    requested = [client.get(gate.url(APP)) for _ in range(number)]
                    requested += [elsewhere.get(other.url(APP), headers=copy) for _ in range(number)]
                    return {answer.status_code for answer in await asyncio.gather(*requested)}

                statuses = await both(50)
                await eventually(lambda: idp.refreshed > 0)
                statuses |= await both(10)
    assert (statuses, idp.refreshed, idp.reused) == ({200}, 1, 0)


async def test_a_sign_out_wins_over_a_refresh_in_another_process(idp: FakeIdP, upstream: SampleUpstream, tmp_path: Path) -> None:
    """Two processes share a Redis; the one refreshes while a person signs out at the other (B36)."""
    with RedisServer(tmp_path / "redis") as redis:
        pages, refreshing = two_of_a_kind(idp, upstream, redis)
        # The process that starts first holds the lease, so this one refreshes.
        with refreshing.start(directory(tmp_path, "refreshing")) as other, pages.start(directory(tmp_path, "pages")) as gate:
            async with gate.client() as client, other.client() as elsewhere:
                await signed_in(gate, idp, client)
                copy = as_sent_to(gate, client)
                assert (await elsewhere.get(other.url(APP), headers=copy)).status_code == 200
                idp.bend.holds["/token"] = asyncio.Event()
                exchanges = idp.count("/token")
                await eventually(lambda: idp.count("/token") > exchanges)
                page = await client.get(gate.url(gate.builder.authenticate_host, "/.gate/"), headers=HTML)
                token = page.text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
                await client.get(gate.url(gate.builder.authenticate_host, f"/.gate/signout/?_gate_csrf={token}"), headers=HTML)
                revoked = idp.count("/revoke")
                idp.bend.holds.pop("/token").set()
                # gate revokes the late tokens of the refresh at the provider. Only then has it seen that the session is gone.
                await eventually(lambda: idp.count("/revoke") > revoked)
                statuses = [(await elsewhere.get(other.url(APP), headers=copy)).status_code, (await client.get(gate.url(APP))).status_code]
    assert statuses == [401, 401]


def two_of_a_kind(idp: FakeIdP, upstream: SampleUpstream, redis: RedisServer) -> tuple[GateBuilder, GateBuilder]:
    """Two processes of one gate, which differ by their port alone."""
    one = GateBuilder(idp.issuer).route(APP, to=upstream.url, allow_any_authenticated_user=True)
    one.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, databroker_storage_type="kvstore")
    one.setting(databroker_storage_connection_string=redis.url, authenticate_callback_path="/done/with/it")
    two = GateBuilder(idp.issuer)
    two.settings, two.policy = {**one.settings, "address": two.settings["address"]}, one.policy
    return one, two


def as_sent_to(gate: RunningGate, client: httpx.AsyncClient) -> dict[str, str]:
    """Headers that make a request to the other process look like this browser's request to the application."""
    return {"Host": f"{APP}:{gate.port}", "Cookie": client_cookies(client, APP)}


def directory(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name
