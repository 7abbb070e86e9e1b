"""Number of examples of a property test: `@examples(20)`; GATE_EXAMPLES=50 multiplies it by fifty."""

import os

from hypothesis import settings

MORE = int(os.environ.get("GATE_EXAMPLES", "1"))


def examples(count: int) -> settings:
    return settings(max_examples=count * MORE)
