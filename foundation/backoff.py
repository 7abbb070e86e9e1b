"""Exponential backoff with a cap and jitter, so that many clients do not retry at the same moment."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from email.utils import parsedate_to_datetime
from itertools import count
from typing import TypeVar

from foundation.errors import BrokerError, GateError

MAX_DELAY = 5.0  # seconds
Result = TypeVar("Result")


def backoff_delay(attempt: int, initial_delay: float, max_delay: float = MAX_DELAY, *, jitter: float = 1.0) -> float:
    """Return the delay before the next attempt in seconds.

    `attempt` counts from 0. `jitter` is between 0 (half of the delay) and 1 (the full delay).
    """
    # 30 doublings exceed any cap, and a larger exponent would overflow a float.
    return min(max_delay, initial_delay * 2 ** min(attempt, 30)) * (0.5 + jitter / 2)


def retry_after(value: str, now: float) -> float | None:
    """Parse a Retry-After value (RFC 9110 10.2.3) into seconds from `now` (Unix time); a date in the past is negative."""
    if value.isascii() and value.isdigit():
        return float(value[:9])
    return seconds_until(value, now)


def seconds_until(value: str, now: float) -> float | None:
    """Return the seconds from `now` until an HTTP date, or None if it is malformed."""
    try:
        return parsedate_to_datetime(value).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None


def backoff_delays(initial_delay: float, max_delay: float = MAX_DELAY) -> Iterator[float]:
    """Yield the delays of successive attempts in seconds, with random jitter, without end."""
    for attempt in count():
        yield backoff_delay(attempt, initial_delay, max_delay, jitter=random.random())  # noqa: S311 - spreads load, guards nothing


async def retry(
    work: Callable[[], Awaitable[Result]],
    on_error: Callable[[GateError], object],
    initial_delay: float,
    errors: tuple[type[GateError], ...] = (BrokerError,),
) -> Result:
    """Return the result of `work`, which is retried with backoff after each of the expected errors.

    `on_error` is called with each error. `initial_delay` is the maximum initial_delay delay in seconds.
    """
    delays = backoff_delays(initial_delay)
    while True:
        try:
            return await work()
        except errors as error:
            on_error(error)
            await asyncio.sleep(next(delays))
