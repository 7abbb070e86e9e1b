"""Is the replica right at every moment at which it answers without asking?"""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from databroker.records import DIRECTORY_USER, SERVICE_ACCOUNT, SESSION, SIGNING_KEY, USER
from databroker.replica import CACHE_CLEARED, UNKNOWN, Replica
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.brokers import DisturbedBroker
from tests.support.eventually import PATIENCE, eventually

NOW = 1_700_000_000.0


class World:
    """A store, the line to it, and a replica at the end of the line, following."""

    def __init__(self, **settings):
        self.now = NOW
        self.store = MemoryStore(lambda: self.now, remembered_changes=settings.pop("remembered_changes", 100))
        self.line = DisturbedBroker(self.store)
        self.replica = Replica(self.line, initial_backoff=0.001, clock=lambda: self.now, **settings)
        self.received = []
        self.replica.on_change(self.received.append)

    async def until(self, holds: Callable[[], bool]) -> None:
        await eventually(holds)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def world(request) -> AsyncIterator[World]:
    world = World(**getattr(request, "param", {}))
    running = asyncio.create_task(world.replica.run())
    await world.until(lambda: world.received == [CACHE_CLEARED])
    yield world
    running.cancel()
    await asyncio.wait({running})


async def test_only_requested_records_are_cached(world):
    await world.store.put(SESSION, "a", {"n": 1})
    await world.settle()
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    assert (await world.replica.get(SESSION, "a")).data == {"n": 1}
    assert world.replica.peek(SESSION, "a").data == {"n": 1}
    await world.replica.get(SESSION, "a")
    assert world.line.requests == [(SESSION, "a")]


async def test_a_changed_record_replaces_the_cached_one(world):
    await world.store.put(SESSION, "a", {"n": 1})
    await world.replica.get(SESSION, "a")
    await world.store.put(SESSION, "a", {"n": 2})
    await world.settle()
    assert world.replica.peek(SESSION, "a").data == {"n": 2}


async def test_a_deleted_record_is_dropped_at_once(world):
    await world.store.put(SESSION, "a", {})
    await world.replica.get(SESSION, "a")
    await world.store.delete(SESSION, "a")
    await world.settle()
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    assert await world.replica.get(SESSION, "a") is None


async def test_an_expired_record_is_not_served_before_any_sweep(world):
    await world.store.put(SESSION, "a", {}, expires=NOW + 10)
    assert await world.replica.get(SESSION, "a")
    world.now += 10
    assert world.replica.peek(SESSION, "a") is None
    assert await world.replica.get(SESSION, "a") is None


async def test_that_a_session_does_not_exist_is_never_remembered(world):
    assert await world.replica.get(SESSION, "a") is None
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    await world.store.put(SESSION, "a", {})
    assert await world.replica.get(SESSION, "a")


async def test_missing_directory_user_is_remembered_until_added(world):
    assert await world.replica.get(DIRECTORY_USER, "a") is None
    assert world.replica.peek(DIRECTORY_USER, "a") is None
    await world.store.put(DIRECTORY_USER, "a", {"n": 1})
    await world.settle()
    assert (await world.replica.get(DIRECTORY_USER, "a")).data == {"n": 1}


async def test_a_new_service_account_is_seen_at_once(world):
    assert await world.replica.get(SERVICE_ACCOUNT, "ci") is None
    await world.store.put(SERVICE_ACCOUNT, "ci", {})
    assert await world.replica.get(SERVICE_ACCOUNT, "ci")


async def test_types_that_are_not_followed_are_not_cached(world):
    await world.store.put(SIGNING_KEY, "a", {})
    await world.settle()
    assert await world.replica.get(SIGNING_KEY, "a")
    assert world.replica.peek(SIGNING_KEY, "a") is UNKNOWN
    assert world.received == [CACHE_CLEARED]


async def test_concurrent_misses_share_one_call(world):
    await world.store.put(SESSION, "a", {})
    world.line.held = asyncio.Event()
    callers = [asyncio.create_task(world.replica.get(SESSION, "a")) for _ in range(20)]
    await world.settle()
    world.line.held.set()
    assert all(await asyncio.gather(*callers))
    assert world.line.requests == [(SESSION, "a")]


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_get_that_races_with_a_change_never_caches_the_older_value(world, deleted):
    await world.store.put(SESSION, "a", {"n": 1})
    await world.settle()
    world.line.held = asyncio.Event()
    slow = asyncio.create_task(world.replica.get(SESSION, "a"))
    await world.settle()
    await (world.store.delete(SESSION, "a") if deleted else world.store.put(SESSION, "a", {"n": 2}))
    await world.settle()
    world.line.held.set()
    await slow
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    found = await world.replica.get(SESSION, "a")
    assert found is None if deleted else found.data == {"n": 2}


async def test_request_after_change_does_not_share_earlier_call(world):
    await world.store.put(SESSION, "a", {})
    await world.settle()
    world.line.held = asyncio.Event()
    slow = asyncio.create_task(world.replica.get(SESSION, "a"))
    await world.settle()
    await world.store.delete(SESSION, "a")
    await world.settle()
    late = asyncio.create_task(world.replica.get(SESSION, "a"))
    await world.settle()
    world.line.held.set()
    assert (await slow) is not None
    assert (await late) is None


async def test_a_change_that_comes_late_does_not_undo_a_newer_value(world):
    for number in range(3):
        await world.store.put(SESSION, "a", {"n": number})
    found = await world.replica.get(SESSION, "a")  # the stream has not had its turn yet
    world.replica._apply(world.received[0].__class__(found.version - 1, SESSION, "a", None))
    assert world.replica.peek(SESSION, "a") == found


@pytest.mark.parametrize("world", [{"max_records": 3}], indirect=True)
async def test_lru_entry_is_evicted(world):
    for id in "abcd":
        await world.store.put(USER, id, {})
    await world.settle()
    for id in "abc":
        await world.replica.get(USER, id)
    world.replica.peek(USER, "a")
    await world.replica.get(USER, "d")
    assert [id for id in "abcd" if world.replica.peek(USER, id) is not UNKNOWN] == ["a", "c", "d"]


@pytest.mark.parametrize("world", [{"max_records": 2}], indirect=True)
async def test_each_type_has_room_of_its_own(world):
    for type in (SESSION, USER, DIRECTORY_USER):
        for id in "ab":
            await world.store.put(type, id, {})
    await world.settle()
    for type in (SESSION, USER, DIRECTORY_USER):
        for id in "ab":
            await world.replica.get(type, id)
    assert all(world.replica.peek(type, id) is not UNKNOWN for type in (SESSION, USER, DIRECTORY_USER) for id in "ab")


async def test_a_version_is_that_of_the_record_which_would_be_found(world):
    assert world.replica.version(SESSION, "a") is UNKNOWN
    assert world.replica.version(SIGNING_KEY, "a") is UNKNOWN
    for _ in range(2):
        written = await world.store.put(SESSION, "a", {}, expires=NOW + 10)
        await world.settle()
        assert await world.replica.get(SESSION, "a") == written
        assert world.replica.version(SESSION, "a") == written.version
    world.now += 10
    assert world.replica.version(SESSION, "a") is None
    await world.replica.get(USER, "nobody")
    assert world.replica.version(USER, "nobody") is None
    world.replica.apply_local_deletion(SESSION, "a")
    assert world.replica.version(SESSION, "a") is UNKNOWN


async def test_versions_of_two_lives_are_not_mistaken_for_each_other(world):
    await world.store.put(SESSION, "a", {"n": 1})
    await world.replica.get(SESSION, "a")
    before = world.replica.generation, world.replica.version(SESSION, "a")
    other = MemoryStore(lambda: NOW)
    await other.put(SESSION, "a", {"n": 2})
    world.line.cut()
    await world.until(lambda: not world.replica._is_following)
    world.line.mend(other)
    await world.until(lambda: world.replica._is_following)
    assert (await world.replica.get(SESSION, "a")).data == {"n": 2}
    assert world.replica.version(SESSION, "a") == before[1]
    assert world.replica.generation != before[0]


async def test_callbacks_receive_each_change_of_followed_types(world):
    await world.store.put(SESSION, "a", {})
    await world.settle()
    await world.store.delete(SESSION, "a")
    await world.settle()
    assert [(change.type, change.id, change.record is None) for change in world.received[1:]] == [
        (SESSION, "a", False),
        (SESSION, "a", True),
    ]


async def test_a_broken_stream_clears_the_cache_until_it_is_back(world):
    await world.store.put(SESSION, "a", {})
    await world.replica.get(SESSION, "a")
    world.line.cut()
    await world.until(lambda: world.received.count(CACHE_CLEARED) == 2)
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    with pytest.raises(BrokerError):
        await world.replica.get(SESSION, "a")
    world.line.mend()
    await world.until(lambda: world.received.count(CACHE_CLEARED) >= 3 and world.replica._is_following)
    assert await world.replica.get(SESSION, "a")
    assert world.replica.peek(SESSION, "a")


@pytest.mark.parametrize("world", [{"staleness": 30}], indirect=True)
async def test_only_cached_records_are_served_while_the_broker_is_away(world):
    await world.store.put(SESSION, "a", {}, expires=NOW + 10)
    await world.store.put(SESSION, "b", {})
    assert await world.replica.get(SESSION, "a")
    assert await world.replica.get(DIRECTORY_USER, "a") is None
    world.line.cut()
    await world.until(lambda: not world.replica._is_following)
    assert world.replica.peek(SESSION, "a")
    assert world.replica.peek(DIRECTORY_USER, "a") is None
    with pytest.raises(BrokerError):
        await world.replica.get(SESSION, "b")
    assert world.replica.sync_token == ""
    world.now += 10
    assert await world.replica.get(SESSION, "a") is None
    assert world.received.count(CACHE_CLEARED) == 1


@pytest.mark.parametrize("world", [{"staleness": staleness, "min_silence": 0.3} for staleness in (0.0, 0.3)], indirect=True)
async def test_a_line_that_goes_silent_is_no_sign_that_all_is_well(world):
    """No error reports the loss, so only the time of the broker's last message counts."""
    await world.store.put(SESSION, "a", {})
    assert await world.replica.get(SESSION, "a")
    world.line.silent = asyncio.Event()
    await world.store.delete(SESSION, "a")
    await world.until(lambda: world.replica.peek(SESSION, "a") is UNKNOWN)
    assert world.received[-1] is CACHE_CLEARED
    assert world.replica.sync_token == ""
    silent, world.line.silent = world.line.silent, None
    silent.set()
    await world.until(lambda: world.replica._is_following)
    assert await world.replica.get(SESSION, "a") is None


@pytest.mark.parametrize("world", [{"staleness": 1.0, "min_silence": 1.0}], indirect=True)
async def test_connected_follower_is_current_however_idle(world):
    await world.store.put(SESSION, "a", {})
    assert await world.replica.get(SESSION, "a")
    life, count = world.replica.generation, len(world.received)
    end = world.replica._staleness_timer.when() + 2.0
    await world.until(lambda: world.replica._staleness_timer.when() > end)
    assert world.replica.peek(SESSION, "a")
    assert (world.replica.generation, len(world.received)) == (life, count)


@pytest.mark.parametrize("world", [{"staleness": 0.05, "min_silence": 0.05}], indirect=True)
async def test_cached_entry_expires(world):
    await world.store.put(SESSION, "a", {})
    assert await world.replica.get(SESSION, "a")
    world.line.cut()
    await world.until(lambda: world.received.count(CACHE_CLEARED) == 2)
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    with pytest.raises(BrokerError):
        await world.replica.get(SESSION, "a")


@pytest.mark.parametrize("world", [{"staleness": 30}], indirect=True)
async def test_reconnecting_broker_ends_staleness_and_removes_ended_records(world):
    await world.store.put(SESSION, "a", {})
    assert await world.replica.get(SESSION, "a")
    world.line.cut()
    await world.until(lambda: not world.replica._is_following)
    await world.store.delete(SESSION, "a")
    world.line.mend()
    await world.until(lambda: world.replica._is_following)
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    assert await world.replica.get(SESSION, "a") is None


@pytest.mark.parametrize("world", [{"staleness": 30}], indirect=True)
async def test_own_deletion_is_visible_at_once_with_or_without_stream(world):
    for is_cut in (False, True):
        await world.store.put(SESSION, "a", {})
        assert await world.replica.get(SESSION, "a")
        if is_cut:
            world.line.cut()
            await world.until(lambda: not world.replica._is_following)
        world.replica.apply_local_deletion(SESSION, "a")
        assert world.replica.peek(SESSION, "a") is UNKNOWN
        assert (world.received[-1].type, world.received[-1].id, world.received[-1].record) == (SESSION, "a", None)
        count = len(world.received)
        world.replica.apply_local_deletion("a type of no listener", "a")
        assert len(world.received) == count


@pytest.mark.parametrize("world", [{"staleness": 30}], indirect=True)
async def test_stale_copy_does_not_answer_reader_with_newer_version(world):
    record = await world.store.put(SESSION, "a", {})
    assert await world.replica.get(SESSION, "a")
    seen = world.replica.sync_token.rpartition(":")[0]
    world.line.cut()
    await world.until(lambda: not world.replica._is_following)
    await world.replica.catch_up(f"{seen}:{record.version}", 0.01)
    assert world.replica.peek(SESSION, "a")
    await world.replica.catch_up(f"{seen}:{record.version + 1}", 0.01)
    assert world.replica.peek(SESSION, "a") is UNKNOWN


async def test_an_answer_from_before_the_break_is_not_cached_after_it(world):
    await world.store.put(SESSION, "a", {})
    await world.settle()
    world.line.held = asyncio.Event()
    slow = asyncio.create_task(world.replica.get(SESSION, "a"))
    await world.settle()
    world.line.cut()
    await world.until(lambda: not world.replica._is_following)
    await world.store.delete(SESSION, "a")
    world.line.mend()
    await world.until(lambda: world.replica._is_following)
    world.line.held.set()
    await slow
    assert world.replica.peek(SESSION, "a") is UNKNOWN


async def test_nothing_is_cached_while_the_stream_is_broken(world):
    await world.store.put(SESSION, "a", {})
    world.line.cut()
    await world.until(lambda: not world.replica._is_following)
    world.line._cut.clear()  # the line is back, and the replica does not know it yet
    assert await world.replica.get(SESSION, "a")
    assert world.replica.peek(SESSION, "a") is UNKNOWN


async def test_a_broker_that_lost_its_memory_means_starting_over(world):
    await world.store.put(SESSION, "a", {})
    await world.replica.get(SESSION, "a")
    other = MemoryStore(lambda: NOW)
    assert await other.server_version() != await world.store.server_version()
    for number in range(5):
        await other.put(USER, str(number), {})
    world.line.cut()
    await world.until(lambda: not world.replica._is_following)
    world.line.mend(other)
    await world.until(lambda: world.replica._is_following)
    assert await world.replica.get(SESSION, "a") is None
    await world.replica.get(USER, "0")
    await other.delete(USER, "0")
    await world.settle()
    assert await world.replica.get(USER, "0") is None


@pytest.mark.parametrize("world", [{"remembered_changes": 5}], indirect=True)
async def test_a_replica_that_fell_behind_starts_over(world):
    await world.store.put(SESSION, "a", {})
    await world.replica.get(SESSION, "a")
    await world.settle()
    await world.store.delete(SESSION, "a")
    for number in range(20):  # more than the log remembers, before the stream has its turn
        await world.store.put(USER, str(number), {})
    await world.settle()
    assert world.received[-1] is CACHE_CLEARED
    assert world.replica.peek(SESSION, "a") is UNKNOWN


@pytest.mark.parametrize("world", [{"remembered_changes": 5}], indirect=True)
async def test_a_server_that_restarts_behind_an_unbroken_line_is_known_by_its_new_version(world):
    """Otherwise the replicas of other processes, which lost the connection, would never reach this one's position."""
    world.store._server_version = "another life"
    for number in range(20):
        await world.store.put(USER, str(number), {})
    version = (await world.store.put(USER, "last", {})).version
    await world.until(lambda: world.replica.sync_token == f"another life:{version}")


async def test_callback_error_restarts_all_callbacks(world):
    """It may have left something undone: a stream that goes on, an identity that is too old."""
    await world.store.put(SESSION, "a", {})
    await world.replica.get(SESSION, "a")
    failures = [ZeroDivisionError()]

    def fail_once(change):
        if change is not CACHE_CLEARED and failures:
            raise failures.pop()

    world.replica.on_change(fail_once)
    await world.store.put(USER, "b", {})
    await world.until(lambda: not failures)
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    await world.until(lambda: world.received[-1] is CACHE_CLEARED and bool(world.replica.sync_token))
    await world.replica.get(SESSION, "a")
    await world.store.delete(SESSION, "a")
    await world.until(lambda: world.replica.peek(SESSION, "a") is UNKNOWN)


async def test_before_following_every_query_goes_to_broker():
    world = World()
    await world.store.put(SESSION, "a", {"n": 1})
    assert (await world.replica.get(SESSION, "a")).data == {"n": 1}
    await world.store.put(SESSION, "a", {"n": 2})
    assert (await world.replica.get(SESSION, "a")).data == {"n": 2}


async def test_a_replica_that_is_behind_another_waits_for_it(world):
    record = await world.store.put(SESSION, "a", {"n": 1})
    await world.replica.get(SESSION, "a")
    await world.settle()
    server_version = await world.store.server_version()
    assert world.replica.sync_token == f"{server_version}:{record.version}"
    waiting = asyncio.create_task(world.replica.catch_up(f"{server_version}:{record.version + 1}", 5))
    await world.settle()
    assert not waiting.done()
    await world.store.delete(SESSION, "a")
    await asyncio.wait_for(waiting, PATIENCE)
    assert await world.replica.get(SESSION, "a") is None


@pytest.mark.parametrize("seen", ["{life}:999", "another-life:1"])
async def test_late_records_are_requested(world, seen):
    await world.store.put(SESSION, "a", {"n": 1})
    await world.replica.get(SESSION, "a")
    await world.settle()
    await world.replica.catch_up(seen.format(life=await world.store.server_version()), 0.01)
    assert world.replica.peek(SESSION, "a") is UNKNOWN
    assert (await world.replica.get(SESSION, "a")).data == {"n": 1}


async def test_reader_without_version_does_not_wait(world):
    await world.replica.catch_up("", 5)
    world.line.cut()
    await world.until(lambda: world.replica.sync_token == "")
    await world.replica.catch_up("life:999", 5)


async def test_session_is_stored_without_its_tokens(world):
    tokens = {"id_token": "t", "access_token": "t", "refresh_token": "t", "unverified_id_token": "t"}
    for number in (1, 2):
        await world.store.put(SESSION, "a", {"n": number, **tokens})
        await world.settle()
        assert (await world.replica.get(SESSION, "a")).data == {"n": number}
        assert world.replica.peek(SESSION, "a").data == {"n": number}
    assert await world.replica.get(SESSION, "a") == world.replica.peek(SESSION, "a")
