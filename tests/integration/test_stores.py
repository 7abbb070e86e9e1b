"""The whole product on each kind of store: restarts keep sessions, sign-out ends them, failures allow no request by mistake."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from config.settings.storage_url import parse_storage_url
from databroker.records import SESSION
from databroker.store.redis_client import StorageTls, open_client
from databroker.store.redis_store import RedisStore
from databroker.store.sealed import SealedStore
from foundation.errors import BrokerError
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import eventually_equal
from tests.support.gate import HTML, GateBuilder, RunningGate, sign_in, sign_out, status_or_cut
from tests.support.network_faults import FaultyLink
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.upstream import SampleUpstream

HOST = "app.localhost"
STALENESS = 4.0


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    directory = tmp_path_factory.mktemp("redis")
    with RedisServer(directory, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def builder_of(provider: DevelopmentProvider, upstream: SampleUpstream, **settings: object) -> GateBuilder:
    builder = GateBuilder(provider.url).route(HOST, to=upstream.url, allow_any_authenticated_user=True)
    return builder.setting(session_staleness=f"{STALENESS:g}s", admin_allowed_users=["alice@example.com"], **settings)


def on_redis(url: str) -> dict[str, object]:
    return {"databroker_storage_type": "kvstore", "databroker_storage_connection_string": url}


async def status_of(client: httpx.AsyncClient, gate: RunningGate) -> int:
    return (await client.get(gate.url(HOST), headers=HTML)).status_code


async def until(client: httpx.AsyncClient, gate: RunningGate, status: int) -> float:
    """The seconds until this is the answer."""
    started = time.monotonic()
    await eventually_equal(lambda: status_or_cut(client, gate.url(HOST), headers=HTML), status)
    return time.monotonic() - started


@asynccontextmanager
async def signed_in(gate: RunningGate, user: str = "alice") -> AsyncIterator[httpx.AsyncClient]:
    async with gate.client(timeout=10) as client:
        assert (await sign_in(client, gate.url(HOST), user)).status_code == 200
        yield client


def emptied(server: RedisServer) -> RedisServer:
    """Records of another test are sealed with another secret, which gate refuses to start with."""
    server.command("FLUSHALL")
    return server


def without_tables(server: PostgresServer) -> PostgresServer:
    server.query("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return server


@pytest.mark.parametrize("kind", ["kvstore", "sqlite", "postgresql"])
async def test_sessions_outlive_a_restart_and_end_by_sign_out(
    kind: str,
    provider: DevelopmentProvider,
    upstream: SampleUpstream,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    settings: Callable[[], dict[str, object]] = {
        "kvstore": lambda: on_redis(emptied(request.getfixturevalue("redis_server")).url),
        "sqlite": lambda: {"databroker_storage_type": "database"},
        "postgresql": lambda: {
            "databroker_storage_type": "database",
            "database_url": without_tables(request.getfixturevalue("postgresql")).url,
        },
    }[kind]
    builder = builder_of(provider, upstream, **settings())
    with builder.start(tmp_path) as gate:
        async with signed_in(gate) as client:
            cookies = client.cookies
    with builder.start(tmp_path) as gate:
        async with gate.client(cookies=cookies) as client, gate.client(cookies=cookies) as thief:
            assert await status_of(client, gate) == 200
            assert await status_of(thief, gate) == 200
            await sign_out(client, gate)
            assert await status_of(thief, gate) == 302


async def test_a_redis_that_is_killed_under_load_costs_nothing_that_was_acknowledged(
    provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path, redis_server: RedisServer
) -> None:
    builder = builder_of(provider, upstream, **on_redis(redis_server.url))
    secret = base64.b64decode(str(builder.settings["shared_secret"]))
    emptied(redis_server)
    with builder.start(tmp_path) as gate:
        async with signed_in(gate) as alice, gate.client() as stranger:
            store = SealedStore(RedisStore(open_client(parse_storage_url(redis_server.url), StorageTls(), 3)), [secret])
            acknowledged: list[str] = []
            statuses: list[int] = []

            async def write(writer: int) -> None:
                number = 0
                while True:
                    await store.put(SESSION, f"load-{writer}-{number}", {"n": number}, expires=time.time() + 600)
                    acknowledged.append(f"load-{writer}-{number}")
                    number += 1

            async def ask() -> None:
                while True:
                    statuses.append(await status_of(alice, gate))
                    await asyncio.sleep(0.02)

            writers = [asyncio.create_task(write(writer)) for writer in range(8)]
            requesting = asyncio.create_task(ask())
            while len(acknowledged) < 200:
                await asyncio.sleep(0.02)
            redis_server.kill()
            for outcome in await asyncio.gather(*writers, return_exceptions=True):
                assert isinstance(outcome, BrokerError)
            gate.wait_for_event("replica lost the change stream")
            assert await status_of(alice, gate) == 200
            assert statuses
            refused = await until(alice, gate, 503)
            answer = await alice.get(gate.url(HOST), headers=HTML)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert await status_of(stranger, gate) == 302
            redis_server.restart()
            recovered = await until(alice, gate, 200)
            requesting.cancel()
            await asyncio.wait({requesting})
            assert set(statuses) <= {200, 503}
            assert statuses[0] == 200
            assert 0 < refused < 10 * STALENESS
            assert recovered < 5
            assert [id for id in acknowledged if await store.get(SESSION, id) is None] == []
            await store.close()


async def test_ended_session_is_served_only_within_max_staleness(
    provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path, redis_server: RedisServer
) -> None:
    emptied(redis_server)
    with FaultyLink(redis_server.port) as line:
        builder = builder_of(provider, upstream, **on_redis(redis_server.url.replace(str(redis_server.port), str(line.port))))
        secret = base64.b64decode(str(builder.settings["shared_secret"]))
        with builder.start(tmp_path) as gate:
            async with signed_in(gate) as client, gate.client(timeout=10) as fresh:
                store = SealedStore(RedisStore(open_client(parse_storage_url(redis_server.url), StorageTls(), 3)), [secret])
                line.slow_down(0.05)
                assert await status_of(client, gate) == 200
                line.stall()
                (session,) = await store.page(SESSION, "", 5)
                assert await store.delete(SESSION, session.id)
                fresh.cookies = httpx.Cookies(client.cookies)
                await until(client, gate, 503)
                assert await status_of(fresh, gate) == 503
                line.restore()
                assert await until(client, gate, 302) < 5
                await store.close()


async def test_restarted_or_read_only_database_fails_closed(
    provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path, postgresql: PostgresServer
) -> None:
    without_tables(postgresql)
    builder = builder_of(provider, upstream, databroker_storage_type="database", database_url=postgresql.url)
    with builder.start(tmp_path) as gate:
        async with signed_in(gate) as client, signed_in(gate, "bob") as bob:
            postgresql.restart()
            await until(client, gate, 200)
            # the admin's rows follow the store again, by connections that were broken
            admin = gate.url(builder.authenticate_host, "/.gate/admin/databroker/session/")
            assert (await bob.get(admin, headers=HTML)).status_code in (302, 403)
            postgresql.query("ALTER DATABASE postgres SET default_transaction_read_only = on")
            try:
                postgresql.restart()
                await until(client, gate, 200)
                async with gate.client(timeout=20) as newcomer:
                    assert (await sign_in(newcomer, gate.url(HOST), "carol")).status_code in (500, 503)
                    assert await status_of(newcomer, gate) == 302
                gate.child.wait_for(lambda: any("read-only" in line for line in gate.child.lines), "the log says why")
            finally:
                postgresql.query("BEGIN READ WRITE; ALTER DATABASE postgres SET default_transaction_read_only = off; COMMIT")
            postgresql.restart()
            await until(client, gate, 200)
            async with signed_in(gate, "carol") as newcomer:
                assert await status_of(newcomer, gate) == 200
            assert postgresql.query("SELECT count(*) FROM databroker_session WHERE user_id LIKE '%carol'") in ("0", "1")
            gate.child.wait_for(
                lambda: postgresql.query("SELECT count(*) FROM databroker_session WHERE user_id LIKE '%carol'") == "1",
                "the admin's rows follow again",
            )
