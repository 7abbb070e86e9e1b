"""Two processes on one store: one reads the directory, both decide by it, and the other goes on when the first is killed in the middle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.cookies import client_cookies
from tests.support.eventually import eventually
from tests.support.fake_api import Answer
from tests.support.fake_directories import ByName
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, FakeIdP
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, led_to, status_or_cut
from tests.support.redis_server import RedisServer
from tests.support.upstream import SampleUpstream

APP = "app.localhost"
READ = "directory sync completed"
LEASES = ("{gate}lease/directory", "{gate}lease/directory reading")


@dataclass
class Two:
    """`first` was there first; both have the same configuration, but for the port."""

    first: RunningGate
    second: RunningGate
    directory: ByName
    idp: FakeIdP
    redis: RedisServer


@pytest.fixture
async def two(upstream: SampleUpstream, tmp_path: Path) -> AsyncIterator[Two]:
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(ByName())
        idp = await FakeIdP.started()
        stack.push_async_callback(idp.stop)
        processes = stack.enter_context(ExitStack())
        redis = processes.enter_context(RedisServer(tmp_path / "redis"))
        one = GateBuilder(idp.issuer).route(APP, to=upstream.url, allowed_groups=[directory.group_id("engineering")])
        one.setting(**{**directory.settings(), "idp_provider_url": idp.issuer}, idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET)
        one.setting(databroker_storage_type="kvstore", databroker_storage_connection_string=redis.url, idp_refresh_directory_interval="1s")
        other = GateBuilder(idp.issuer)
        other.settings, other.policy = {**one.settings, "address": other.settings["address"]}, one.policy
        running = []
        for builder, name in ((one, "one"), (other, "other")):
            (tmp_path / name).mkdir()
            running.append(processes.enter_context(await asyncio.to_thread(builder.start, tmp_path / name)))
            await asyncio.to_thread(running[0].wait_for_event, READ)
        yield Two(*running, directory, idp, redis)


def readings(gate: RunningGate) -> int:
    return sum(entry.get("event") == READ for entry in gate.log)


def is_elected(gate: RunningGate) -> bool:
    return any(entry.get("event") == "leadership acquired" and entry["work"] == "directory" for entry in gate.log)


async def signed_in(gate: RunningGate, idp: FakeIdP, client: httpx.AsyncClient) -> str:
    """The cookie of the application's host."""
    offered = await led_to(client, gate.url(APP), idp.issuer)
    await follow(client, await client.get(idp.pick(offered, "alice"), headers=HTML))
    return client_cookies(client, APP)


async def test_one_of_two_reads_and_the_other_goes_on_when_it_is_killed_in_the_middle(two: Two) -> None:
    company, engineering = two.directory.company, "engineering"
    company.users["alice"] = ("Alice Adams", "alice@corp.example")

    def change(is_member: bool, stamp: str) -> None:
        company.members[engineering] = ["ann", *(["alice"] if is_member else [])]
        two.directory.changed[engineering] = stamp

    async with two.first.client() as browser, two.second.client() as elsewhere:
        cookie = await signed_in(two.first, two.idp, browser)
        copy = {**HTML, "Host": f"{APP}:{two.first.port}", "Cookie": cookie}

        async def requested(gate: RunningGate, client: httpx.AsyncClient) -> int | None:
            return await status_or_cut(client, gate.url(APP), headers=copy)

        async def both_report(status: int) -> bool:
            return {await requested(two.first, browser), await requested(two.second, elsewhere)} == {status}

        await eventually(lambda: both_report(403), "alice is in no group")
        change(True, "2026-05-05T00:00:00.000Z")
        await eventually(lambda: both_report(200), "both let in who is in the group now")
        seen = readings(two.first)
        change(False, "2026-06-06T00:00:00.000Z")
        await eventually(lambda: both_report(403), "both refuse who is not")
        await eventually(lambda: readings(two.first) > seen, "it has read and says so")
        assert (is_elected(two.first), is_elected(two.second), readings(two.second)) == (True, False, 0)

        # Killed when it has read the groups and waits for the people.
        change(True, "2026-07-07T00:00:00.000Z")
        before = len(two.directory.requests)
        two.directory.fault = lambda request: Answer(never=True) if request.path == "/api/v1/users" else None
        await eventually(lambda: any(request.path == "/api/v1/users" for request in two.directory.requests[before:]), "it reads")
        two.first.child.process.kill()
        two.first.child.process.wait()
        assert await requested(two.second, elsewhere) == 403, "half a reading changes nothing"
        two.directory.fault = lambda request: None
        for lease in LEASES:  # as if the thirty seconds had passed in which the first would have renewed them
            two.redis.command("PEXPIRE", lease, "1")
        await eventually(lambda: is_elected(two.second), "the other is elected")

        async def is_let_in() -> bool:
            return await requested(two.second, elsewhere) == 200

        await eventually(is_let_in, "the other reads")
        await eventually(lambda: readings(two.second) > 0, "and says so: its line may come after the answer")
