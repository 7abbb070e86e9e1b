"""A forked function gives its result, and no other process waits longer for it than it may."""

import os
import time

import pytest

from tests.mutants.forked import Ended, in_fork


def test_a_result_comes_from_another_process() -> None:
    assert in_fork(os.getpid, seconds=30) != os.getpid()


@pytest.mark.parametrize(
    ("function", "argument", "problem"),
    [(time.sleep, 60, "not finished"), (os._exit, 0, "without a result"), (int, "no number", "without a result")],
)
def test_function_without_result_raises(function: object, argument: object, problem: str) -> None:
    with pytest.raises(Ended, match=problem):
        in_fork(function, argument, seconds=1 if problem == "not finished" else 30)
