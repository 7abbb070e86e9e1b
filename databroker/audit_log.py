"""Audit log: each action is an append-only row that the admin displays, and a log event."""

import csv
import re
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

import structlog
from asgiref.sync import sync_to_async
from django.db import Error, connection
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone

from config.provider_config import ProviderConfig
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.broker_client import page_context
from databroker.claims import verified_email
from databroker.models import AuditEntry, ConnectedAccount, Session, User
from databroker.records import SessionRecord
from foundation.email_address import unambiguous_name
from foundation.errors import GateError
from foundation.web.plain_text import sanitize_text

log = structlog.get_logger(__name__)

Providers: TypeAlias = Mapping[str, ProviderConfig]
SCIM_ACTOR = "the provider (SCIM)"
# Key of Django's session for the id of the user who entered the admin by single sign-on.
USER_ID_KEY = "gate_user"
# Start of a formula in a cell, or after a semicolon, tab or line break, because some spreadsheets split cells there, even in quotes.
_FORMULA = re.compile(r"""(^|[;\t\r\n])(?=[\s"']*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r])""")
# Any signed-in user can request the admin repeatedly; each refusal is written at most once in this time.
ANONYMOUS_INTERVAL = timedelta(minutes=1)
AUDIT_COLUMNS = ("occurred_at", "actor", "actor_kind", "actor_id", "client_address", "action", "object_type", "object_id", "object_repr")


class AuditAction(StrEnum):
    """Action in the audit log, recorded before it is performed; `failure` is recorded if it then fails."""

    failure: str

    def __new__(cls, text: str, failure: str = "") -> "AuditAction":
        action = str.__new__(cls, text)
        action._value_ = text
        action.failure = failure
        return action

    END_SESSION = "ends the session", "could not end the session"
    END_ALL_SESSIONS = "ends all sessions of this user", "could not end all sessions of this user"
    END_OLDEST_SESSION = "signs in at the session limit, which ends the oldest session"
    AUTHORIZE_AGENT = "authorizes an agent"
    REVOKE_AGENT = "revokes the authorization of an agent"
    CONNECT_SERVER = "connects an account at the MCP server"
    DISCONNECT_SERVER = "disconnects the account at the MCP server", "could not disconnect the account at the MCP server"
    ISSUE_TOKEN = "gets an access token"  # noqa: S105 - an action
    REVOKE_TOKEN = "revokes an access token"  # noqa: S105
    GRANT_ACCESS = "grants temporary access", "could not grant temporary access"
    REVOKE_ACCESS = "revokes temporary access", "could not revoke temporary access"
    REQUEST_ACCESS = "requests access", "could not request access"
    APPROVE_REQUEST = "approves an access request", "could not approve an access request"
    DENY_REQUEST = "denies an access request", "could not deny an access request"
    WITHDRAW_REQUEST = "withdraws an access request", "could not withdraw an access request"
    BREAK_GLASS = "uses break-glass access", "could not use break-glass access"
    CREATE_ACCOUNT = "creates the service account", "could not change the service account"
    ROTATE_ACCOUNT = "rotates the secret of the service account", "could not change the service account"
    REVOKE_ACCOUNT = "revokes the service account", "could not change the service account"


class ActorKind(StrEnum):
    """Kind of an actor, as displayed in the audit log."""

    USER = "user"
    PASSWORD = "account with a password"  # noqa: S105 - a kind of account of the admin
    SERVICE_ACCOUNT = "service account"
    COMMAND_LINE = "command line"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class Actor:
    """Actor of an audit entry: `id` is unique, `name` is for display."""

    kind: ActorKind
    id: str
    name: str


class AuditLogUnavailable(GateError):
    """The audit log cannot be written, so the action must not be performed."""

    status = 503


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Audit log of one actor.  With `fields`, each entry is also a log event with these fields."""

    actor: Actor
    address: str
    clock: Callable[[], float] = time.time
    fields: Mapping[str, str] = field(default_factory=dict)

    async def record(self, action: str, model: type[Model], objects: Iterable[tuple[str, str]]) -> None:
        """Write an entry for each (id, name) of `model`.  Raises AuditLogUnavailable."""
        now, kind = self.clock(), str(model._meta.verbose_name)
        texts = {"client_address": self.address, "action": action, "object_type": kind}
        entries = [_build_entry(self.actor, now, **texts, object_id=id, object_repr=text) for id, text in objects]
        try:
            await sync_to_async(AuditEntry.objects.bulk_create)(entries, batch_size=100)
        except Error as error:
            log.error("audit log write failed", action=str(action), actor_id=self.actor.id, reason=str(error).partition("\n")[0])
            raise AuditLogUnavailable("audit log write failed") from error
        for entry in entries if self.fields else ():
            event_fields = {"action": entry.action, "object": entry.object_repr, "object_id": entry.object_id, **self.fields}
            if self.actor.kind is ActorKind.SERVICE_ACCOUNT:
                log.info("api action", **event_fields)
            else:
                log.info("admin action", **event_fields)

    @asynccontextmanager
    async def step(self, action: AuditAction, model: type[Model], objects: Collection[tuple[str, str]]) -> AsyncGenerator[None]:
        """Record an action, run the block, and record its failure if the block raises a GateError.

        `objects` is read again for the failure.  Raises AuditLogUnavailable before the block runs if the log cannot be written.
        """
        await self.record(action, model, objects)
        try:
            yield
        except GateError:
            with suppress(AuditLogUnavailable):  # already logged by `record`
                await self.record(action.failure, model, objects)
            raise


def user_actor(session: SessionRecord, providers: Providers) -> Actor:
    """Return the user of a session, with the name from the claims of the sign-in."""
    return Actor(ActorKind.USER, session.user_id, name_in_claims(session.user_id, session.claims, providers))


def administrator(request: HttpRequest) -> Actor:
    """Return the administrator of a request, signed in by single sign-on or with a password."""
    account, user_id = request.user, request.session.get(USER_ID_KEY)
    if user_id is None:
        return Actor(ActorKind.PASSWORD, account.get_username(), account.get_username())
    return Actor(ActorKind.USER, user_id, unambiguous_name(account.email, account.first_name, user_id))


def administrator_log(request: HttpRequest) -> AuditLog:
    """Return the audit log of the administrator of a request."""
    actor, address = administrator(request), page_context(request).client_address
    fields = {"actor": actor.name, "actor_kind": actor.kind.value, "actor_id": actor.id, "client_address": address}
    return AuditLog(actor, address, fields=fields)


def service_account_log(account: str, address: str, clock: Callable[[], float], request_id: str) -> AuditLog:
    """Return the audit log of a service account that calls the API."""
    actor = Actor(ActorKind.SERVICE_ACCOUNT, f"service_account/{account}", f"{account} (API)")
    return AuditLog(actor, address, clock, {"actor_id": actor.id, "request_id": request_id})


def record_action(
    request: HttpRequest, message: str, *, object_repr: str, object_id: str = "", non_administrator: Actor | None = None
) -> None:
    """Record one action.

    `message` is the action ("entered the admin"), `object_repr` the name of its object and `object_id` the object's id.
    `non_administrator` is the actor if the admin refused them.
    """
    record_actions(request, message, [(object_id, object_repr)], non_administrator=non_administrator)


def record_actions(
    request: HttpRequest,
    message: str,
    objects: Iterable[tuple[str, str]],
    model: type[Model] | None = None,
    *,
    non_administrator: Actor | None = None,
) -> None:
    """Record one action on each (id, name) of `model`."""
    actor, address = non_administrator or administrator(request), page_context(request).client_address
    kind = "" if model is None else str(model._meta.verbose_name)
    entries = [
        _build_entry(actor, client_address=address, action=message, object_type=kind, object_id=id, object_repr=text)
        for id, text in objects
    ]
    for entry in entries:
        event_fields = {"action": entry.action, "object": entry.object_repr, "object_id": entry.object_id}
        actor_fields = {"actor": entry.actor, "actor_kind": entry.actor_kind, "actor_id": entry.actor_id}
        log.info("admin action", **event_fields, **actor_fields, client_address=address)
    if non_administrator is not None:
        entries = [entry for entry in entries if not _is_repeated(entry)]
    AuditEntry.objects.bulk_create(entries, batch_size=100)


def record_command(username: str, message: str, name: str, model: type[Model], description: str = "") -> None:
    """Record an action of a command.  `username` is its operating-system user; `description` describes the object better than its `name`.

    Logs no event, because a command reports on its terminal.  Closes the connection of the calling thread.
    """
    actor = Actor(ActorKind.COMMAND_LINE, username, f"{username} (command line)")
    try:
        _build_entry(
            actor, action=message, object_type=str(model._meta.verbose_name), object_id=name, object_repr=description or name
        ).save()
    finally:
        connection.close()


def scim_entry(moment: float, address: str, action: str, kind: str, id: str, object_repr: str, provider: str = "") -> AuditEntry:
    """Build the entry of a SCIM change at `moment` (Unix seconds).  The caller saves it after the change.

    `provider` is the id of the provider if several are configured.
    """
    actor = Actor(ActorKind.PROVIDER, provider or "scim", f"{provider}: {SCIM_ACTOR}" if provider else SCIM_ACTOR)
    return _build_entry(actor, moment, client_address=address, action=action, object_type=kind, object_id=id, object_repr=object_repr)


def session_entry(
    moment: float, actor_session: SessionRecord, providers: Providers, address: str, action: str, session: SessionRecord | None = None
) -> AuditEntry:
    """Build the entry of a user's action on one of their sessions, or on all of them without `session`.

    The caller saves it after the action.
    """
    actor = user_actor(actor_session, providers)
    if session is None:
        kind, id, object_repr = User._meta.verbose_name, actor_session.user_id, actor.name
    else:
        kind, id, object_repr = (
            Session._meta.verbose_name,
            session.id,
            f"{actor.name}, from {session.client_address or 'an unknown address'}",
        )
    return _build_entry(actor, moment, client_address=address, action=action, object_type=str(kind), object_id=id, object_repr=object_repr)


def connection_entry(
    moment: float, session: SessionRecord, providers: Providers, address: str, action: AuditAction, resource: str, name: str
) -> AuditEntry:
    """Build the entry of a user's action on the connection to a third-party MCP server.  The caller saves it after the action."""
    texts = {"client_address": address, "action": action, "object_type": "MCP server", "object_id": resource, "object_repr": name}
    return _build_entry(user_actor(session, providers), moment, **texts)


def account_token_entry(moment: float, account: str, resource: str, address: str, action: AuditAction) -> AuditEntry:
    """Build the entry of a service account's action on its access token for a resource."""
    id = f"{PROVIDER}/{account}"
    texts = {"client_address": address, "action": action, "object_type": "access token"}
    return _build_entry(Actor(ActorKind.SERVICE_ACCOUNT, id, account), moment, **texts, object_id=resource, object_repr=resource)


def name_in_claims(user_id: str, claims: Mapping[str, Any], providers: Providers) -> str:
    """Return an unambiguous name for a user: the verified email, else the name claim, else the user id."""
    name = claims.get("name")
    return unambiguous_name(verified_email(user_id, claims, providers), name if isinstance(name, str) else "", user_id)


def _build_entry(actor: Actor, moment: float | None = None, **texts: str) -> AuditEntry:
    """Build an entry at `moment` (Unix seconds; default now), with texts truncated to their columns.

    Names come from outside gate, so characters that databases reject or that change the direction of text are replaced.
    """
    occurred_at = timezone.now() if moment is None else datetime.fromtimestamp(moment, UTC)
    texts |= {"actor": actor.name, "actor_kind": actor.kind.value, "actor_id": actor.id}
    lengths = {field.name: getattr(field, "max_length", None) for field in AuditEntry._meta.fields}
    return AuditEntry(occurred_at=occurred_at, **{name: sanitize_text(text)[: lengths[name]] for name, text in texts.items()})


def csv_lines(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield CSV lines (RFC 4180) with every cell quoted.

    Formulas are escaped, because names and addresses come from outside gate.
    """
    writer = csv.writer(_EchoWriter(), quoting=csv.QUOTE_ALL)
    yield writer.writerow(names)
    for row in rows:
        yield writer.writerow([_escape_formula(value) for value in row])


class _EchoWriter:
    """File object whose `write` returns the line."""

    def write(self, line: str) -> str:
        return line


def _escape_formula(value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return _FORMULA.sub(r"\1'", text)


def session_label(session: Session) -> str:
    """Return a label for a session that remains meaningful after the session ends."""
    user_name = row_user(session) or session.user_id or "an unknown user"
    return f"{user_name}, from {session.client_address or 'an unknown address'}"


def row_user(row: Session | ConnectedAccount) -> User | None:
    """Return the user of a row, or None if the row names none or the user has no row."""
    try:
        return row.user
    except User.DoesNotExist:
        return None


def _is_repeated(entry: AuditEntry) -> bool:
    filters = {"actor_id": entry.actor_id, "object_id": entry.object_id, "object_repr": entry.object_repr, "action": entry.action}
    return AuditEntry.objects.filter(**filters, occurred_at__gt=timezone.now() - ANONYMOUS_INTERVAL).exists()
