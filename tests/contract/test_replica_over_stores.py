"""Are an authorizer's copy and the admin's tables right over every kind of store, also when its server is another than before?"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from databroker.claims import GroupsClaim, ProviderClaims
from databroker.models import Group, Membership, Session, User
from databroker.projection.projection import Projection
from databroker.records import DIRECTORY_USER, SESSION, USER
from databroker.replica import UNKNOWN, Replica
from databroker.store.base import StoreBackend
from foundation.errors import BrokerError
from tests.support.database import in_database
from tests.support.eventually import eventually
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer

ROOM = 5


class World:
    """A store, and a copy that follows it with little room."""

    def __init__(self, store: StoreBackend):
        self.store = store
        self.replica = Replica(store, max_records=ROOM, initial_backoff=0.01)

    def held(self, type: str, ids: list[str]) -> list[str]:
        return [id for id in ids if self.replica.peek(type, id) is not UNKNOWN]

    async def until(self, holds: Callable[[], bool]) -> None:
        await eventually(holds)

    async def seen(self) -> None:
        """Wait until the replica has received everything that was written until now."""
        await self.store.put(USER, "mark", {"n": time.monotonic()})
        version = (await self.store.put(USER, "mark", {})).version
        await self.until(lambda: self.replica._has_reached(self.replica._server_version, version))


@asynccontextmanager
async def following(store: StoreBackend) -> AsyncIterator[World]:
    world = World(store)
    running = asyncio.create_task(world.replica.run())
    try:
        await world.until(lambda: world.replica.sync_token)
        yield world
    finally:
        running.cancel()
        await asyncio.wait({running})
        await store.close()


async def test_cache_is_bounded_and_evicted_records_are_found_again(opener) -> None:
    async with following(opener(time.time)) as world:
        ids = [f"s{number}" for number in range(3 * ROOM)]
        for id in ids:
            await world.store.put(SESSION, id, {"n": 1})
        await world.seen()
        assert [(await world.replica.get(SESSION, id)).data for id in ids] == [{"n": 1}] * len(ids)
        assert world.held(SESSION, ids) == ids[-ROOM:]
        for id in (ids[0], ids[-1]):  # one that left, one that stayed
            await world.store.put(SESSION, id, {"n": 2})
        await world.store.delete(SESSION, ids[1])
        await world.store.delete(SESSION, ids[-2])
        await world.seen()
        assert [(await world.replica.get(SESSION, id)).data for id in (ids[0], ids[-1])] == [{"n": 2}] * 2
        assert [await world.replica.get(SESSION, id) for id in (ids[1], ids[-2])] == [None, None]
        assert len(world.held(SESSION, ids)) <= ROOM


def without_its_memory(kind: str, request: pytest.FixtureRequest) -> Callable[[], None]:
    """A callable that turns the server into another one, without the written records."""
    if kind == "kvstore":
        redis: RedisServer = request.getfixturevalue("redis_server")
        return redis.restart  # these keep nothing
    postgresql: PostgresServer = request.getfixturevalue("postgresql")

    def restart() -> None:
        postgresql.query("TRUNCATE databroker_storedrecord, databroker_storestate, databroker_storedlease")
        postgresql.restart()

    return restart


@pytest.mark.parametrize("kind", ["kvstore", "database_on_postgresql"])
async def test_a_server_that_lost_its_memory_means_starting_over(kind: str, request: pytest.FixtureRequest) -> None:
    async with following(request.getfixturevalue(kind)(time.time)) as world:
        ids = ["a", "b"]
        for id in ids:
            await world.store.put(SESSION, id, {"n": 1})
        await world.seen()
        for id in ids:
            await world.replica.get(SESSION, id)
        server_version = world.replica._server_version
        await asyncio.to_thread(without_its_memory(kind, request))
        await world.until(lambda: world.replica._server_version != server_version and bool(world.replica.sync_token))
        assert world.held(SESSION, ids) == []
        await written(world.store, SESSION, "b", {"n": 2})
        await world.seen()
        assert await world.replica.get(SESSION, "a") is None
        assert (await world.replica.get(SESSION, "b")).data == {"n": 2}
        await world.store.delete(SESSION, "b")
        await world.seen()
        assert await world.replica.get(SESSION, "b") is None


async def written(store: StoreBackend, type: str, id: str, data: dict[str, object]) -> None:
    """Also where connections of before must break first."""
    async with asyncio.timeout(30):
        while True:
            try:
                await store.put(type, id, data)
            except BrokerError:
                await asyncio.sleep(0.01)
            else:
                return


@pytest.mark.parametrize("kind", ["kvstore", "database_on_postgresql"])
async def test_the_admins_tables_follow_and_start_over_with_a_server_that_lost_its_memory(
    kind: str, request: pytest.FixtureRequest, database: None
) -> None:
    await rows(Session, [])  # the tables are in SQLite, and this thread's connection is made before another is chosen for the store
    store = request.getfixturevalue(kind)(time.time)
    await store.put(SESSION, "before", {"user_id": "oidc/alice"})
    running = asyncio.create_task(Projection(store, pause=0.005, initial_backoff=0.01).run())
    try:
        await rows(Session, ["before"])
        await store.put(SESSION, "later", {"user_id": "oidc/alice"})
        await store.put(DIRECTORY_USER, "oidc/alice", {"name": "Alice", "group_ids": ["g"]})
        await store.delete(SESSION, "before")
        await rows(Session, ["later"])
        await rows(User, ["oidc/alice"])
        await asyncio.to_thread(without_its_memory(kind, request))
        await written(store, SESSION, "anew", {"user_id": "oidc/bob"})
        await rows(Session, ["anew"])
        await rows(User, [])
        await written(store, SESSION, "after", {"user_id": "oidc/bob"})
        await rows(Session, ["after", "anew"])
    finally:
        running.cancel()
        await asyncio.wait({running})
        await store.close()


CLAIM = ProviderClaims((GroupsClaim("groups", "oidc", "https://idp.example.com"),))


@pytest.mark.parametrize("kind", ["memory", "kvstore", "database_on_sqlite", "database_on_postgresql"])
async def test_claim_groups_follow_each_sign_in(kind: str, request: pytest.FixtureRequest, database: None) -> None:
    async def signs_in(name: str, *groups: str) -> None:
        await store.put(USER, f"oidc/{name}", {"claims": {"groups": groups}, "issuer": "https://idp.example.com"})

    await rows(Group, [])
    store = request.getfixturevalue(kind)(time.time)
    await signs_in("alice", "engineering", "staff")
    running = asyncio.create_task(Projection(store, CLAIM, pause=0.005, initial_backoff=0.01).run())
    try:
        await rows(Group, ["engineering", "staff"])
        await signs_in("bob", "sales", "staff")
        await rows(Group, ["engineering", "sales", "staff"])
        await signs_in("alice", "staff")
        await rows(Group, ["sales", "staff"])
        await store.delete(USER, "oidc/bob")
        await rows(Group, ["staff"])
        assert await in_database(lambda: list(Membership.objects.values_list("user_id", "group_id"))) == [("oidc/alice", "staff")]
    finally:
        running.cancel()
        await asyncio.wait({running})
        await store.close()


async def rows(model, ids: list[str]) -> None:
    async with asyncio.timeout(30):
        while (found := await in_database(lambda: sorted(model.objects.values_list("pk", flat=True)))) != ids:
            await asyncio.sleep(0.02)
    assert found == ids
