"""Deadline that moves with each request without a new timer in the event loop."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Timer that runs the callback of the last `start`, unless it is restarted or cleared before."""

    __slots__ = ("_callback", "_due", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._callback: Callable[[], None] | None = None

    def start(self, seconds: float, callback: Callable[[], None]) -> None:
        self._due, self._callback = self._loop.time() + seconds, callback
        if self._timer is not None:
            # A timer that fires too early re-arms itself, which is cheaper than a new timer per request.
            if self._timer.when() <= self._due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due, self._on_timer)

    def clear(self) -> float | None:
        """Stop, and return the seconds that were left, or None if it was not running."""
        due, self._due, self._callback = self._due, None, None
        return None if due is None else max(0.0, due - self._loop.time())

    def close(self) -> None:
        self.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self._due is None or self._callback is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._on_timer)
            return
        callback, self._due, self._callback = self._callback, None, None
        callback()
