"""Waiting for conditions; only a failing test waits long."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

PATIENCE = 60.0  # seconds; machines stall


async def eventually(condition: Callable[[], object], what: str = "") -> None:
    """Wait until `condition`, which may be a coroutine function, is true."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not (await found if inspect.isawaitable(found := condition()) else found):
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not in {PATIENCE:.0f} s: {what or condition}") from None


async def eventually_equal(value: Callable[[], Awaitable[object]], expected: object) -> None:
    async def is_there() -> bool:
        return await value() == expected

    await eventually(is_there, f"{expected!r}")
