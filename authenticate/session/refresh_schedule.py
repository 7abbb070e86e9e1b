"""Refresh schedule: a heap of due times, fed by the change stream; a tick looks at its top, never at all sessions."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from databroker.records import SessionRecord

EARLY = 60.0  # seconds before the access token expires
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class RefreshDue:
    """Times when the tokens are to be refreshed, and when the claims are to be read; Unix seconds."""

    tokens: float
    claims: float

    @property
    def first(self) -> float:
        return min(self.tokens, self.claims)


def tokens_due(session: SessionRecord) -> float:
    """Due time of the tokens: a minute before the access token expires, or halfway where it lives for less than two."""
    if not session.refresh_token or session.access_token_expires_at is None:
        return NEVER
    lifetime = session.access_token_expires_at - (session.tokens_received_at or session.issued_at)
    return _within(session, session.access_token_expires_at - min(EARLY, max(lifetime, 0) / 2))


def can_read_claims(session: SessionRecord, at: float) -> bool:
    """Whether claims can be read: without a refresh token nothing can be asked once the access token has expired."""
    if not session.access_token or at >= session.expires_at:
        return False
    return bool(session.refresh_token) or session.access_token_expires_at is None or at < session.access_token_expires_at


def _within(session: SessionRecord, due: float) -> float:
    return due if due < session.expires_at else NEVER


class RefreshSchedule:
    """The heap, an id and two times for each session.  `interval` lies between two readings of a session's claims, in seconds."""

    def __init__(self, interval: float, clock: Callable[[], float], chance: Callable[[], float] = random.random):
        self._interval = interval
        self._clock = clock
        self._chance = chance
        self._due: dict[str, RefreshDue] = {}
        self._heap: list[tuple[float, str]] = []

    def __repr__(self) -> str:
        return f"<RefreshSchedule {len(self._due)} sessions>"

    def __len__(self) -> int:
        return len(self._due)

    def saw(self, session: SessionRecord, modified: float) -> None:
        """Schedule a record that was written at `modified`: new, refreshed, or found at the start."""
        known = self._due.get(session.id)
        claims = known.claims if known is not None else self._first_reading(modified)
        self.set(session, RefreshDue(tokens_due(session), claims))

    def read(self, session: SessionRecord) -> None:
        """Schedule after the claims were read now."""
        self.set(session, RefreshDue(tokens_due(session), self._clock() + self._interval))

    def set(self, session: SessionRecord, due: RefreshDue) -> None:
        claims = due.claims if can_read_claims(session, due.claims) else NEVER
        due = RefreshDue(due.tokens, claims)
        if due.first == NEVER:
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
        """Unix seconds when the first is due, NEVER where none is."""
        while self._heap and self._is_stale(*self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def pop(self, now: float) -> tuple[str, RefreshDue] | None:
        """The first that is due by `now`.  It comes back by `set`, `read` or `saw`."""
        if self.next() > now:
            return None
        _, session_id = heappop(self._heap)
        return session_id, self._due.pop(session_id)

    def _first_reading(self, modified: float) -> float:
        """First reading of claims: after a pause of ours all would be due at once, so they are spread over the interval."""
        due, now = modified + self._interval, self._clock()
        return due if due > now else now + self._interval * self._chance()

    def _push(self, session_id: str, due: RefreshDue) -> None:
        heappush(self._heap, (due.first, session_id))
        # A session leaves an entry behind at each refresh.
        if len(self._heap) > 2 * len(self._due) + 1000:
            self._heap = [(due.first, id) for id, due in self._due.items()]
            heapify(self._heap)

    def _is_stale(self, first: float, session_id: str) -> bool:
        due = self._due.get(session_id)
        return due is None or due.first != first
