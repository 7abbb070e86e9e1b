"""Refresh schedule: a heap of due times, updated by the change stream, so that only due sessions are examined."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from databroker.records import SessionRecord

REFRESH_MARGIN = 60.0  # seconds before the access token expires
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class RefreshDue:
    """Times, in Unix seconds, when the tokens are due for refresh and the claims for reading."""

    tokens: float
    claims: float

    @property
    def next(self) -> float:
        return min(self.tokens, self.claims)


def tokens_due(session: SessionRecord) -> float:
    """Return when the tokens are due: a minute before the access token expires, or halfway if its lifetime is below two minutes."""
    if not session.refresh_token or session.access_token_expires_at is None:
        return NEVER
    lifetime = session.access_token_expires_at - (session.tokens_received_at or session.issued_at)
    return _within(session, session.access_token_expires_at - min(REFRESH_MARGIN, max(lifetime, 0) / 2))


def can_read_claims(session: SessionRecord, due_at: float) -> bool:
    """Return whether claims can be read at that time: without a refresh token, only until the access token expires."""
    if not session.access_token or due_at >= session.expires_at:
        return False
    return bool(session.refresh_token) or session.access_token_expires_at is None or due_at < session.access_token_expires_at


def _within(session: SessionRecord, due: float) -> float:
    return due if due < session.expires_at else NEVER


class RefreshSchedule:
    """The heap, with an id and two times per session. `interval` is the time in seconds between two reads of a session's claims."""

    def __init__(self, interval: float, clock: Callable[[], float], random_fraction: Callable[[], float] = random.random):
        self._interval = interval
        self._clock = clock
        self._random = random_fraction
        self._due: dict[str, RefreshDue] = {}
        self._heap: list[tuple[float, str]] = []

    def __repr__(self) -> str:
        return f"<RefreshSchedule {len(self._due)} sessions>"

    def __len__(self) -> int:
        return len(self._due)

    def on_session(self, session: SessionRecord, modified: float) -> None:
        """Schedule a session whose record was written at `modified`: new, refreshed, or loaded at the start."""
        known = self._due.get(session.id)
        claims = known.claims if known is not None else self._first_claims_read(modified)
        self.set(session, RefreshDue(tokens_due(session), claims))

    def on_claims_read(self, session: SessionRecord) -> None:
        """Schedule a session whose claims were just read."""
        self.set(session, RefreshDue(tokens_due(session), self._clock() + self._interval))

    def set(self, session: SessionRecord, due: RefreshDue) -> None:
        claims = due.claims if can_read_claims(session, due.claims) else NEVER
        due = RefreshDue(due.tokens, claims)
        if due.next == NEVER:
            self.forget(session.id)
        elif self._due.get(session.id) != due:
            self._due[session.id] = due
            self._push(session.id, due)

    def forget(self, session_id: str) -> None:
        self._due.pop(session_id, None)

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()

    def next(self) -> float:
        """Return when the next session is due, in Unix seconds; NEVER if there is none."""
        while self._heap and self._is_stale(*self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def pop(self, now: float) -> tuple[str, RefreshDue] | None:
        """Remove and return the next session that is due by `now`, or None. `set`, `on_claims_read` or `on_session` add it again."""
        if self.next() > now:
            return None
        _, session_id = heappop(self._heap)
        return session_id, self._due.pop(session_id)

    def _first_claims_read(self, modified: float) -> float:
        """Return the time of the first claims read. Overdue reads are spread over the interval, so that a restart causes no burst."""
        due, now = modified + self._interval, self._clock()
        return due if due > now else now + self._interval * self._random()

    def _push(self, session_id: str, due: RefreshDue) -> None:
        heappush(self._heap, (due.next, session_id))
        # Each refresh leaves a stale entry, so the heap is rebuilt from time to time.
        if len(self._heap) > 2 * len(self._due) + 1000:
            self._heap = [(due.next, id) for id, due in self._due.items()]
            heapify(self._heap)

    def _is_stale(self, first: float, session_id: str) -> bool:
        due = self._due.get(session_id)
        return due is None or due.next != first
