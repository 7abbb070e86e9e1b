"""One run for all callers of a key, also if some are cancelled; all callers get its error."""

import asyncio

import pytest
from structlog.testing import capture_logs

from foundation.errors import BrokerError
from foundation.single_flight import SingleFlight


class Stage:
    """A flight whose runs end when `go` is set; `current` records for each whether it was current at its end."""

    def __init__(self) -> None:
        self.flight: SingleFlight[str, int] = SingleFlight("work")
        self.go = asyncio.Event()
        self.error: Exception | None = None
        self.runs = 0
        self.current: list[bool] = []

    async def work(self) -> int:
        self.runs += 1
        number = self.runs
        await self.go.wait()
        self.current.append(self.flight.is_current("a"))
        if self.error is not None:
            raise self.error
        return number

    async def callers(self, count: int, key: str = "a") -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self.flight.run(key, self.work)) for _ in range(count)]
        await asyncio.sleep(0.001)
        return tasks


async def test_callers_of_a_key_share_one_run_and_the_next_starts_another() -> None:
    stage = Stage()
    callers = [*await stage.callers(3), *await stage.callers(1, "b")]
    stage.go.set()
    assert await asyncio.gather(*callers) == [1, 1, 1, 2]
    assert await stage.flight.run("a", stage.work) == 3


@pytest.mark.parametrize("leaving", [1, 3])
async def test_a_cancelled_caller_takes_nothing_from_the_others(leaving: int) -> None:
    stage = Stage()
    callers = await stage.callers(3)
    for caller in callers[:leaving]:
        caller.cancel()
    callers += await stage.callers(1)
    stage.go.set()
    assert await asyncio.gather(*callers[leaving:]) == [1] * (4 - leaving)
    assert all(caller.cancelled() for caller in callers[:leaving])


@pytest.mark.parametrize("error", [BrokerError("away"), ZeroDivisionError()])
async def test_error_reaches_every_caller_and_is_not_cached(error: Exception) -> None:
    stage = Stage()
    stage.error = error
    callers = await stage.callers(3)
    stage.go.set()
    with capture_logs() as lines:
        assert await asyncio.gather(*callers, return_exceptions=True) == [error] * 3
        await asyncio.wait({stage.flight.start("a", stage.work)})
    assert stage.runs == 2
    assert bool(lines) == isinstance(error, ZeroDivisionError)  # a GateError is not a failure of the task


@pytest.mark.parametrize("drops_all", [True, False])
async def test_dropped_run_is_not_shared_with_later_callers(drops_all: bool) -> None:
    stage = Stage()
    callers = await stage.callers(2)
    stage.flight.clear() if drops_all else stage.flight.drop("a")
    callers += await stage.callers(2)
    stage.go.set()
    assert await asyncio.gather(*callers) == [1, 1, 2, 2]
    assert stage.current == [False, True]
