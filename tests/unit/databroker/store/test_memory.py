"""Guarantees of MemoryStore beyond the contract of all stores: bounded memory, and expiry by sweep."""

import asyncio
from contextlib import aclosing

import pytest

from databroker.records import SESSION, USED_ID
from databroker.store.base import ResyncRequired
from databroker.store.memory import MemoryStore

NOW = 1_700_000_000.0


async def take(store: MemoryStore, since: int, count: int) -> list[tuple[int, str, bool]]:
    async with asyncio.timeout(5), aclosing(store.changes(since)) as changes:
        return [(change.version, change.id, change.record is not None) async for change, _ in zipped(changes, count)]


async def zipped(changes, count):
    for number in range(count):
        yield await anext(changes), number


async def test_sweep_notifies_readers_of_expired_records():
    store = MemoryStore(lambda: NOW)
    await store.put(SESSION, "early", {}, expires=NOW + 1)
    await store.put(SESSION, "late", {}, expires=NOW + 9)
    await store.put(SESSION, "never", {})
    assert store.expire(NOW + 1) == 1
    assert await take(store, 3, 1) == [(4, "early", False)]
    assert store.expire(NOW + 1) == 0


async def test_sweep_spares_extended_record():
    store = MemoryStore(lambda: NOW)
    await store.put(SESSION, "a", {}, expires=NOW + 1)
    await store.put(SESSION, "a", {}, expires=NOW + 9)
    await store.put(SESSION, "b", {}, expires=NOW + 1)
    await store.put(SESSION, "b", {})
    assert store.expire(NOW + 5) == 0
    assert await store.get(SESSION, "a")
    assert store.expire(NOW + 9) == 1


async def test_a_sweep_has_a_limit_and_can_be_continued():
    store = MemoryStore(lambda: NOW)
    for number in range(25):
        await store.put(USED_ID, str(number), {}, expires=NOW)
    assert [(store.has_expired(NOW), store.expire(NOW, 10)) for _ in range(4)] == [(True, 10), (True, 10), (True, 5), (False, 0)]


async def test_a_sweep_is_not_held_up_by_records_that_were_written_again():
    store = MemoryStore(lambda: NOW)
    for _ in range(2):
        for number in range(25):
            await store.put(SESSION, str(number), {}, expires=NOW + 1)
    swept = []
    while store.has_expired(NOW + 1):
        swept.append(store.expire(NOW + 1, 10))
    assert (len(swept), sum(swept)) == (5, 25)


async def test_a_session_that_is_rewritten_for_ever_costs_no_memory():
    store = MemoryStore(lambda: NOW)
    for number in range(5000):
        await store.put(SESSION, "a", {"n": number}, expires=NOW + number)
    assert len(store._expiries) <= 1003
    assert len(store._log) == 1
    assert store.expire(NOW + 4998) == 0
    assert store.expire(NOW + 4999) == 1


async def test_log_drops_oldest_entries_and_reports_it():
    store = MemoryStore(lambda: NOW, remembered_changes=10)
    for number in range(25):
        await store.put(SESSION, str(number), {})
    assert [id for _, id, _ in await take(store, 15, 10)] == [str(number) for number in range(15, 25)]
    with pytest.raises(ResyncRequired) as raised:
        await take(store, 14, 1)
    assert raised.value.version == 25
    assert (len(store._log), len(store._last_change)) == (10, 10)


async def test_a_slow_reader_neither_blocks_writers_nor_is_lied_to():
    store = MemoryStore(lambda: NOW, remembered_changes=10)
    await store.put(SESSION, "first", {})
    changes = store.changes(0)
    assert (await anext(changes)).id == "first"
    for number in range(100):
        await store.put(SESSION, str(number), {})
    with pytest.raises(ResyncRequired):
        await anext(changes)


async def test_tokens_of_deleted_session_are_not_retained_in_log():
    store = MemoryStore(lambda: NOW)
    await store.put(SESSION, "a", {"access_token": "secret-token"})
    await store.delete(SESSION, "a")
    assert [change.record for change in store._log.values()] == [None]
    assert await take(store, 0, 1) == [(2, "a", False)]


async def test_a_long_backlog_leaves_the_loop_to_others():
    store = MemoryStore(lambda: NOW)
    for number in range(2000):
        await store.put(SESSION, str(number), {})
    reader = asyncio.create_task(take(store, 0, 2000))
    turns = 0
    while not reader.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 10
    assert len(reader.result()) == 2000
