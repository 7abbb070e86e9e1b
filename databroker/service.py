"""The data broker of this process: its store, who may ask it, and what keeps store, replica and admin tables in step."""

import asyncio
import time
from collections.abc import Callable

from databroker import activity, rows
from databroker.client import LocalBroker
from databroker.projection import Projection
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from gateproject.tasks import spawn

# An expired session closes its open websockets when the sweep tells the change stream, so this is how late they may be.
SWEEP_INTERVAL = 0.5
# About a millisecond among 100,000 records; requests are answered between two such steps.
SWEEP_AT_ONCE = 100


class DataBrokerService:
    """`start` and `stop` belong to the same event loop; records can be read and written before `start`."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        *,
        sweep_interval: float = SWEEP_INTERVAL,
        activity_interval: float = activity.INTERVAL,
    ):
        self._clock = clock
        self._sweep_interval = sweep_interval
        self._store = MemoryStore(clock)
        self.client = LocalBroker(self._store)
        self.replica = Replica(self.client, clock=clock)
        self.activity = activity.Activity(rows.write_seen, clock=clock, interval=activity_interval)
        self._projection = Projection(self.client)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [
            spawn(self.replica.run(), name="replica"),
            spawn(self._sweep(), name="sweep of expired records"),
            spawn(self._projection.run(), name="projection"),
            spawn(self.activity.run(), name="last seen"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []
        await self._store.close()

    async def _sweep(self) -> None:
        while True:
            self._store.expire(self._clock(), SWEEP_AT_ONCE)
            await asyncio.sleep(0 if self._store.has_expired(self._clock()) else self._sweep_interval)
