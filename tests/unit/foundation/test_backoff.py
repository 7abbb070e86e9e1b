"""Delays grow, end growing, and are shortened by chance to no less than half."""

from itertools import islice

import pytest

from foundation.backoff import LONGEST, delay, pauses


@pytest.mark.parametrize(
    ("attempt", "jitter", "seconds"),
    [(0, 1.0, 2.0), (1, 1.0, 4.0), (3, 1.0, 10.0), (3, 0.0, 5.0), (0, 0.5, 1.5), (1_000_000, 1.0, 10.0)],
)
def test_a_delay_doubles_up_to_its_cap_and_jitter_takes_half_at_most(attempt: int, jitter: float, seconds: float) -> None:
    assert delay(attempt, 2.0, 10.0, jitter=jitter) == seconds


def test_pauses_double_up_to_the_longest() -> None:
    waits = list(islice(pauses(0.1), 40))
    for attempt, wait in enumerate(waits):
        longest = min(LONGEST, 0.1 * 2**attempt)
        assert longest / 2 <= wait <= longest
