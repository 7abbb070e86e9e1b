"""Is an id spent exactly once, and is no concurrent write lost?"""

import asyncio

import pytest

from databroker.broker_client import InvalidatingBroker, consume_once, update
from databroker.records import SESSION, USED_ID
from databroker.store.base import VersionConflict
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError

NOW = 1_700_000_000.0


class Away(MemoryStore):
    async def put(self, *args, **kwargs):
        raise BrokerError("away")


async def test_of_many_at_once_one_spends_an_id():
    broker = MemoryStore(lambda: NOW)
    assert sum(await asyncio.gather(*(consume_once(broker, "a", NOW + 60) for _ in range(100)))) == 1
    assert await consume_once(broker, "b", NOW + 60)


async def test_an_id_stays_spent_a_little_longer_than_it_lives():
    now = NOW
    store = MemoryStore(lambda: now)
    assert await consume_once(store, "a", NOW + 60)
    now += 90  # another machine's clock, half a minute behind, still takes the token for valid
    store.expire(now)
    assert not await consume_once(store, "a", NOW + 60)


@pytest.mark.parametrize(("ends", "first"), [(-30, True), (-3600, False)])
async def test_slow_clock_is_tolerated_and_long_expired_ids_are_not_recorded(ends: int, first: bool):
    broker = MemoryStore(lambda: NOW)
    assert [await consume_once(broker, "a", NOW + ends) for _ in range(2)] == [first, False]


async def test_a_spent_id_is_forgotten_in_the_end():
    store = MemoryStore(lambda: NOW)
    await consume_once(store, "a", NOW + 300)
    store.expire(NOW + 361)
    assert await store.page(USED_ID, "", 10) == []


async def test_a_broker_that_is_away_spends_nothing():
    with pytest.raises(BrokerError):
        await consume_once(Away(lambda: NOW), "a", NOW + 60)


async def test_deletion_is_notified_immediately() -> None:
    received: list[tuple[str, str]] = []
    broker = InvalidatingBroker(MemoryStore(), lambda type, id: received.append((type, id)))
    await broker.put(SESSION, "a", {})
    assert received == []
    assert await broker.delete(SESSION, "a")
    assert received == [(SESSION, "a")]
    assert await broker.get(SESSION, "a") is None


async def test_of_all_updates_at_once_none_is_lost() -> None:
    broker = MemoryStore()
    read = broker.get

    async def get(type, id):
        record = await read(type, id)
        await asyncio.sleep(0)  # as over a line: the others read the same
        return record

    broker.get = get
    numbers = range(5)
    await asyncio.gather(*(update(broker, "x", "a", lambda old, n=n: ({**(old.data if old else {}), str(n): n}, None)) for n in numbers))
    assert (await read("x", "a")).data == {str(n): n for n in numbers}
    assert await update(broker, "x", "a", lambda old: None) is None


async def test_an_update_that_is_overtaken_each_time_gives_up() -> None:
    broker, edited = MemoryStore(), []

    async def overtaken(type, id, data, **conditions):
        await MemoryStore.put(broker, type, id, {"by": "another"})
        return await MemoryStore.put(broker, type, id, data, **conditions)

    broker.put = overtaken
    with pytest.raises(VersionConflict, match="too often"):
        await update(broker, "x", "a", lambda old: edited.append(old) or ({}, None), attempts=3)
    assert len(edited) == 3
    assert (await broker.get("x", "a")).data == {"by": "another"}
