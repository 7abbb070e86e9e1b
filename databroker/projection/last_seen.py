"""Session activity: the last use of each session and its host, buffered in memory and written every few seconds.

Under high load the interval grows up to a minute.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog
from asgiref.sync import sync_to_async

from foundation.errors import BrokerError

log = structlog.get_logger(__name__)

INTERVAL = 3.0
# Maximum share of the time spent writing, so that requests are not delayed: the interval grows with the duration of a write.
MAX_TIME_SHARE = 1 / 30
MAX_INTERVAL = 60.0
MAX_BUFFERED_SESSIONS = 100_000
# The row of a new session appears after a short delay.  A session without a row after this many seconds has ended.
MAX_ROW_WAIT = 2 * MAX_INTERVAL

# Requests with a provider's bearer token have no session and no row.
SKIPPED_PREFIX = "bearer/"

# Session id -> (Unix seconds, host of the route).
Seen = Mapping[str, tuple[float, str]]


class LastSeenBuffer:
    """Buffer of session activity.

    `write` is called in a thread.  It returns the ids without a row, and raises BrokerError if it cannot write.
    """

    def __init__(
        self,
        write: Callable[[Seen], set[str]],
        *,
        clock: Callable[[], float] = time.time,
        interval: float = INTERVAL,
        max_sessions: int = MAX_BUFFERED_SESSIONS,
    ):
        self._write = write
        self._clock = clock
        self._interval = interval
        self._max_sessions = max_sessions
        self._seen: dict[str, tuple[float, str]] = {}

    def __repr__(self) -> str:
        return f"<Activity {len(self._seen)} to write>"

    def record(self, session_id: str, now: float, route_host: str) -> None:
        """Record the use of a session, on every request.  Ignores further sessions if the buffer is full."""
        if session_id.startswith(SKIPPED_PREFIX):
            return
        if session_id in self._seen or len(self._seen) < self._max_sessions:
            self._seen[session_id] = (now, route_host)

    async def run(self) -> None:
        pause = self._interval
        while True:
            await asyncio.sleep(pause)
            started_at = time.monotonic()
            await self.flush()
            pause = next_interval(time.monotonic() - started_at, self._interval)

    async def flush(self) -> None:
        """Write the buffered activity.  Activity that could not be written is retained for the next time."""
        if not self._seen:
            return
        seen, self._seen = self._seen, {}
        unwritten: set[str] = set(seen)
        try:
            unwritten = await sync_to_async(self._write)(seen)
        except BrokerError as error:
            log.warning("saving session activity failed", reason=str(error))
        oldest = self._clock() - MAX_ROW_WAIT
        for id in unwritten:
            if seen[id][0] > oldest and id not in self._seen:
                self.record(id, *seen[id])


def next_interval(seconds: float, min_interval: float) -> float:
    """Return the seconds until the next write, after one that took `seconds`."""
    return min(max(min_interval, seconds / MAX_TIME_SHARE), MAX_INTERVAL)
