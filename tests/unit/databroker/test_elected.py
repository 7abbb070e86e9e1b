"""Is elected work done by one at a time, taken over when its holder goes, and stopped when the lease may be lost?"""

import asyncio
import time
from collections.abc import Callable

from databroker.elected import run_elected
from databroker.store.base import Lease
from databroker.store.memory import MemoryStore
from gateproject.errors import BrokerError
from gateproject.tasks import spawn


class Work:
    """Counts who works; runs until it is cancelled."""

    def __init__(self) -> None:
        self.running = 0
        self.begun = 0
        self.most = 0

    async def __call__(self) -> None:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
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


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_of_several_processes_one_works_and_another_follows():
    store, work = MemoryStore(), Work()
    tasks = [spawn(run_elected(store, "work", work, ttl=0.15), name=f"process {n}") for n in range(3)]
    for task in tasks:
        await until(lambda: work.running == 1)
        await ended(task)
    assert (work.most, work.running) == (1, 0)


async def test_who_stops_lets_the_next_begin_at_once():
    store, work = MemoryStore(), Work()
    task = spawn(run_elected(store, "work", work, ttl=30), name="process")
    await until(lambda: work.running == 1)
    await ended(task)
    assert work.running == 0
    assert await store.acquire("work", 1) is not None


async def test_work_stops_when_the_lease_is_lost():
    store, work = Flaky(), Work()
    task = spawn(run_elected(store, "work", work, ttl=0.06), name="process")
    await until(lambda: work.running == 1)
    store.mode = "lost"
    await until(lambda: work.running == 0)
    store.mode = "up"
    await until(lambda: work.begun == 2)
    await ended(task)


async def test_work_stops_before_the_lease_ends_when_nobody_answers():
    for mode in ("away", "hangs"):
        store, work = Flaky(), Work()
        task = spawn(run_elected(store, "work", work, ttl=0.2), name="process")
        await until(lambda work=work: work.running == 1)
        store.mode = mode
        was_free_while_working = False
        while work.running:
            was_free_while_working |= not store._leases or store._leases["work"][1] <= time.time()
            await asyncio.sleep(0.002)
        assert not was_free_while_working
        await ended(task)


async def test_work_that_fails_is_begun_again():
    store = MemoryStore()
    times = 0

    async def failing() -> None:
        nonlocal times
        times += 1
        raise BrokerError("not now")

    task = spawn(run_elected(store, "work", failing, ttl=30), name="process")
    await until(lambda: times >= 2)
    await ended(task)


async def test_a_broker_that_is_away_is_asked_again():
    class Away(MemoryStore):
        asked = 0

        async def acquire(self, name: str, ttl: float) -> Lease | None:
            self.asked += 1
            if self.asked < 3:
                raise BrokerError("away")
            return await super().acquire(name, ttl)

    work = Work()
    task = spawn(run_elected(Away(), "work", work, ttl=30), name="process")
    await until(lambda: work.running == 1)
    await ended(task)
