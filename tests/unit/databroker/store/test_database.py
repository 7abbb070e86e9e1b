"""Guarantees of the database store alone: a clear error where it accepts no writes, and cleaning without needless locks."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from django.db import connection

from databroker.models import StoredRecord
from databroker.records import SESSION
from databroker.store.base import ResyncRequired
from databroker.store.database import CHANGE_RETENTION, DatabaseStore, _put
from foundation.errors import BrokerError
from tests.support.clock import NOW, Clock
from tests.support.database import in_database

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
async def store(clock: Clock) -> AsyncIterator[DatabaseStore]:
    store = DatabaseStore(clock, deadline=20)
    yield store
    await store.close()


async def test_expired_records_are_deleted_reported_and_dropped_after_an_hour(store: DatabaseStore, clock: Clock) -> None:
    begin = (await store.put(SESSION, "a", {}, expires=NOW + 10)).version
    await store.put(SESSION, "b", {})
    assert not await store.clean(10)
    clock.now += 10
    assert not await store.clean(10)
    async with aclosing(store.changes(begin)) as changes:
        changed = [await anext(changes) for _ in range(2)]
    assert [(change.id, change.record is None) for change in changed] == [("b", False), ("a", True)]
    clock.now += CHANGE_RETENTION + 1
    await store.clean(10)
    assert await in_database(StoredRecord.objects.count) == 1
    with pytest.raises(ResyncRequired):
        await anext(store.changes(begin))


async def test_a_record_that_can_not_be_read_stops_nothing(store: DatabaseStore) -> None:
    begin = (await store.put(SESSION, "a", {})).version
    for id in ("b", "c"):
        await store.put(SESSION, id, {})
    await in_database(lambda: StoredRecord.objects.filter(record_id="b").update(data="{"))
    async with aclosing(store.changes(begin)) as changes:
        changed = [await anext(changes) for _ in range(2)]
    assert [(change.id, change.record is None) for change in changed] == [("b", True), ("c", False)]
    assert [record.id for record in await store.page(SESSION, "a", 1)] == ["c"]


async def test_full_database_is_reported_and_used_again(store: DatabaseStore) -> None:
    await store.put(SESSION, "a", {})

    def fill() -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA max_page_count = 1")  # as many as there are
        _put(StoredRecord(type=SESSION, record_id="b", modified_at=NOW, data="x" * 1_000_000), NOW, None)

    with pytest.raises(BrokerError, match=r"database_url.*full"):
        await store._do(fill)
    assert await store.get(SESSION, "a") is not None
    await store.put(SESSION, "c", {})


async def _refusal(store: DatabaseStore) -> str:
    with pytest.raises(BrokerError) as refused:
        await store.put(SESSION, "b", {})
    return str(refused.value)


async def test_locked_database_does_not_block_callers(store: DatabaseStore, clock: Clock) -> None:
    await store.put(SESSION, "a", {})
    hasty = DatabaseStore(clock, deadline=1)
    path = await in_database(lambda: connection.settings_dict["NAME"])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        async with asyncio.timeout(60):
            while "locked" not in (message := await _refusal(hasty)):
                assert "did not respond within 1 s" in message  # the machine stood still until the deadline
        assert "database_url" in message
        assert await store.get(SESSION, "a") is not None
    finally:
        other.execute("ROLLBACK")
        other.close()
        await hasty.close()
    await store.put(SESSION, "c", {})
