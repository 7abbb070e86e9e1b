"""Idle timeout of a tunnel: neither end has said anything for too long."""

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Idle timer; `most` is in seconds, None for ever.  `is_hindered`: an end can't say anything now, so time does not count."""

    __slots__ = ("_begins", "_cut", "_is_hindered", "_loop", "_most", "_timer")

    def __init__(self, most: float | None, is_hindered: Callable[[], bool], cut: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._most, self._is_hindered, self._cut = most, is_hindered, cut
        self._begins = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self.hear()
        if self._most is not None:
            self._timer = self._loop.call_later(self._most, self._look, self._most)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def hear(self) -> None:
        """Note activity; called with each piece, so it only looks at the clock; the timer does the rest."""
        self._begins = self._loop.time()

    def _look(self, most: float) -> None:
        if self._is_hindered():
            self.hear()
        left = self._begins + most - self._loop.time()
        if left <= 0:
            self._cut()
        else:
            self._timer = self._loop.call_later(left, self._look, most)
