"""Audit log: each action is a row that the admin shows and nobody can change there, and a line in the log."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import structlog
from django.db import connection
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone

from config.identity_provider import ConfiguredProvider, told_email
from databroker.models import AuditEntry, Session, User
from databroker.page_context import page_context
from databroker.records import SessionRecord
from foundation.email_address import shown_name

log = structlog.get_logger(__name__)

Providers: TypeAlias = Mapping[str, ConfiguredProvider]
# Written before it is done, so that nothing is done untold; what then fails is told of, too.
ENDS = "ends the session"
ENDS_ALL = "ends all sessions of this person"
ENDS_OLDEST = "signs in at the limit of sessions, which ends the oldest one"
NOT_ENDED = "could not end the session"
NOT_ENDED_ALL = "could not end all sessions of this person"
# Anybody who is signed in can knock at the admin's door as often as they like; their row is written once in this time.
STRANGERS_PAUSE = timedelta(minutes=1)
# Who acts where nobody is signed in to the admin.
STRANGER = "not an administrator"
PUSHED = "the provider (SCIM)"
BY_ITSELF = "gate"
AUDIT_COLUMNS = ("when", "who", "account", "address", "action", "object_type", "object_id", "object_words")


def record_action(request: HttpRequest, message: str, *, object_repr: str, object_id: str = "", stranger: str = STRANGER) -> None:
    """Record one action: `message` says what was done ("entered the admin"), `object_repr` to what or whom, for people; `object_id` for
    programs.

    `stranger` is who did it, where nobody is signed in to the admin.
    """
    record_actions(request, message, [(object_id, object_repr)], stranger=stranger)


def record_actions(
    request: HttpRequest, message: str, objects: Iterable[tuple[str, str]], model: type[Model] | None = None, *, stranger: str = STRANGER
) -> None:
    """Record one action on several (id, name), which are rows of `model`."""
    user, address, kind = request.user, page_context(request).client_address, "" if model is None else model._meta.verbose_name
    account, name = (user.get_username(), who(user)) if user.is_authenticated else ("", stranger)
    entries = [
        _entry(who=name, account=account, address=address, action=message, object_type=str(kind), object_id=id, object_words=words)
        for id, words in objects
    ]
    for entry in entries:
        log.info("admin action", action=message, object=entry.object_words, object_id=entry.object_id, by=name, client=address)
    if not account:
        entries = [entry for entry in entries if not _is_repeated(entry)]
    AuditEntry.objects.bulk_create(entries, batch_size=100)


def record_command(by: str, message: str, name: str, model: type[Model], words: str = "") -> None:
    """Record what `by` does with manage.py, whose own log is their terminal; `words` say to what, where its name says too little.

    It leaves no connection behind in the thread in which it is called.
    """
    kind, said = str(model._meta.verbose_name), {"who": f"{by} (command line)", "account": "command line", "action": message}
    try:
        _entry(**said, object_type=kind, object_id=name, object_words=words or name).save()
    finally:
        connection.close()


def pushed_entry(moment: float, address: str, action: str, kind: str, id: str, words: str, provider: str = "") -> AuditEntry:
    """Entry of a change that the provider, that one of several, made by SCIM at `moment` (Unix seconds), to be saved after it is done."""
    when, who = datetime.fromtimestamp(moment, UTC), f"{provider}: {PUSHED}" if provider else PUSHED
    return _entry(when=when, who=who, account="scim", address=address, action=action, object_type=kind, object_id=id, object_words=words)


def session_entry(
    moment: float, person: SessionRecord, providers: Providers, address: str, action: str, session: SessionRecord | None = None
) -> AuditEntry:
    """Entry of what a person did to a session of their own, or, without one, to all of theirs; to be saved after it is done."""
    when, name = datetime.fromtimestamp(moment, UTC), name_in_session(person, providers)
    if session is None:
        kind, id, words = User._meta.verbose_name, person.user_id, name
    else:
        kind, id, words = Session._meta.verbose_name, session.id, f"{name}, from {session.client_address or 'an unknown address'}"
    said = {"when": when, "who": name, "account": person.user_id, "address": address, "action": action}
    return _entry(**said, object_type=str(kind), object_id=id, object_words=words)


def access_entry(
    moment: float, person: SessionRecord, providers: Providers, address: str, action: str, user_id: str, words: str
) -> AuditEntry:
    """Entry of what a person does about somebody's access for a while, to be saved before it is done."""
    who = name_in_session(person, providers)
    said = {"when": datetime.fromtimestamp(moment, UTC), "who": who, "account": person.user_id, "address": address}
    return _entry(**said, action=action, object_type=str(User._meta.verbose_name), object_id=user_id, object_words=words)


def program_entry(
    moment: float, account: str, address: str, action: str, model: type[Model], object_id: str, object_words: str
) -> AuditEntry:
    """Entry of what a program does by the API, to be saved before it is done."""
    said = {"when": datetime.fromtimestamp(moment, UTC), "who": f"{account} (API)", "account": f"service_account/{account}"}
    kind = str(model._meta.verbose_name)
    return _entry(**said, address=address, action=action, object_type=kind, object_id=object_id, object_words=object_words)


def ended_entry(moment: float, action: str, user_id: str, words: str) -> AuditEntry:
    """Entry of what ends by itself at `moment` (Unix seconds)."""
    kind = str(User._meta.verbose_name)
    return _entry(
        when=datetime.fromtimestamp(moment, UTC),
        who=BY_ITSELF,
        account="gate",
        action=action,
        object_type=kind,
        object_id=user_id,
        object_words=words,
    )


def name_in_session(session: SessionRecord, providers: Providers) -> str:
    """Name of a session's person, as it was told at their sign-in: no address that is not their provider's to tell."""
    email, name = (said if isinstance(said := session.claims.get(claim), str) else "" for claim in ("email", "name"))
    return shown_name(told_email(email, session.user_id, providers), name, session.user_id)


def _entry(**said: Any) -> AuditEntry:
    """Entry whose texts are cut to what its columns hold."""
    lengths = {field.name: getattr(field, "max_length", None) for field in AuditEntry._meta.fields}
    return AuditEntry(**{name: value[: lengths[name]] if isinstance(value, str) else value for name, value in said.items()})


def who(account: Any) -> str:
    """An administrator's name for people: accounts made by single sign-on have names that say nothing."""
    return account.email or account.first_name or account.get_username()


def csv_lines(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """CSV lines (RFC 4180).  What a spreadsheet would take for a formula is written as text: names and addresses come from outside."""
    writer = csv.writer(_Line())
    yield writer.writerow(names)
    for row in rows:
        yield writer.writerow([_plain(value) for value in row])


class _Line:
    """A file that gives each written line back."""

    def write(self, line: str) -> str:
        return line


def _plain(value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def name_of(session: Session) -> str:
    """A session's name that still says something when it is gone."""
    person = user_of(session) or session.user_id or "an unknown person"
    return f"{person}, from {session.client_address or 'an unknown address'}"


def user_of(session: Session) -> User | None:
    """The user of a session; None also where there is no record of the one that it names."""
    try:
        return session.user
    except User.DoesNotExist:
        return None


def _is_repeated(entry: AuditEntry) -> bool:
    same = {"account": "", "object_id": entry.object_id, "object_words": entry.object_words, "action": entry.action}
    return AuditEntry.objects.filter(**same, when__gt=timezone.now() - STRANGERS_PAUSE).exists()
