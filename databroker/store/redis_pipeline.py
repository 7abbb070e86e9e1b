"""Command pipeline: commands from the same iteration of the event loop share one round trip."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import RedisError

from foundation.tasks import spawn

Command = tuple[Any, ...]

# Limits how long the first command of a batch waits for the response to the last.
BATCH_SIZE = 64


class CommandPipeline:
    """Pipeline for one event loop.  A cancelled caller does not affect the others; commands that were sent still run."""

    def __init__(self, send: Callable[[Sequence[Command]], Awaitable[list[Any]]], deadline: float):
        self._send = send
        self._deadline = deadline
        self._waiting: list[tuple[Command, asyncio.Future[Any]]] = []

    async def execute(self, command: Command) -> Any:
        """Return the response to this command, or raise its error."""
        loop = asyncio.get_running_loop()
        response: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((command, response))
        if len(self._waiting) == 1:
            loop.call_soon(self._send_all)
        return await response

    def _send_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), BATCH_SIZE):
            spawn(self._send_batch(waiting[start : start + BATCH_SIZE]), name="commands to the kvstore")

    async def _send_batch(self, batch: list[tuple[Command, "asyncio.Future[Any]"]]) -> None:
        try:
            async with asyncio.timeout(self._deadline):
                responses = await self._send([command for command, _ in batch])
        except (RedisError, OSError, TimeoutError) as error:
            responses = [error] * len(batch)
        for (_, waiting), response in zip(batch, responses, strict=True):
            if waiting.done():
                continue
            if isinstance(response, Exception):
                waiting.set_exception(response)
            else:
                waiting.set_result(response)
