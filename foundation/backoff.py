"""Exponential backoff: doubling delays with a cap, and jitter so that many clients don't return at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from email.utils import parsedate_to_datetime
from itertools import count
from typing import TypeVar

from foundation.errors import BrokerError, GateError

MAX_DELAY = 5.0  # seconds
Result = TypeVar("Result")


def backoff_delay(attempt: int, first: float, up_to: float = MAX_DELAY, *, jitter: float = 1.0) -> float:
    """Seconds before the next try: `attempt` counts from 0, `jitter` from 0 (half of the delay) to 1 (all of it)."""
    # Beyond 30 doublings any cap is reached, and 2**attempt would outgrow a float.
    return min(up_to, first * 2 ** min(attempt, 30)) * (0.5 + jitter / 2)


def retry_after(written: str, now: float) -> float | None:
    """Seconds that a Retry-After asks for at `now`, Unix time (RFC 9110 10.2.3): a number, or a date, which may be over."""
    if written.isascii() and written.isdigit():
        return float(written[:9])
    return seconds_until(written, now)


def seconds_until(written: str, now: float) -> float | None:
    """Seconds from `now` to an HTTP date."""
    try:
        return parsedate_to_datetime(written).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None


def backoff_delays(first: float, up_to: float = MAX_DELAY) -> Iterator[float]:
    """Delays of one attempt after the other, in seconds, with random jitter; without end."""
    for attempt in count():
        yield backoff_delay(attempt, first, up_to, jitter=random.random())  # noqa: S311 - spreads load, guards nothing


async def retry(
    work: Callable[[], Awaitable[Result]],
    unable: Callable[[GateError], object],
    first: float,
    problems: tuple[type[GateError], ...] = (BrokerError,),
) -> Result:
    """Result of `work`, which is begun anew as often as it ends with one of `problems`: `unable` is told, then there is a pause, the first
    one of `first` seconds at most."""
    waits = backoff_delays(first)
    while True:
        try:
            return await work()
        except problems as error:
            unable(error)
            await asyncio.sleep(next(waits))
