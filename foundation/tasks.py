"""Named background tasks that are referenced until they end, and whose errors are logged."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")

_tasks: set[asyncio.Task[Any]] = set()


def spawn(work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
    """Run `work` in the background. asyncio references tasks weakly, so this module holds them until they end."""
    task = asyncio.create_task(work, name=name)  # noqa: TID251 - the only caller
    _tasks.add(task)
    task.add_done_callback(_on_done)
    return task


def _on_done(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background task failed", task=task.get_name(), exc_info=error)


async def gather_limited(items: Iterable[T], work: Callable[[T], Awaitable[Any]], concurrency: int) -> None:
    """Run `work` on every item with limited concurrency; the first error cancels the rest and is raised."""
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
