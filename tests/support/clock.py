"""A clock that tests control."""

import pytest

NOW = 1_700_000_000.0  # in the past, because servers use the system clock


class Clock:
    """The clock, in Unix seconds."""

    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()
