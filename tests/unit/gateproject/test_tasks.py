import asyncio
import gc

from structlog.testing import capture_logs

from gateproject.tasks import spawn


async def test_a_task_that_nobody_holds_still_runs_to_its_end() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    spawn(work(), name="work")
    gc.collect()
    await asyncio.wait_for(done.wait(), 1)


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
