"""Idle timeout of a tunnel, for when neither side sends anything."""

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Timer that calls `on_idle` after `timeout` seconds without activity; None disables it.

    While `is_blocked` returns true, a side cannot send, so the time does not count.
    """

    __slots__ = ("_idle_since", "_is_blocked", "_loop", "_on_idle", "_timeout", "_timer")

    def __init__(self, timeout: float | None, is_blocked: Callable[[], bool], on_idle: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout, self._is_blocked, self._on_idle = timeout, is_blocked, on_idle
        self._idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.touch()
        if self._timeout is not None:
            self._timer = self._loop.call_later(self._timeout, self._on_timer, self._timeout)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def touch(self) -> None:
        """Record activity. It only reads the clock, because it is called for each chunk."""
        self._idle_since = self._loop.time()

    def _on_timer(self, timeout: float) -> None:
        if self._is_blocked():
            self.touch()
        remaining = self._idle_since + timeout - self._loop.time()
        if remaining <= 0:
            self._on_idle()
        else:
            self._timer = self._loop.call_later(remaining, self._on_timer, timeout)
