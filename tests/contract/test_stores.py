"""Does every store keep the promises of databroker/store/base.py?"""

import asyncio
import copy
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress

import pytest

from databroker.records import DIRECTORY_USER, SESSION, USED_ID, USER, DirectoryUser, SessionRecord
from databroker.store.base import NO_POSITION, RecordChange, RecordStore, ResyncRequired, StoreBackend, VersionConflict
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.clock import Clock


@pytest.fixture
async def store(opener: Callable[[Clock], StoreBackend], clock: Clock) -> AsyncIterator[StoreBackend]:
    store = opener(clock)
    yield store
    await store.close()


async def read(store: RecordStore, since: int, count: int) -> list[RecordChange]:
    async with asyncio.timeout(30), aclosing(store.changes(since)) as changes:
        return [await anext(changes) for _ in range(count)]


def summary(changes: list[RecordChange]) -> list[tuple[str, bool]]:
    return [(change.id, change.record is not None) for change in changes]


async def test_stored_record_is_found_and_no_other(store, clock):
    put = await store.put(SESSION, "a", {"user_id": "oidc/1"}, expires=clock.now + 60)
    found = await store.get(SESSION, "a")
    assert found == put
    assert (found.type, found.id, found.modified, found.expires) == (SESSION, "a", clock.now, clock.now + 60)
    assert found.data == {"user_id": "oidc/1"}
    assert await store.get(USER, "a") is None
    assert await store.get(SESSION, "b") is None


@pytest.mark.parametrize("id", ["", "\x00", "a\x00b", "a" * 5000, "\U0001f600", "../a", "*"])
async def test_an_id_that_nothing_has_is_no_error(store, id):
    await store.put("session", "a", {})
    assert await store.get("session", id) is None


async def test_versions_grow_by_one_over_all_types(store):
    versions = [(await store.put(type, "a", {})).version for type in (SESSION, USER, SESSION)]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 2]
    await store.delete(USER, "a")
    assert (await store.put(USER, "b", {})).version == versions[0] + 4


async def test_a_stored_value_can_not_be_changed_from_outside(store):
    mine = {"claims": {"groups": ["a"]}}
    put = await store.put(SESSION, "a", mine)
    mine["claims"]["groups"].append("admins")
    for record in (
        put,
        await store.get(SESSION, "a"),
        (await store.page(SESSION, "", 10))[0],
        (await read(store, put.version - 1, 1))[0].record,
    ):
        with suppress(TypeError):
            record.data["claims"]["groups"].append("admins")
        with suppress(TypeError):
            record.data["claims"] = {}
    assert (await store.get(SESSION, "a")).data == {"claims": {"groups": ["a"]}}


async def test_data_come_back_as_json_would_bring_them(store):
    record = await store.put(DIRECTORY_USER, "oidc/1", DirectoryUser("oidc/1", group_ids=("a", "b")).to_data())
    assert json.loads(json.dumps(record.data)) == record.data
    assert record.data["group_ids"] == ["a", "b"]
    assert isinstance(record.data["group_ids"], list)
    assert DirectoryUser.from_record(record).group_ids == ("a", "b")


@pytest.mark.parametrize("data", [{"a": object()}, {"a": {1, 2}}, {"a": b"x"}, {1: "a"}, {"a": [{2: "b"}]}])
async def test_values_without_json_form_are_refused(store, data):
    with pytest.raises(TypeError):
        await store.put(SESSION, "a", data)
    assert await store.get(SESSION, "a") is None


async def test_a_session_survives_reading_changing_and_writing_it(store):
    session = SessionRecord("s", "oidc/1", "1", "oidc", 1.0, 2.0, claims={"groups": ["a"], "address": {"city": "x"}})
    record = await store.put(SESSION, "s", session.to_data())
    again = await store.put(SESSION, "s", SessionRecord.from_record(record).to_data())
    assert SessionRecord.from_record(again) == session
    assert copy.deepcopy(again.data) == again.data


async def test_only_if_version_zero_creates_once(store):
    await store.put(SESSION, "a", {"n": 1}, only_if_version=0)
    with pytest.raises(VersionConflict):
        await store.put(SESSION, "a", {"n": 2}, only_if_version=0)
    assert (await store.get(SESSION, "a")).data == {"n": 1}


async def test_only_if_version_refuses_a_put_based_on_an_older_version(store):
    first = await store.put(SESSION, "a", {"n": 1})
    second = await store.put(SESSION, "a", {"n": 2}, only_if_version=first.version)
    with pytest.raises(VersionConflict):
        await store.put(SESSION, "a", {"n": 3}, only_if_version=first.version)
    assert await store.get(SESSION, "a") == second


async def test_a_delete_wins_over_a_put_that_was_based_on_an_older_version(store):
    record = await store.put(SESSION, "a", {"n": 1})
    assert await store.delete(SESSION, "a")
    with pytest.raises(VersionConflict):
        await store.put(SESSION, "a", {"n": 2}, only_if_version=record.version)
    assert await store.get(SESSION, "a") is None


async def test_a_refused_put_is_no_change(store):
    record = await store.put(SESSION, "a", {})
    with pytest.raises(VersionConflict):
        await store.put(SESSION, "a", {}, only_if_version=record.version + 7)
    assert (await store.put(SESSION, "b", {})).version == record.version + 1


async def test_concurrent_creates_have_one_winner(store):
    puts = (store.put(SESSION, "a", {"n": n}, only_if_version=0) for n in range(50))
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
    assert all(isinstance(outcome, VersionConflict) for outcome in outcomes if isinstance(outcome, Exception))


async def test_delete_returns_whether_it_existed(store):
    await store.put(SESSION, "a", {})
    assert [await store.delete(SESSION, "a"), await store.delete(SESSION, "a")] == [True, False]


async def test_expired_record_counts_as_deleted(store, clock):
    await store.put(SESSION, "a", {}, expires=clock.now + 10)
    await store.put(SESSION, "b", {})
    clock.now += 10
    assert await store.get(SESSION, "a") is None
    assert [record.id for record in await store.page(SESSION, "", 10)] == ["b"]
    assert not await store.delete(SESSION, "a")


async def test_an_expired_record_makes_way_for_a_new_one(store, clock):
    old = await store.put(SESSION, "a", {"n": 1}, expires=clock.now + 10)
    clock.now += 10
    with pytest.raises(VersionConflict):
        await store.put(SESSION, "a", {"n": 2}, only_if_version=old.version)
    assert (await store.put(SESSION, "a", {"n": 2}, only_if_version=0)).data == {"n": 2}


async def test_pages_are_in_order_of_id_and_complete(store):
    ids = [f"{n * 7919 % 100:02}" for n in range(100)]
    for id in ids:
        await store.put(USER, id, {})
        await store.put(SESSION, id, {})
    for id in ids[::3]:
        await store.delete(USER, id)
    seen: list[str] = []
    while page := await store.page(USER, seen[-1] if seen else "", 9):
        assert len(page) <= 9
        seen += [record.id for record in page]
    assert seen == sorted(set(ids) - set(ids[::3]))


async def test_pages_need_no_exact_place_to_go_on_from(store):
    for id in ("a", "c", "e"):
        await store.put(USER, id, {})
    assert [record.id for record in await store.page(USER, "b", 1)] == ["c"]
    assert await store.page(USER, "e", 5) == []
    assert await store.page(SESSION, "", 5) == []
    assert await store.page(USER, "", 0) == []


async def test_the_stream_brings_puts_and_deletes_in_order(store):
    first = await store.put(SESSION, "a", {"n": 1})
    await store.put(USER, "b", {})
    await store.delete(SESSION, "a")
    changes = await read(store, first.version - 1, 2)
    assert summary(changes) == [("b", True), ("a", False)]
    assert [change.version for change in changes] == [first.version + 1, first.version + 2]


async def test_stream_waits_for_changes(store):
    begin = (await store.put(SESSION, "a", {})).version
    reader = asyncio.create_task(read(store, begin, 2))
    await asyncio.sleep(0)
    put = await store.put(SESSION, "b", {"n": 1})
    await asyncio.sleep(0)
    await store.delete(SESSION, "a")
    changes = await reader
    assert summary(changes) == [("b", True), ("a", False)]
    assert changes[0].record == put


async def test_many_readers_each_see_everything(store):
    begin = (await store.put(SESSION, "0", {})).version
    readers = [asyncio.create_task(read(store, begin, 20)) for _ in range(10)]
    for n in range(20):
        await store.put(SESSION, f"s{n}", {})
        await asyncio.sleep(0)
    for changes in await asyncio.gather(*readers):
        assert [change.id for change in changes] == [f"s{n}" for n in range(20)]


async def test_reader_without_position_gets_a_start(store):
    await store.put(SESSION, "a", {})
    last = await store.put(SESSION, "b", {})
    with pytest.raises(ResyncRequired) as received:
        await read(store, NO_POSITION, 1)
    assert received.value.version == last.version


async def test_a_version_of_another_life_starts_over(store):
    last = await store.put(SESSION, "a", {})
    with pytest.raises(ResyncRequired) as received:
        await read(store, last.version + 1, 1)
    assert received.value.version == last.version


async def test_the_server_version_stays_while_the_memory_does(store, clock):
    version = await store.server_version()
    await store.put(SESSION, "a", {})
    assert await store.server_version() == version != ""


async def test_readers_of_closed_store_fail(store):
    begin = (await store.put(SESSION, "a", {})).version
    reader = asyncio.create_task(read(store, begin, 1))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(BrokerError):
        await reader


async def test_sign_out_wins_over_concurrent_refresh(opener, clock):
    """Class B36, with as many processes as the store can have."""
    first = opener(clock)
    others = [] if isinstance(first, MemoryStore) or isinstance(getattr(first, "_store", None), MemoryStore) else [opener(clock)]
    writers = [first, *others]

    async def refresh(writer: StoreBackend, id: str) -> None:
        while (record := await writer.get(SESSION, id)) is not None:
            await asyncio.sleep(0)
            with suppress(VersionConflict):
                await writer.put(SESSION, id, {"n": record.data["n"] + 1}, only_if_version=record.version)

    for id in (str(n) for n in range(10)):
        begin = (await first.put(SESSION, id, {"n": 0})).version
        refreshers = [asyncio.create_task(refresh(writer, id)) for writer in writers for _ in range(4)]
        while (await first.get(SESSION, id)).version < begin + 10:
            await asyncio.sleep(0)
        assert await writers[-1].delete(SESSION, id)
        async with asyncio.timeout(60):
            await asyncio.gather(*refreshers)
        assert await first.get(SESSION, id) is None
    assert await first.page(SESSION, "", 10) == []
    for writer in writers:
        await writer.close()


async def test_expired_records_are_deleted_and_published(store, clock):
    begin = (await store.put(SESSION, "a", {}, expires=clock.now + 10)).version
    await store.put(SESSION, "b", {}, expires=clock.now + 20)
    clock.now += 10
    assert not await store.clean(100)
    assert summary(await read(store, begin, 2)) == [("b", True), ("a", False)]


async def test_a_record_added_again_is_seen_at_once(store):
    begin = (await store.put(SESSION, "a", {"n": 1})).version
    await store.delete(SESSION, "a")
    again = await store.put(SESSION, "a", {"n": 2}, only_if_version=0)
    assert await store.get(SESSION, "a") == again
    assert await store.page(SESSION, "", 10) == [again]
    assert summary(await read(store, begin, 1)) == [("a", True)]


async def test_fast_clock_deletes_no_records_valid_for_others(opener) -> None:
    """A server has a separate clock, which decides if it is behind. The memory of one process and a file have none."""
    right, ahead = opener(time.time), opener(lambda: time.time() + 86_400)
    try:
        skew = await ahead.clock_skew()
        if skew == 0.0:
            return  # one clock alone
        assert 86_390 < skew < 86_410
        assert abs(await right.clock_skew()) < 10
        assert -86_410 < await opener_behind(opener) < -86_390
        valid = await right.put(SESSION, "good", {}, expires=time.time() + 3600)
        over = await right.put(SESSION, "over", {}, expires=time.time() - 10)
        assert await ahead.put(USED_ID, "state", {}, expires=time.time() + 300, only_if_version=0)
        while await ahead.clean(100):
            pass
        assert await right.get(SESSION, "good") == valid
        assert [record.id for record in await ahead.page(SESSION, "", 10)] == ["good"]
        assert (await read(right, over.version, 2))[-1].record is None, "what is over was deleted"
        with pytest.raises(VersionConflict):
            await ahead.put(USED_ID, "state", {}, expires=time.time() + 86_700, only_if_version=0)
    finally:
        await right.close()
        await ahead.close()


async def opener_behind(opener) -> float:
    behind = opener(lambda: time.time() - 86_400)
    try:
        return await behind.clock_skew()
    finally:
        await behind.close()
