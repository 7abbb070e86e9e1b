"""Exponential backoff: doubling delays with a cap, and jitter so that many clients don't return at once."""

import random
from collections.abc import Iterator
from itertools import count

LONGEST = 5.0  # seconds


def delay(attempt: int, first: float, up_to: float = LONGEST, *, jitter: float = 1.0) -> float:
    """Seconds before the next try: `attempt` counts from 0, `jitter` from 0 (half of the delay) to 1 (all of it)."""
    # Beyond 30 doublings any cap is reached, and 2**attempt would outgrow a float.
    return min(up_to, first * 2 ** min(attempt, 30)) * (0.5 + jitter / 2)


def pauses(first: float, up_to: float = LONGEST) -> Iterator[float]:
    """Delays of one attempt after the other, in seconds, with random jitter; without end."""
    for attempt in count():
        yield delay(attempt, first, up_to, jitter=random.random())  # noqa: S311 - spreads load, guards nothing
