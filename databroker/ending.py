"""How does the admin end sessions?  In the store, which is the truth; their rows go at once, and the audit log tells of each."""

from collections.abc import Iterable, Sequence

from asgiref.sync import async_to_sync
from django.http import HttpRequest

from databroker.audit import ENDED, name_of, record_actions
from databroker.client import BrokerClient
from databroker.models import Session, User
from databroker.records import SESSION

AT_ONCE = 500


def end_sessions(request: HttpRequest, ids: Iterable[str]) -> int:
    """How many were ended.  Raises BrokerError where the broker fails; those that have ended by then are told of all the same."""
    left = list(ids)
    for start in range(0, len(left), AT_ONCE):
        _end(request, left[start : start + AT_ONCE])
    return len(left)


def end_all_sessions(request: HttpRequest, user_ids: Iterable[str]) -> int:
    """All sessions of these people, also those so young that they have no row yet."""
    people = {id for id in user_ids if id}
    number = end_sessions(request, async_to_sync(_sessions_of)(request.scope["gate"].broker, people))
    names = {user.pk: str(user) for user in User.objects.filter(pk__in=people)}
    record_actions(request, "ended all sessions of this person", [(id, names.get(id, id)) for id in sorted(people)], User)
    return number


def _end(request: HttpRequest, ids: Sequence[str]) -> None:
    names = {row.pk: name_of(row) for row in Session.objects.select_related("user").filter(pk__in=ids)}
    ended: list[str] = []
    try:
        async_to_sync(_delete)(request.scope["gate"].broker, ids, ended)
    finally:
        record_actions(request, ENDED, [(id, names.get(id, id)) for id in ended], Session)
        # The projection would remove them a moment later, but the next page is shown before.
        Session.objects.filter(pk__in=ended).delete()


async def _delete(broker: BrokerClient, ids: Sequence[str], ended: list[str]) -> None:
    """`ended` grows with each, so that it is right also where the broker fails halfway."""
    for id in ids:
        await broker.delete(SESSION, id)
        ended.append(id)


async def _sessions_of(broker: BrokerClient, people: set[str]) -> list[str]:
    found: list[str] = []
    after = ""
    while page := await broker.page(SESSION, after, AT_ONCE):
        found += [record.id for record in page if record.data.get("user_id") in people]
        after = page[-1].id
    return found
