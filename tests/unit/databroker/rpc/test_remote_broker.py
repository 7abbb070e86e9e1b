"""State that a remote client tracks of its server: that it restarted, that it is unavailable, whether a write may be repeated."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from config.options import Options
from databroker.broker_client import consume_once
from databroker.records import SESSION, USER
from databroker.rpc.remote_broker import RemoteBroker, SyncPosition
from databroker.store.base import NO_POSITION, ResyncRequired, VersionConflict
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from foundation.tasks import spawn
from tests.support.children import free_port
from tests.support.eventually import PATIENCE, eventually
from tests.support.options import make_options
from tests.support.rpc import client_of, remote_broker, serve_broker


@pytest.fixture
async def broker(store: MemoryStore, options: Options) -> AsyncIterator[RemoteBroker]:
    async with remote_broker(store, options) as broker:
        yield broker


async def test_id_is_consumed_once_by_any_client(broker, store, options):
    outcomes = await asyncio.gather(*(consume_once(broker, "state/x", 4_000_000_000.0) for _ in range(20)))
    assert sum(outcomes) == 1
    assert not await consume_once(broker, "state/old", 1.0)


async def test_conflict_is_distinguished_from_outage(broker, store, tmp_path):
    await broker.put(SESSION, "a", {})
    with pytest.raises(VersionConflict):
        await broker.put(SESSION, "a", {}, only_if_version=0)
    away = client_of(free_port(), make_options(tmp_path, grpc_client_timeout="30ms"))
    for call in (away.get(SESSION, "a"), consume_once(away, "x", 1.0), away.put(SESSION, "a", {}), away.acquire("work", 1.0)):
        with pytest.raises(BrokerError) as error:
            await call
        assert not isinstance(error.value, VersionConflict)
    with pytest.raises(BrokerError):
        await anext(away.changes(NO_POSITION))
    await away.close()


async def test_position_identifies_its_server(broker, store):
    record = await store.put(USER, "a", {})
    async with asyncio.timeout(5), aclosing(broker.changes(0)) as changes:
        change = await anext(changes)
    assert change.version == record.version
    assert isinstance(change.version, SyncPosition)
    assert change.version.server_version == await store.server_version()


async def test_a_client_learns_of_a_restart_even_where_the_numbers_fit(options):
    port = free_port()
    client = client_of(port, options)
    first = MemoryStore()
    server = await serve_broker(options, first, port=port)
    for id in "abc":
        await first.put(USER, id, {})
    async with asyncio.timeout(10), aclosing(client.changes(0)) as changes:
        position = [await anext(changes) for _ in range(2)][-1].version
    await server.stop()

    second = MemoryStore()
    for id in "vwxyz":
        await second.put(USER, id, {})
    server = await serve_broker(options, second, port=port)
    await client.server_version()  # the connection is back
    with pytest.raises(ResyncRequired) as raised:
        await asyncio.wait_for(anext(client.changes(position)), PATIENCE)
    assert raised.value.version == 5
    assert isinstance(raised.value.version, SyncPosition)
    await client.close()
    await server.stop()


async def test_restart_under_open_stream_is_reported(options):
    port = free_port()
    client = client_of(port, options)
    first = MemoryStore()
    server = await serve_broker(options, first, port=port)
    seen = []

    async def follow() -> None:
        async for change in client.changes(0):
            seen.append(change.id)

    following = spawn(follow(), name="test")
    await first.put(USER, "a", {})
    await eventually(lambda: seen)
    await first.close()
    await server.stop()
    server = await serve_broker(options, MemoryStore(), port=port)
    with pytest.raises(BrokerError):
        await asyncio.wait_for(following, PATIENCE)
    await client.close()
    await server.stop()


async def test_the_end_of_a_connections_age_is_no_end_of_the_stream(tmp_path, store):
    options = make_options(tmp_path, grpc_server_max_connection_age="100ms", grpc_server_max_connection_age_grace="100ms")
    server = await serve_broker(options, store)
    client = client_of(server.port, options)
    seen: list[str] = []

    async def follow() -> None:
        async for change in client.changes(0):
            seen.append(change.id)

    following = spawn(follow(), name="test")
    ids = [f"u{n:02}" for n in range(40)]
    for id in ids:
        await store.put(USER, id, {})
        await asyncio.sleep(0.02)
    await eventually(lambda: len(seen) >= len(ids) or following.done())
    assert seen == ids
    following.cancel()
    await client.close()
    await server.stop()


async def test_chunked_page_is_complete(broker, store, monkeypatch):
    monkeypatch.setattr("databroker.rpc.broker_server.PAGE_BYTES", 2000)
    for n in range(10):
        await store.put(SESSION, f"s{n}", {"a": "x" * 600})
    assert [record.id for record in await broker.page(SESSION, "s0", 8)] == [f"s{n}" for n in range(1, 9)]
    assert await broker.page(SESSION, "", 0) == []


async def test_stream_without_data_reports_touched_records_only(store, options):
    server = await serve_broker(options, store)
    client = client_of(server.port, options, with_data=False)
    await store.put(SESSION, "a", {"access_token": "secret"})
    async with asyncio.timeout(5), aclosing(client.changes(0)) as changes:
        change = await anext(changes)
    assert change.record is not None
    assert change.record.data == {}
    await client.close()
    await server.stop()
