"""Session activity: when each session was last seen, and where; gathered in memory, written down every few seconds, or every minute where
many come.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog
from asgiref.sync import sync_to_async

from foundation.errors import BrokerError

log = structlog.get_logger(__name__)

INTERVAL = 3.0
# Writing takes no more of the time than this, so that requests do not feel it: the more have come, the longer the pause.
MAX_TIME_SHARE = 1 / 30
MAX_INTERVAL = 60.0
MAX_SESSIONS = 100_000
# A session's row comes a moment after the session; what has none after this many seconds has ended.
MAX_ROW_WAIT = 2 * MAX_INTERVAL

# Who comes with a token of a provider has no session, and no row.
SKIPPED_PREFIX = "bearer/"

# Session id -> (Unix seconds, host of the route).
Seen = Mapping[str, tuple[float, str]]


class LastSeenBuffer:
    """Buffer of what was seen.  `write` is called in a thread; it returns the ids that have no row (yet) and raises BrokerError where it
    can't write.
    """

    def __init__(
        self,
        write: Callable[[Seen], set[str]],
        *,
        clock: Callable[[], float] = time.time,
        interval: float = INTERVAL,
        max_sessions: int = MAX_SESSIONS,
    ):
        self._write = write
        self._clock = clock
        self._interval = interval
        self._max_sessions = max_sessions
        self._seen: dict[str, tuple[float, str]] = {}

    def __repr__(self) -> str:
        return f"<Activity {len(self._seen)} to write>"

    def record(self, session_id: str, now: float, route_host: str) -> None:
        """Note a session; called for every request: one entry in a dict, and nothing for new sessions beyond the bound."""
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
        """Write what was seen since the last time; what could not be written waits for the next."""
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
    """Seconds until the next writing, after one that took so long."""
    return min(max(min_interval, seconds / MAX_TIME_SHARE), MAX_INTERVAL)
