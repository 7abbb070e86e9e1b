"""Delays grow up to a maximum, and jitter shortens them to at least half."""

from itertools import islice

import pytest

from foundation.backoff import MAX_DELAY, backoff_delay, backoff_delays, retry
from foundation.errors import BrokerError, GateError


@pytest.mark.parametrize(
    ("attempt", "jitter", "seconds"),
    [(0, 1.0, 2.0), (1, 1.0, 4.0), (3, 1.0, 10.0), (3, 0.0, 5.0), (0, 0.5, 1.5), (1_000_000, 1.0, 10.0)],
)
def test_delay_doubles_up_to_its_cap_and_jitter_removes_up_to_half(attempt: int, jitter: float, seconds: float) -> None:
    assert backoff_delay(attempt, 2.0, 10.0, jitter=jitter) == seconds


def test_pauses_double_up_to_the_maximum() -> None:
    waits = list(islice(backoff_delays(0.1), 40))
    for attempt, wait in enumerate(waits):
        maximum = min(MAX_DELAY, 0.1 * 2**attempt)
        assert maximum / 2 <= wait <= maximum


async def test_work_is_retried_until_done_and_each_problem_is_reported() -> None:
    problems, reported = [BrokerError("away"), BrokerError("still away")], list[GateError]()
    expected = list(problems)

    async def work() -> str:
        if problems:
            raise problems.pop(0)
        return "done"

    assert await retry(work, reported.append, 0.0) == "done"
    assert reported == expected


async def test_permanent_error_ends_work() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    reported = list[GateError]()
    with pytest.raises(ValueError, match="wrong"):
        await retry(work, reported.append, 0.0)
    assert reported == []
