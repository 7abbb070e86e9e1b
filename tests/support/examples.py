"""How many examples does a property have in this run?  `@examples(20)`; GATE_EXAMPLES=50 tries fifty times as many."""

import os

from hypothesis import settings

MORE = int(os.environ.get("GATE_EXAMPLES", "1"))


def examples(count: int) -> settings:
    return settings(max_examples=count * MORE)
