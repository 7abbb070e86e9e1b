import asyncio

from proxy.listener.deadline import Deadline


async def elapsed(*steps) -> list[str]:
    """Run the steps on one deadline, wait, and return what it called."""
    deadline = Deadline(asyncio.get_running_loop())
    called: list[str] = []
    for step in steps:
        step(deadline, called)
    await asyncio.sleep(0.03)
    deadline.close()
    return called


def start(seconds, name):
    return lambda deadline, called: deadline.start(seconds, lambda: called.append(name))


async def test_a_deadline_calls_once_when_its_time_has_come():
    assert await elapsed(start(0.001, "late")) == ["late"]


async def test_a_later_start_replaces_the_earlier_one():
    assert await elapsed(start(0.001, "first"), start(0.01, "second")) == ["second"]


async def test_a_shorter_start_is_not_late():
    assert await elapsed(start(60, "first"), start(0.001, "second")) == ["second"]


async def test_cleared_deadline_returns_remaining_time():
    left = []
    assert await elapsed(start(0.005, "late"), lambda deadline, _: left.append(deadline.clear())) == []
    assert 0 < left[0] <= 0.005


async def test_stopped_deadline_has_no_remaining_time():
    assert Deadline(asyncio.get_running_loop()).clear() is None


async def test_deadline_restarts_after_clear():
    assert await elapsed(start(0.001, "a"), lambda deadline, _: deadline.clear(), start(0.01, "b")) == ["b"]


async def test_no_limit_is_infinity():
    assert await elapsed(start(float("inf"), "never")) == []
