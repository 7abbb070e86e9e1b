"""How long to wait before the next try?"""

import random
from collections.abc import Iterator
from itertools import count

LONGEST = 5.0


def pauses(first: float, up_to: float = LONGEST) -> Iterator[float]:
    """Seconds: doubling from `first`, each shortened by chance so that many clients don't return at once."""
    for attempt in count():
        longest = up_to if attempt > 16 else min(up_to, first * 2**attempt)
        yield longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
