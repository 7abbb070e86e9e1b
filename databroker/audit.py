"""Who did what in the admin?  Each action is a row that the admin shows and nobody can change there, and a line in the log."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import structlog
from django.contrib.admin.models import CHANGE, DELETION
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone

from databroker.models import AuditEntry, Session, User

log = structlog.get_logger(__name__)

# Written before it is done, so that nothing is done untold; what then fails is told of, too.
ENDS = "ends the session"
ENDS_ALL = "ends all sessions of this person"
NOT_ENDED = "could not end the session"
NOT_ENDED_ALL = "could not end all sessions of this person"
# Anybody who is signed in can knock at the admin's door as often as they like; their row is written once in this time.
STRANGERS_PAUSE = timedelta(minutes=1)
# The owner of rows about people who have no account in the admin: it can't sign in.
STRANGER = "not-an-administrator"


def record_action(request: HttpRequest, message: str, *, object_repr: str, object_id: str = "") -> None:
    """`message` says what was done ("entered the admin"), `object_repr` to what or whom, for people; `object_id` for programs."""
    record_actions(request, message, [(object_id, object_repr)])


def record_actions(request: HttpRequest, message: str, objects: Iterable[tuple[str, str]], model: type[Model] | None = None) -> None:
    """As `record_action` for several (id, name), which are rows of `model`."""
    actor = _actor(request)
    kind = None if model is None else ContentType.objects.get_for_model(model)
    flag = DELETION if message == ENDS else CHANGE
    entries = [
        AuditEntry(user=actor, content_type=kind, object_id=id, object_repr=name[:200], action_flag=flag, change_message=message)
        for id, name in objects
    ]
    for entry in entries:
        log.info("admin action", action=message, object=entry.object_repr, object_id=entry.object_id, by=who(actor))
    if actor.get_username() == STRANGER:
        entries = [entry for entry in entries if not _is_repeated(entry)]
    AuditEntry.objects.bulk_create(entries, batch_size=100)


def who(account: Any) -> str:
    """An administrator as people know them: accounts made by single sign-on have names that say nothing."""
    return account.email or account.first_name or account.get_username()


def name_of(session: Session) -> str:
    """The session in words that still say something when it is gone."""
    person = user_of(session) or session.user_id or "an unknown person"
    return f"{person}, from {session.client_address or 'an unknown address'}"


def user_of(session: Session) -> User | None:
    """None also where the session names a user of whom there is no record."""
    try:
        return session.user
    except User.DoesNotExist:
        return None


def _actor(request: HttpRequest) -> Any:
    if request.user.is_authenticated:
        return request.user
    model = get_user_model()
    account, is_new = model.objects.get_or_create(username=STRANGER, defaults={"is_active": False})
    if is_new:
        account.set_unusable_password()
        account.save()
    return account


def _is_repeated(entry: AuditEntry) -> bool:
    same = {"user": entry.user, "object_id": entry.object_id, "object_repr": entry.object_repr, "change_message": entry.change_message}
    return AuditEntry.objects.filter(**same, action_time__gt=timezone.now() - STRANGERS_PAUSE).exists()
