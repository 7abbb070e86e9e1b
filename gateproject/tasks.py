"""Background work with a name and an owner: a task that is neither lost nor silent."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)

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
