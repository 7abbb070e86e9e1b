"""Background tasks with a name and an owner, neither lost nor silent."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")

_running: set[asyncio.Task[Any]] = set()


def spawn(work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
    """Run `work` in the background.  asyncio holds tasks weakly, so they are kept here until they end."""
    task = asyncio.create_task(work, name=name)  # noqa: TID251 - the one place that may
    _running.add(task)
    task.add_done_callback(_finished)
    return task


def _finished(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background task failed", task=task.get_name(), exc_info=error)


async def gather_limited(items: Iterable[T], work: Callable[[T], Awaitable[Any]], concurrency: int) -> None:
    """Run `work` on every item, so many at a time; the first failure ends all and is raised."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
