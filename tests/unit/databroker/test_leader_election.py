"""Is elected work done by one at a time, taken over when its holder goes, and stopped when the lease may be lost?"""

import asyncio
from collections.abc import Callable

import pytest

from databroker.leader_election import LeaseHeldElsewhere, run_elected, run_exclusive
from databroker.store.base import Lease
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from foundation.tasks import spawn


class Work:
    """Counts who works; runs until it is cancelled."""

    def __init__(self) -> None:
        self.running = 0
        self.started = 0
        self.peak = 0

    async def __call__(self) -> None:
        self.started += 1
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1


class Flaky(MemoryStore):
    """Leases behind a line: `mode` is what a renewal meets."""

    mode = "up"

    async def renew(self, lease: Lease, ttl: float) -> bool:
        if self.mode == "away":
            raise BrokerError("away")
        if self.mode == "hangs":
            await asyncio.Event().wait()
        return self.mode == "up" and await super().renew(lease, ttl)


class Clock:
    """Time of the test's own, for the event loop and the store: how fast this machine is doesn't matter."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def until(self, condition: Callable[[], bool]) -> None:
        ends = self.now + 300
        while not condition():
            assert self.now < ends
            await self.passes(0.1)

    async def passes(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock)
    return clock


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_of_several_processes_one_works_and_another_follows(clock):
    store, work = MemoryStore(clock), Work()
    tasks = [spawn(run_elected(store, "work", work, ttl=30), name=f"process {n}") for n in range(3)]
    for task in tasks:
        await clock.until(lambda: work.running == 1)
        await ended(task)
    assert (work.peak, work.running) == (1, 0)


async def test_stopping_holder_releases_lease_immediately(clock):
    store, work = MemoryStore(clock), Work()
    task = spawn(run_elected(store, "work", work, ttl=30), name="process")
    await clock.until(lambda: work.running == 1)
    await ended(task)
    assert work.running == 0
    assert await store.acquire("work", 1) is not None


async def test_work_stops_when_the_lease_is_lost(clock):
    store, work = Flaky(clock), Work()
    task = spawn(run_elected(store, "work", work, ttl=30), name="process")
    await clock.until(lambda: work.running == 1)
    store.mode = "lost"
    await clock.until(lambda: work.running == 0)
    store.mode = "up"
    await clock.until(lambda: work.started == 2)
    await ended(task)


@pytest.mark.parametrize("mode", ["away", "hangs"])
async def test_work_stops_before_lease_expires_without_response(mode, clock):
    store, work = Flaky(clock), Work()
    task = spawn(run_elected(store, "work", work, ttl=30), name="process")
    await clock.until(lambda: work.running == 1)
    store.mode = mode
    was_free_while_working, started_at = False, clock.now
    while work.running:
        was_free_while_working |= not store._leases or store._leases["work"][1] <= clock.now
        await clock.passes(0.1)
    assert not was_free_while_working
    assert 20 < clock.now - started_at < 30
    await ended(task)


async def test_failed_work_starts_again(clock):
    store = MemoryStore(clock)
    times = 0

    async def failing() -> None:
        nonlocal times
        times += 1
        raise BrokerError("not now")

    task = spawn(run_elected(store, "work", failing, ttl=30), name="process")
    await clock.until(lambda: times >= 2)
    await ended(task)


async def test_any_renewal_failure_restarts_work(clock):
    class Broken(MemoryStore):
        renewed = 0

        async def renew(self, lease: Lease, ttl: float) -> bool:
            self.renewed += 1
            if self.renewed == 1:
                raise RuntimeError("unexpected")
            return await super().renew(lease, ttl)

    work = Work()
    task = spawn(run_elected(Broken(clock), "work", work, ttl=30), name="process")
    await clock.until(lambda: work.started == 2 and work.running == 1)
    assert work.peak == 1
    await ended(task)


@pytest.mark.parametrize("error", [BrokerError("away"), RuntimeError("unexpected")], ids=["away", "unexpected"])
async def test_unavailable_broker_is_retried(clock, error: Exception):
    class Away(MemoryStore):
        tries = 0

        async def acquire(self, name: str, ttl: float) -> Lease | None:
            self.tries += 1
            if self.tries < 3:
                raise error
            return await super().acquire(name, ttl)

    work = Work()
    task = spawn(run_elected(Away(clock), "work", work, ttl=30), name="process")
    await clock.until(lambda: work.running == 1)
    await ended(task)


async def test_work_that_is_done_alone_is_done_by_one() -> None:
    store = MemoryStore()
    may_end, started = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        started.set()
        await may_end.wait()
        return "done"

    first = asyncio.create_task(run_exclusive(store, "work", work))
    await started.wait()
    with pytest.raises(LeaseHeldElsewhere):
        await run_exclusive(store, "work", work)
    may_end.set()
    assert await first == "done"
    assert await run_exclusive(store, "work", work) == "done"
