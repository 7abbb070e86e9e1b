"""Ending sessions from the admin: written into the audit log first, then in the store, which is the truth; their rows go at once."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from asgiref.sync import async_to_sync
from django.http import HttpRequest

from databroker.audit_log import AuditAction, record_actions, session_label
from databroker.broker_client import page_context
from databroker.end_sessions import end_sessions, session_ids_for_user, superseded_by
from databroker.models import Session, User
from foundation.errors import BrokerError

BATCH_SIZE = 500
# An administrator waits for the page no longer than this; what is left then is ended by asking again.
TIMEOUT = 15.0


@dataclass(slots=True)
class EndSessionsAction:
    """One action of an administrator: at most `timeout` seconds of it."""

    request: HttpRequest
    clock: Callable[[], float] = time.monotonic
    timeout: float = TIMEOUT
    ended: int = 0
    is_complete: bool = True
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.timeout

    def end_sessions(self, ids: Iterable[str]) -> None:
        """End these; BrokerError where the broker fails; `ended` counts those that had ended by then."""
        left = list(ids)
        for start in range(0, len(left), BATCH_SIZE):
            if self._has_timed_out():
                return
            self._end(left[start : start + BATCH_SIZE])

    def end_all_sessions(self, user_ids: Iterable[str]) -> None:
        """End all sessions of these people, also those that have no row yet."""
        people = {id for id in user_ids if id}
        if not people:
            return
        names = {user.pk: str(user) for user in User.objects.filter(pk__in=people)}
        whom = [(id, names.get(id, id)) for id in sorted(people)]
        record_actions(self.request, AuditAction.END_ALL_SESSIONS, whom, User)
        try:
            for id, _ in whom:
                if self._has_timed_out():
                    break
                self.end_sessions(async_to_sync(session_ids_for_user)(page_context(self.request).broker, id))
        except BrokerError:
            record_actions(self.request, AuditAction.END_ALL_SESSIONS.failure, whom, User)
            raise
        if not self.is_complete:
            record_actions(self.request, AuditAction.END_ALL_SESSIONS.failure, whom, User)

    def _has_timed_out(self) -> bool:
        if self.clock() >= self._until:
            self.is_complete = False
        return not self.is_complete

    def _end(self, chosen: Sequence[str]) -> None:
        broker = page_context(self.request).broker
        ids = list(dict.fromkeys([*async_to_sync(superseded_by)(broker, chosen), *chosen]))
        names = {row.pk: session_label(row) for row in Session.objects.select_related("user").filter(pk__in=ids)}
        # First the log: what can't be told of must not be done.
        record_actions(self.request, AuditAction.END_SESSION, [(id, names.get(id, id)) for id in ids], Session)
        over: list[str] = []
        try:
            async_to_sync(end_sessions)(broker, chosen, over)
        except BrokerError:
            done = set(over)
            record_actions(
                self.request, AuditAction.END_SESSION.failure, [(id, names.get(id, id)) for id in ids if id not in done], Session
            )
            raise
        finally:
            self.ended += len(over)
            # The projection would remove them a moment later, but the next page is shown before.
            Session.rows.filter(pk__in=over).delete()
