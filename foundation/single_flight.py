"""Single flight: concurrent callers of the same work share one execution."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from foundation.errors import GateError
from foundation.tasks import spawn

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Background runs of work, at most one per key; a cancelled caller does not cancel the run for others."""

    def __init__(self, name: str):
        self._name = name  # of the tasks
        self._running: dict[K, asyncio.Task[V | GateError]] = {}
        self.clear = self._running.clear

    async def run(self, key: K, work: Callable[[], Awaitable[V]]) -> V:
        """Return the result of the run for this key, or raise its error."""
        outcome = await asyncio.shield(self.start(key, work))
        if isinstance(outcome, GateError):
            raise outcome
        return outcome

    def start(self, key: K, work: Callable[[], Awaitable[V]]) -> "asyncio.Task[V | GateError]":
        """Start a run for this key unless there is one already."""
        if (task := self._running.get(key)) is None:
            task = self._running[key] = spawn(self._run(key, work), name=self._name)
        return task

    def drop(self, key: K) -> None:
        """Make later callers start a new run; waiting callers still get the result of the old one."""
        self._running.pop(key, None)

    def is_current(self, key: K) -> bool:
        """Return True if the calling task is the run for this key and has not been dropped."""
        return self._running.get(key) is asyncio.current_task()

    async def _run(self, key: K, work: Callable[[], Awaitable[V]]) -> V | GateError:
        try:
            return await work()
        except GateError as error:  # returned, because an exception without a waiting caller would be logged as unhandled
            return error
        finally:
            if self.is_current(key):
                self.drop(key)
