"""Delays grow up to a maximum, and jitter shortens them to at least half."""

from itertools import islice

import pytest

from foundation.backoff import MAX_DELAY, backoff_delay, backoff_delays, retry
from foundation.errors import BrokerError, GateError


@pytest.mark.parametrize(
    ("attempt", "jitter", "seconds"),
    [(0, 1.0, 2.0), (1, 1.0, 4.0), (3, 1.0, 10.0), (3, 0.0, 5.0), (0, 0.5, 1.5), (1_000_000, 1.0, 10.0)],
)
def test_a_delay_doubles_up_to_its_cap_and_jitter_takes_half_at_most(attempt: int, jitter: float, seconds: float) -> None:
    assert backoff_delay(attempt, 2.0, 10.0, jitter=jitter) == seconds


def test_pauses_double_up_to_the_longest() -> None:
    waits = list(islice(backoff_delays(0.1), 40))
    for attempt, wait in enumerate(waits):
        longest = min(MAX_DELAY, 0.1 * 2**attempt)
        assert longest / 2 <= wait <= longest


async def test_work_is_begun_anew_until_it_is_done_and_each_problem_is_told() -> None:
    problems, told = [BrokerError("away"), BrokerError("still away")], list[GateError]()
    expected = list(problems)

    async def work() -> str:
        if problems:
            raise problems.pop(0)
        return "done"

    assert await retry(work, told.append, 0.0) == "done"
    assert told == expected


async def test_work_ends_with_what_is_no_passing_problem() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    told = list[GateError]()
    with pytest.raises(ValueError, match="wrong"):
        await retry(work, told.append, 0.0)
    assert told == []
