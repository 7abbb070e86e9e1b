"""Ending sessions in the admin: audited first, then deleted in the store and, immediately, in the admin's table."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from asgiref.sync import async_to_sync
from django.http import HttpRequest

from databroker.audit_log import AuditAction, record_actions, session_label
from databroker.broker_client import page_context
from databroker.end_sessions import end_sessions, live_linked_session_ids, session_ids_for_user
from databroker.models import Session, User
from foundation.errors import BrokerError

BATCH_SIZE = 500
# Maximum time in seconds that an administrator waits for the page.  Repeating the action ends the remaining sessions.
TIMEOUT = 15.0


@dataclass(slots=True)
class EndSessionsAction:
    """Action of an administrator, limited to `timeout` seconds."""

    request: HttpRequest
    clock: Callable[[], float] = time.monotonic
    timeout: float = TIMEOUT
    ended: int = 0
    is_complete: bool = True
    _deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self._deadline = self.clock() + self.timeout

    def end_sessions(self, ids: Iterable[str]) -> None:
        """End sessions and count them in `ended`.  Raises BrokerError; `ended` then has the number so far."""
        remaining = list(ids)
        for start in range(0, len(remaining), BATCH_SIZE):
            if self._has_timed_out():
                return
            self._end(remaining[start : start + BATCH_SIZE])

    def end_all_sessions(self, user_ids: Iterable[str]) -> None:
        """End all sessions of these users, including sessions without a row yet."""
        users = {id for id in user_ids if id}
        if not users:
            return
        names = {user.pk: str(user) for user in User.objects.filter(pk__in=users)}
        targets = [(id, names.get(id, id)) for id in sorted(users)]
        record_actions(self.request, AuditAction.END_ALL_SESSIONS, targets, User)
        try:
            for id, _ in targets:
                if self._has_timed_out():
                    break
                self.end_sessions(async_to_sync(session_ids_for_user)(page_context(self.request).broker, id))
        except BrokerError:
            record_actions(self.request, AuditAction.END_ALL_SESSIONS.failure, targets, User)
            raise
        if not self.is_complete:
            record_actions(self.request, AuditAction.END_ALL_SESSIONS.failure, targets, User)

    def _has_timed_out(self) -> bool:
        if self.clock() >= self._deadline:
            self.is_complete = False
        return not self.is_complete

    def _end(self, chosen: Sequence[str]) -> None:
        broker = page_context(self.request).broker
        ids = list(dict.fromkeys([*async_to_sync(live_linked_session_ids)(broker, chosen), *chosen]))
        names = {row.pk: session_label(row) for row in Session.objects.select_related("user").filter(pk__in=ids)}
        # Audit first, so that an action that cannot be logged is not performed.
        record_actions(self.request, AuditAction.END_SESSION, [(id, names.get(id, id)) for id in ids], Session)
        deleted: list[str] = []
        try:
            async_to_sync(end_sessions)(broker, chosen, deleted)
        except BrokerError:
            done = set(deleted)
            record_actions(
                self.request, AuditAction.END_SESSION.failure, [(id, names.get(id, id)) for id in ids if id not in done], Session
            )
            raise
        finally:
            self.ended += len(deleted)
            # Deleted here because the next page may be displayed before the projection deletes them.
            Session.rows.filter(pk__in=deleted).delete()
