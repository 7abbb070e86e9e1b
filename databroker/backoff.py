"""How long to wait before the next try?"""

import random
from collections.abc import Iterator
from itertools import count

LONGEST = 5.0


def pauses(first: float) -> Iterator[float]:
    """Seconds: doubling from `first` up to five, each shortened by chance so that many clients don't return at once."""
    for attempt in count():
        longest = LONGEST if attempt > 16 else min(LONGEST, first * 2**attempt)
        yield longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
