"""Guarantees of the kvstore alone: deadlines, a server replaced by another, and unreadable records."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from config.settings.storage_url import parse_storage_url
from databroker.records import SESSION, USER
from databroker.store import redis_scripts
from databroker.store.base import NO_POSITION, RecordChange, ResyncRequired
from databroker.store.factory import open_store
from databroker.store.instrumented import InstrumentedStore
from databroker.store.redis_client import StorageTls, open_client
from databroker.store.redis_store import CHANGE_RETENTION, RedisStore
from databroker.store.sealed import SealedStore
from foundation.errors import BrokerError
from foundation.telemetry.metrics import registry
from tests.support.clock import NOW, Clock
from tests.support.eventually import eventually
from tests.support.network_faults import FaultyLink
from tests.support.options import make_options
from tests.support.redis_server import RedisServer


def open_kvstore(server: RedisServer, clock: Clock, **settings) -> RedisStore:
    return RedisStore(open_client(parse_storage_url(server.url), StorageTls(), settings.get("deadline", 3)), clock, **settings)


@pytest.fixture
async def store(redis_server: RedisServer, clock: Clock) -> AsyncIterator[RedisStore]:
    store = open_kvstore(redis_server, clock, remembered_changes=20)
    yield store
    await store.close()


async def following(store: RedisStore, since: int, count: int) -> list[RecordChange]:
    async with asyncio.timeout(10), aclosing(store.changes(since)) as changes:
        return [await anext(changes) for _ in range(count)]


async def test_two_processes_see_each_others_changes_at_once(store: RedisStore, redis_server: RedisServer, clock: Clock) -> None:
    other = open_kvstore(redis_server, clock)
    begin = (await store.put(SESSION, "a", {})).version
    reader = asyncio.create_task(following(other, begin, 2))
    await asyncio.sleep(0.01)
    await store.put(SESSION, "b", {"n": 1})
    await store.delete(SESSION, "a")
    assert [(change.id, change.record is None) for change in await reader] == [("b", False), ("a", True)]
    await other.close()


async def test_a_server_that_lost_its_memory_is_another_and_readers_start_over(store: RedisStore, redis_server: RedisServer) -> None:
    before, begin = await store.server_version(), (await store.put(SESSION, "a", {})).version
    reader = asyncio.create_task(following(store, begin, 1))
    await asyncio.sleep(0.01)
    redis_server.command("FLUSHALL")
    with pytest.raises(ResyncRequired) as received:
        await reader
    assert received.value.version > begin
    assert await store.server_version() != before
    assert (await store.put(SESSION, "a", {})).version > begin


async def test_a_server_that_is_another_before_the_first_greeting_is_noticed(store: RedisStore, redis_server: RedisServer) -> None:
    greet = store._check_eviction_policy

    async def greet_too_late() -> str:
        redis_server.command("FLUSHALL")
        return await greet()

    store._check_eviction_policy = greet_too_late
    with pytest.raises(ResyncRequired):
        await following(store, (await store.put(SESSION, "a", {})).version, 1)


async def test_restarted_server_keeps_records_and_restarts_readers(tmp_path: Path, clock: Clock) -> None:
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        store = open_kvstore(server, clock)
        written = [await store.put(SESSION, str(number), {"n": number}) for number in range(20)]
        await store.delete(SESSION, "3")
        before = await store.server_version()
        reader = asyncio.create_task(following(store, written[-1].version + 1, 1))
        await asyncio.sleep(0.01)
        server.kill()
        with pytest.raises(BrokerError):
            await reader
        server.restart()
        assert await store.page(SESSION, "", 100) == sorted((r for r in written if r.id != "3"), key=lambda record: record.id)
        assert await store.server_version() != before
        with pytest.raises(ResyncRequired):
            await following(store, written[-1].version, 1)
        assert (await store.put(SESSION, "a", {})).version > written[-1].version + 1
        await store.close()


async def test_hanging_server_blocks_no_one_and_recovers(tmp_path: Path, clock: Clock) -> None:
    with RedisServer(tmp_path) as server:
        store = open_kvstore(server, clock, deadline=1)
        begin = (await store.put(SESSION, "a", {})).version
        reader = asyncio.create_task(following(store, begin, 1))
        await asyncio.sleep(0.01)
        server.hang()
        calls = (store.get(SESSION, "a"), store.put(SESSION, "b", {}), store.delete(SESSION, "a"), store.page(SESSION, "", 5))
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(*calls, reader, store.acquire("x", 1), store.server_version(), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [BrokerError] * 7
        server.go_on()
        assert (await store.put(SESSION, "c", {})).version > begin
        await store.close()


async def test_read_only_server_error(store: RedisStore, redis_server: RedisServer) -> None:
    await store.put(SESSION, "a", {})
    redis_server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(BrokerError, match=r"databroker_storage_connection_string.*maxmemory"):
            await store.put(SESSION, "b", {})
        assert await store.get(SESSION, "a") is not None
    finally:
        redis_server.command("CONFIG", "SET", "maxmemory", "0")
    await store.put(SESSION, "b", {})


async def test_in_a_full_server_sessions_end_and_make_room(tmp_path: Path, clock: Clock) -> None:
    """Otherwise no user could be signed out, and no expired record would be removed."""
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        store = open_kvstore(server, clock)
        begin = (await store.put(SESSION, "a", {})).version
        await store.put(SESSION, "b", {}, expires=NOW + 10)
        server.command("CONFIG", "SET", "maxmemory", "1")
        assert await store.delete(SESSION, "a")
        clock.now += 11
        assert await store.acquire("sweep", 30) is not None
        assert await store.acquire("sweep", 30) is None
        assert not await store.clean(100)
        assert [(change.id, change.record) for change in await following(store, begin, 2)] == [("a", None), ("b", None)]
        with pytest.raises(BrokerError, match="maxmemory"):
            await store.put(SESSION, "c", {})
        await store.close()


async def test_a_server_that_is_full_when_it_comes_back_is_read_from(tmp_path: Path, clock: Clock) -> None:
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        store = open_kvstore(server, clock)
        begin, before = (await store.put(SESSION, "a", {})).version, await store.server_version()
        server.kill()
        server._arguments += ["--maxmemory", "1"]
        server.restart()
        assert await store.server_version() != before
        with pytest.raises(ResyncRequired):
            await following(store, begin, 1)
        assert await store.get(SESSION, "a") is not None
        assert await store.delete(SESSION, "a")
        await store.close()


async def test_change_stream_reader_recovers(redis_server: RedisServer, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = open_kvstore(redis_server, clock), open_kvstore(redis_server, clock)
    begin, read, failures = (await store.put(SESSION, "a", {})).version, store._read_new_version, [RuntimeError("the transport is closed")]

    async def read_new_version() -> object:
        if failures:
            raise failures.pop()
        return await read()

    monkeypatch.setattr(store, "_read_new_version", read_new_version)
    with capture_logs() as logged:
        reader = asyncio.create_task(following(store, begin, 1))
        while not any(entry["event"] == "reading change notifications failed" for entry in logged):
            await asyncio.sleep(0.01)
        await other.delete(SESSION, "a")
        assert [change.record for change in await reader] == [None]
    await store.close()
    await other.close()


@pytest.mark.parametrize("is_requested_again_at_once", [False, True])
async def test_readers_of_a_life_with_lower_versions_wait_for_news(
    store: RedisStore, redis_server: RedisServer, is_requested_again_at_once: bool
) -> None:
    """Versions leap with each life; what was wiped begins where the clock stands."""
    begin = (await store.put(SESSION, "a", {})).version
    redis_server.command("HSET", redis_scripts.KEYS[0], "run_id", "another")
    first = (await store.put(SESSION, "b", {})).version
    reader = asyncio.create_task(following(store, first, 1))
    await eventually(lambda: store._notified_version == first)
    redis_server.command("FLUSHALL")
    if is_requested_again_at_once:
        reader.cancel()
        reader = asyncio.create_task(following(store, first, 1))
    with pytest.raises(ResyncRequired) as received:
        await reader
    assert received.value.version < begin + 10**9
    reader = asyncio.create_task(following(store, received.value.version, 1))
    requested, calls = store._run, []

    async def run(script: str, *arguments: object, **options: object) -> object:
        calls.append(script)
        return await requested(script, *arguments, **options)

    store._run = run  # type: ignore[method-assign]
    await asyncio.sleep(0.2)
    await store.put(SESSION, "c", {})
    assert [change.id for change in await reader] == ["c"]
    assert calls.count(redis_scripts.CHANGES) < 10


async def test_a_record_that_can_not_be_read_stops_nothing(store: RedisStore, redis_server: RedisServer) -> None:
    begin = (await store.put(SESSION, "a", {})).version
    for id in ("b", "c", "d"):
        await store.put(SESSION, id, {})
    await store._client.send([("HSET", redis_scripts.KEYS[1], b"session\0b", b"x" * 30)])
    changes = await following(store, begin, 3)
    assert [(change.id, change.record is None) for change in changes] == [("b", True), ("c", False), ("d", False)]
    assert await store.get(SESSION, "b") is None
    assert await store.delete(SESSION, "b")
    assert await store.get(SESSION, "b") is None


async def test_expired_records_are_deleted_and_published(store: RedisStore, clock: Clock) -> None:
    begin = (await store.put(USER, "u", {})).version
    for number in range(5):
        await store.put(SESSION, str(number), {}, expires=NOW + 10 + number)
    await store.put(SESSION, "1", {"renewed": True}, expires=NOW + 100)
    assert not await store.clean(100)
    clock.now += 13
    assert await store.clean(2)
    assert not await store.clean(100)
    assert [change.id for change in await following(store, begin + 6, 3)] == ["0", "2", "3"]
    assert [record.id for record in await store.page(SESSION, "", 10)] == ["1", "4"]


async def test_deletion_is_forgotten_after_an_hour(store: RedisStore, clock: Clock, redis_server: RedisServer) -> None:
    begin = (await store.put(SESSION, "a", {})).version
    await store.put(SESSION, "b", {})
    await store.delete(SESSION, "a")
    await store.clean(100)
    assert len(await following(store, begin, 2)) == 2
    clock.now += CHANGE_RETENTION + 1
    last = await store.put(USER, "u", {})
    await store.clean(100)
    with pytest.raises(ResyncRequired) as received:
        await following(store, begin, 1)
    assert received.value.version == last.version
    assert [change.id for change in await following(store, last.version - 1, 1)] == ["u"]
    assert [record.id for record in await store.page(SESSION, "", 10)] == ["b"]
    assert redis_server.command("HLEN", redis_scripts.KEYS[1]) == "2"


async def test_only_the_newest_changes_are_remembered(store: RedisStore) -> None:
    written = [await store.put(SESSION, f"{number:02}", {}) for number in range(30)]
    await store.clean(100)
    with pytest.raises(ResyncRequired):
        await following(store, written[0].version, 1)
    assert len(await following(store, written[9].version, 20)) == 20


async def test_a_life_begins_beyond_every_version_of_the_last(store: RedisStore) -> None:
    with pytest.raises(ResyncRequired) as received:
        await following(store, NO_POSITION, 1)
    assert 10**15 < received.value.version < 2**53


async def test_a_line_that_was_silent_is_used_again_at_once(redis_server: RedisServer, clock: Clock) -> None:
    """Connections that lost something stay dead: none of them may cost a later call its deadline."""
    with FaultyLink(redis_server.port) as line:
        url = redis_server.url.replace(str(redis_server.port), str(line.port))
        store = RedisStore(open_client(parse_storage_url(url), StorageTls(), 3), clock, deadline=2.0)
        await store.put(SESSION, "a", {})
        await asyncio.gather(*(store._client.send([("PING",)]) for _ in range(20)))
        assert store._client.connections()[0] >= 20
        line.stall()
        with pytest.raises(BrokerError, match=r"2 s"):
            await store.get(SESSION, "a")
        line.restore()
        assert await store.get(SESSION, "a") is not None
        line.slow_down(0.02)
        assert await store.get(SESSION, "a") is not None
        line.cut()
        with pytest.raises(BrokerError):
            await store.get(SESSION, "a")
        line.restore()
        assert await store.get(SESSION, "a") is not None
        await store.close()


async def test_a_server_that_may_evict_is_warned_of(store: RedisStore, redis_server: RedisServer) -> None:
    begin = (await store.put(SESSION, "a", {})).version
    for policy, number in (("allkeys-lru", 1), ("noeviction", 0)):
        redis_server.command("CONFIG", "SET", "maxmemory-policy", policy)
        with capture_logs() as logged:
            await store._check_eviction_policy()
        assert [entry["log_level"] for entry in logged] == ["warning"] * number
        assert [entry["policy"] for entry in logged] == [policy] * number
    assert begin


async def test_a_password_is_in_no_error(tmp_path: Path, clock: Clock) -> None:
    with RedisServer(tmp_path, "--requirepass", "hunter2") as server:
        for url in (server.url, server.url.replace("//", "//:hunter3@")):
            store = RedisStore(open_client(parse_storage_url(url), StorageTls(), 3), clock)
            with pytest.raises(BrokerError) as received:
                await store.get(SESSION, "a")
            assert "hunter" not in str(received.value) + repr(parse_storage_url(url))
            await store.close()
        store = RedisStore(open_client(parse_storage_url(server.url.replace("//", "//:hunter2@")), StorageTls(), 3), clock)
        assert await store.get(SESSION, "a") is None
        await store.close()


@pytest.mark.parametrize("kind", ["kvstore", "redis"])
async def test_a_kvstore_is_sealed_and_reached_as_configured(tmp_path: Path, redis_server: RedisServer, kind: str) -> None:
    options = make_options(tmp_path, databroker_storage_type=kind, databroker_storage_connection_string=redis_server.url)
    store = open_store(options)
    await store.put("session", "s", {"access_token": "hunter2"})
    assert isinstance(store, SealedStore)
    assert isinstance(store._store, InstrumentedStore)
    assert isinstance(store._store._store, RedisStore)
    operations = {"operation": "put", "result": "success", "backend": "kvstore", "service": "databroker"}
    assert registry.get_sample_value("storage_operation_duration_ms_count", operations) >= 1
    assert registry.get_sample_value("kvstore_conns") >= registry.get_sample_value("kvstore_idle_conns") >= 1
    assert "hunter2" not in redis_server.command("--no-raw", "HGETALL", "{gate}records")
    await store.close()
