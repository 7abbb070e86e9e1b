"""A connection to the store or the data broker goes silent without an error: an ended session is accepted no longer than promised.

With `session_staleness: 0s` the promise is three seconds after the last word, before any of these lines is found dead by its own timeout.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from config.settings.storage_url import parse_storage_url
from databroker.records import SESSION
from databroker.store.redis_client import StorageTls, open_client
from databroker.store.redis_store import RedisStore
from databroker.store.sealed import SealedStore
from tests.support.children import Child
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import HTML, GateBuilder, sign_in, status_or_cut
from tests.support.network_faults import FaultyLink
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.split import Split
from tests.support.upstream import SampleUpstream

APP = "app.localhost"


@dataclass(frozen=True)
class Stage:
    """`decides` are the processes that decide; `end_session` ends the only session, past the line."""

    url: str
    client: Callable[..., httpx.AsyncClient]
    decides: list[Child]
    line: FaultyLink
    end_session: Callable[[], Awaitable[None]]


def past_the_line(redis: RedisServer, secret: str) -> Callable[[], Awaitable[None]]:
    async def end() -> None:
        store = SealedStore(RedisStore(open_client(parse_storage_url(redis.url), StorageTls(), 3)), [base64.b64decode(secret)])
        (session,) = await store.page(SESSION, "", 5)
        assert await store.delete(SESSION, session.id)
        await store.close()

    return end


def builder_of(provider: DevelopmentProvider, upstream: SampleUpstream, **settings: object) -> GateBuilder:
    builder = GateBuilder(provider.url).route(APP, to=upstream.url, allow_any_authenticated_user=True)
    return builder.setting(session_staleness="0s", **settings)


@asynccontextmanager
async def kvstore(provider: DevelopmentProvider, upstream: SampleUpstream, directory: Path) -> AsyncIterator[Stage]:
    with RedisServer(directory / "redis") as redis, FaultyLink(redis.port) as line:
        url = redis.url.replace(str(redis.port), str(line.port))
        builder = builder_of(provider, upstream, databroker_storage_type="kvstore", databroker_storage_connection_string=url)
        with builder.start(directory) as gate:
            end = past_the_line(redis, str(builder.settings["shared_secret"]))
            yield Stage(gate.url(APP), gate.client, [gate.child], line, end)


@asynccontextmanager
async def postgresql(provider: DevelopmentProvider, upstream: SampleUpstream, directory: Path) -> AsyncIterator[Stage]:
    with PostgresServer() as server, FaultyLink(server.port) as line:
        url = server.url.replace(str(server.port), str(line.port))

        async def end() -> None:
            server.query("DELETE FROM databroker_storedrecord WHERE type = 'session'")

        with builder_of(provider, upstream, databroker_storage_type="database", database_url=url).start(directory) as gate:
            yield Stage(gate.url(APP), gate.client, [gate.child], line, end)


@asynccontextmanager
async def split(provider: DevelopmentProvider, upstream: SampleUpstream, directory: Path) -> AsyncIterator[Stage]:
    policy = [{"to": upstream.url, "allow_any_authenticated_user": True}]
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer(directory / "redis"))
        services = Split(directory, provider.url, redis, policy, database_url="", session_staleness="0s")
        line = stack.enter_context(FaultyLink(services.ports["databroker"]))
        for name in ("authorize", "authenticate", "proxy"):
            services.settings[name] |= {"databroker_service_url": f"https://localhost:{line.port}"}
            services.settings[name].pop("database_url", None)
        stack.enter_context(services)
        deciding = [services.children["authorize", number] for number in (0, 1)]
        yield Stage(services.url(), services.client, deciding, line, past_the_line(redis, services.shared["shared_secret"]))


@pytest.mark.parametrize("stage_of", [kvstore, postgresql, split], ids=lambda each: each.__name__)
async def test_a_session_that_ended_unheard_is_served_no_longer_than_promised(
    stage_of: Callable[..., AsyncIterator[Stage]], provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    async with stage_of(provider, upstream, tmp_path) as stage, stage.client(headers=HTML) as alice:
        alice.timeout = httpx.Timeout(30)
        assert (await sign_in(alice, stage.url, "alice")).status_code == 200

        async def requested() -> set[int | None]:
            return set(await asyncio.gather(*(status_or_cut(alice, stage.url) for _ in range(8))))

        async def until(status: int) -> set[int | None]:
            seen: set[int | None] = set()
            async with asyncio.timeout(50):
                while (now := await requested()) != {status}:
                    seen |= now
            return seen

        stage.line.stall()
        await stage.end_session()
        assert await until(503) <= {None, 200, 503}
        for child in stage.decides:
            child.wait_for_line("replica exceeded staleness limit")
        stage.line.restore()
        assert await until(302) <= {302, 503}, "no request is allowed any more"
