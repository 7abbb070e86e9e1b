"""Log lines that strangers cause: so many a second, and one that counts the others."""

import time
from collections.abc import Callable
from typing import Any

import structlog

log = structlog.get_logger(__name__)

MAX_LINES = 10  # of one kind, in each second
SUPPRESSED = "log lines were suppressed"


class BoundedLog:
    """Log of one kind of event.  Of those beyond the bound the next second's first line is preceded by their count."""

    def __init__(self, event: str, *, level: str = "warning", clock: Callable[[], float] = time.monotonic):
        self._event, self._level = event, level
        self._clock = clock
        self._second = 0.0
        self._lines = self._suppressed = 0

    def tell(self, **fields: Any) -> None:
        now = self._clock()
        if now - self._second >= 1.0:
            self._tell_suppressed()
            self._second, self._lines = now, 0
        if self._lines < MAX_LINES:
            self._lines += 1
            getattr(log, self._level)(self._event, **fields)
        else:
            self._suppressed += 1

    def _tell_suppressed(self) -> None:
        if self._suppressed:
            getattr(log, self._level)(SUPPRESSED, of=self._event, lines=self._suppressed)
            self._suppressed = 0
