import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from foundation.tasks import gather_limited, spawn
from tests.support.eventually import PATIENCE


async def test_unreferenced_task_runs_to_completion() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    spawn(work(), name="work")
    gc.collect()
    await asyncio.wait_for(done.wait(), PATIENCE)


async def test_a_failure_is_logged_with_the_name_of_the_task() -> None:
    async def fail() -> None:
        raise RuntimeError("broken")

    with capture_logs() as lines:
        await asyncio.wait([spawn(fail(), name="doomed")])
        await asyncio.sleep(0)
    assert [(line["event"], line["task"]) for line in lines] == [("background task failed", "doomed")]


async def test_cancelling_is_no_failure() -> None:
    with capture_logs() as lines:
        task = spawn(asyncio.Event().wait(), name="waiting")
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert lines == []


async def test_work_in_parallel_is_bounded_and_ends_with_its_first_failure() -> None:
    busy = peak = 0
    done: list[int] = []

    async def work(item: int) -> None:
        nonlocal busy, peak
        busy += 1
        peak = max(peak, busy)
        await asyncio.sleep(0)
        busy -= 1
        if item == 50:
            raise ValueError("the fiftieth")
        done.append(item)

    await gather_limited(range(20), work, 4)
    assert (sorted(done), peak) == (list(range(20)), 4)
    with pytest.raises(ValueError, match="the fiftieth"):
        await gather_limited(range(20, 1000), work, 4)
    assert len(done) < 60
