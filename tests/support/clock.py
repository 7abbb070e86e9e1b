"""Time that passes when a test says so."""

import pytest

NOW = 1_700_000_000.0  # in the past: servers have a clock of their own


class Clock:
    """Unix seconds."""

    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()
