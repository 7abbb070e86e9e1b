"""User activity is noted at once, written in batches, bounded, and never lost to database errors."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from databroker.projection.last_seen import INTERVAL, MAX_INTERVAL, MAX_ROW_WAIT, MAX_TIME_SHARE, LastSeenBuffer, next_interval
from foundation.errors import BrokerError
from tests.support.clock import NOW
from tests.support.eventually import eventually


class Table:
    """Rows of sessions, as the database has them: `write` fills in those there are."""

    def __init__(self, *ids: str):
        self.rows: dict[str, tuple[float, str] | None] = dict.fromkeys(ids)
        self.is_away = False
        self.batches = 0

    def write(self, seen: Mapping[str, tuple[float, str]]) -> set[str]:
        if self.is_away:
            raise BrokerError("database is locked")
        self.batches += 1
        self.rows |= {id: entry for id, entry in seen.items() if id in self.rows}
        return seen.keys() - self.rows.keys()


async def test_the_last_sight_of_each_session_is_written_in_one_batch(clock):
    table = Table("a", "b")
    activity = LastSeenBuffer(table.write, clock=clock)
    for number in range(100):
        activity.record("a", NOW + number, f"{number}.example.com")
    activity.record("b", NOW, "b.example.com")
    await activity.flush()
    assert table.rows == {"a": (NOW + 99, "99.example.com"), "b": (NOW, "b.example.com")}
    assert table.batches == 1


async def test_empty_input_causes_no_query(clock):
    table = Table()
    activity = LastSeenBuffer(table.write, clock=clock)
    await activity.flush()
    assert table.batches == 0


async def test_session_with_late_row_is_written_then(clock):
    table = Table()
    activity = LastSeenBuffer(table.write, clock=clock)
    activity.record("a", NOW, "a.example.com")
    await activity.flush()
    table.rows["a"] = None
    await activity.flush()
    assert table.rows == {"a": (NOW, "a.example.com")}


async def test_a_session_that_never_gets_a_row_is_forgotten(clock):
    table = Table()
    activity = LastSeenBuffer(table.write, clock=clock)
    activity.record("a", NOW, "a.example.com")
    clock.now += MAX_ROW_WAIT
    await activity.flush()
    assert repr(activity) == "<Activity 0 to write>"


async def test_a_newer_sight_is_not_overwritten_by_one_that_waits(clock):
    table = Table()

    def write(seen: Mapping[str, tuple[float, str]]) -> set[str]:
        activity.record("a", NOW + 5, "new.example.com")  # a request while the batch is written
        return set(seen)

    activity = LastSeenBuffer(write, clock=clock)
    activity.record("a", NOW, "old.example.com")
    await activity.flush()
    table.rows["a"] = None
    activity._write = table.write
    await activity.flush()
    assert table.rows == {"a": (NOW + 5, "new.example.com")}


async def test_a_database_in_trouble_loses_nothing(clock):
    table = Table("a")
    table.is_away = True
    activity = LastSeenBuffer(table.write, clock=clock)
    activity.record("a", NOW, "a.example.com")
    with capture_logs() as logged:
        await activity.flush()
    table.is_away = False
    await activity.flush()
    assert table.rows == {"a": (NOW, "a.example.com")}
    assert [entry["log_level"] for entry in logged] == ["warning"]


async def test_memory_is_bounded_and_known_sessions_stay_current(clock):
    table = Table("0", "99")
    activity = LastSeenBuffer(table.write, clock=clock, max_sessions=10)
    for number in range(100):
        activity.record(str(number), NOW, "a.example.com")
    activity.record("0", NOW + 1, "b.example.com")
    assert repr(activity) == "<Activity 10 to write>"
    await activity.flush()
    assert table.rows == {"0": (NOW + 1, "b.example.com"), "99": None}


async def test_waiting_sessions_count_towards_the_limit(clock):
    activity = LastSeenBuffer(Table().write, clock=clock, max_sessions=10)
    for number in range(8):
        activity.record(str(number), NOW, "a.example.com")
    await activity.flush()
    for number in range(100, 110):
        activity.record(str(number), NOW, "a.example.com")
    assert repr(activity) == "<Activity 10 to write>"


async def test_it_writes_by_itself_every_few_seconds(clock):
    table = Table("a")
    activity = LastSeenBuffer(table.write, clock=clock, interval=0.005)
    async with running(activity):
        for sight in (NOW, NOW + 1):
            activity.record("a", sight, "a.example.com")
            await eventually(lambda sight=sight: table.rows["a"] == (sight, "a.example.com"))


def test_the_longer_it_has_written_the_longer_it_waits():
    assert next_interval(0.001, INTERVAL) == INTERVAL
    assert next_interval(0.5, INTERVAL) == pytest.approx(15)
    assert next_interval(10, INTERVAL) == MAX_INTERVAL
    # An entry that waits for its row is retried at least once.
    assert MAX_ROW_WAIT > MAX_INTERVAL


async def test_a_writing_that_takes_long_is_followed_by_a_long_pause():
    times: list[float] = []

    def write(seen: Mapping[str, tuple[float, str]]) -> set[str]:
        times.append(time.monotonic())
        time.sleep(0.02)
        activity.record("a", NOW, "a.example.com")
        return set()

    activity = LastSeenBuffer(write, interval=0.005)
    activity.record("a", NOW, "a.example.com")
    async with running(activity), asyncio.timeout(20):
        while len(times) < 2:
            await asyncio.sleep(0.005)
    assert times[1] - times[0] >= 0.02 / MAX_TIME_SHARE


@asynccontextmanager
async def running(activity: LastSeenBuffer):
    task = asyncio.create_task(activity.run())
    yield
    task.cancel()
    await asyncio.wait({task})
