"""Audit log: every action is recorded once with its actor, and unauthenticated clients cannot fill it."""

import csv
from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone
from structlog.testing import capture_logs

from databroker.audit_log import (
    USER_ID_KEY,
    Actor,
    ActorKind,
    AuditAction,
    AuditLog,
    AuditLogUnavailable,
    administrator,
    csv_lines,
    record_action,
    record_command,
    service_account_log,
    session_entry,
    session_label,
)
from databroker.grants.grant_store import AccessError
from databroker.models import AuditEntry, Session, User
from databroker.records import SessionRecord
from foundation.errors import BrokerError
from tests.support.database import row
from tests.support.options import make_options
from tests.support.several_providers import several

pytestmark = pytest.mark.usefixtures("database")


BOB = Actor(ActorKind.USER, "oidc/bob", "bob@a.org")


def request_of(user: Any, user_id: str | None = None) -> HttpRequest:
    request: Any = HttpRequest()
    request.user, request.scope = user, {"gate": SimpleNamespace(client_address="192.0.2.9")}
    request.session = {} if user_id is None else {USER_ID_KEY: user_id}
    return request


def account(username: str = "sso-1234", **facts: Any) -> Any:
    return get_user_model().objects.create_user(username, **facts)


def test_an_action_is_a_row_and_a_line_in_the_log():
    ann = account(email="ann@a.org")
    with capture_logs() as logged:
        record_action(request_of(ann, "oidc/ann"), "opened the admin", object_repr="Ann", object_id="oidc/ann")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.actor_kind, entry.actor_id, entry.client_address) == ("ann@a.org", "user", "oidc/ann", "192.0.2.9")
    assert (entry.action, entry.object_repr, entry.object_id) == ("opened the admin", "Ann", "oidc/ann")
    did = {"action": "opened the admin", "object": "Ann", "object_id": "oidc/ann"}
    actor = {"actor": "ann@a.org", "actor_kind": "user", "actor_id": "oidc/ann", "client_address": "192.0.2.9"}
    expected = {"event": "admin action", **did, **actor}
    assert [{**entry, "log_level": ""} for entry in logged] == [{**expected, "log_level": ""}]


def test_a_name_longer_than_its_column_is_cut():
    record_action(request_of(account()), "opened the admin", object_repr="x" * 500)
    assert AuditEntry.objects.get().object_repr == "x" * 255


def test_client_without_account_is_audited_too():
    record_action(request_of(AnonymousUser()), "was refused", object_repr="bob@a.org", object_id="oidc/bob", non_administrator=BOB)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.actor_kind, entry.actor_id, entry.object_repr) == ("bob@a.org", "user", "oidc/bob", "bob@a.org")
    assert not get_user_model().objects.exists()


def test_repeated_unknown_client_does_not_fill_table():
    request = request_of(AnonymousUser())
    with capture_logs() as logged:
        for _ in range(20):
            record_action(request, "was refused", object_repr="bob@a.org", object_id="oidc/bob", non_administrator=BOB)
        record_action(request, "was refused", object_repr="eve@a.org", object_id="oidc/eve", non_administrator=replace(BOB, id="oidc/eve"))
    assert sorted(AuditEntry.objects.values_list("object_id", flat=True)) == ["oidc/bob", "oidc/eve"]
    assert len(logged) == 21


def test_returning_unknown_client_is_audited_again():
    request = request_of(AnonymousUser())
    record_action(request, "was refused", object_repr="bob@a.org", non_administrator=BOB)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE databroker_auditentry SET occurred_at = %s", [timezone.now() - timedelta(minutes=2)])
    record_action(request, "was refused", object_repr="bob@a.org", non_administrator=BOB)
    assert AuditEntry.objects.count() == 2


def test_repeated_administrator_action_is_audited_each_time():
    request = request_of(account())
    for _ in range(3):
        record_action(request, "opened the admin", object_repr="Ann")
    assert AuditEntry.objects.count() == 3


@pytest.mark.parametrize("change", ["save", "delete", "update", "delete all"])
def test_audit_entries_are_immutable(change: str):
    record_action(request_of(account()), "opened the admin", object_repr="Ann")
    entry, before = AuditEntry.objects.get(), AuditEntry.objects.values().get()
    entry.action = "did nothing"
    changes = {
        "save": entry.save,
        "delete": entry.delete,
        "update": lambda: AuditEntry.objects.update(action="did nothing"),
        "delete all": AuditEntry.objects.all().delete,
    }
    with pytest.raises(TypeError, match="audit log"):
        changes[change]()
    assert AuditEntry.objects.values().get() == before


@pytest.mark.parametrize(
    ("user_id", "facts", "expected"),
    [
        ("oidc/1", {"email": "ann@a.org", "first_name": "Ann"}, ("user", "oidc/1", "ann@a.org")),
        ("oidc/2", {"first_name": "Ann"}, ("user", "oidc/2", "Ann (oidc/2)")),
        ("oidc/3", {"first_name": "gate"}, ("user", "oidc/3", "gate (oidc/3)")),
        ("oidc/4", {"first_name": "boss@a.org"}, ("user", "oidc/4", "oidc/4")),
        ("oidc/5", {"first_name": "The Boss (oidc/boss)"}, ("user", "oidc/5", "oidc/5")),
        (None, {"email": "boss@a.org", "first_name": "Boss"}, ("account with a password", "root", "root")),
    ],
)
def test_administrator_is_identified_by_unique_attribute(user_id, facts, expected):
    actor = administrator(request_of(account("root", **facts), user_id))
    assert (actor.kind, actor.id, actor.name) == expected


def test_session_name_outlives_it():
    row(User, id="oidc/bob", email="bob@a.org")
    assert session_label(Session(id="s", user_id="oidc/bob", client_address="192.0.2.1")) == "bob@a.org, from 192.0.2.1"
    assert session_label(Session(id="s", user_id="oidc/none")) == "oidc/none, from an unknown address"
    assert session_label(Session(id="s")) == "an unknown user, from an unknown address"


def test_command_is_audited_under_its_operator_each_time():
    for _ in range(2):
        record_command("root@host", "revokes the service account", "ci", Session)
    entries = AuditEntry.objects.filter(actor="root@host (command line)", action="revokes the service account", object_id="ci")
    assert set(entries.values_list("actor_kind", "actor_id")) == {("command line", "root@host")}
    assert entries.count() == 2


def test_user_s_own_sign_out_is_audited_under_their_name(tmp_path):
    providers = make_options(tmp_path).providers
    ann = SessionRecord("s1", "oidc/ann", "ann", "oidc", 0.0, 9e9, {"email": "ann@a.org", "name": "Ann"}, client_address="192.0.2.1")
    for session in (ann, None):
        session_entry(
            1_800_000_000.0, ann, providers, "192.0.2.9", AuditAction.END_SESSION if session else AuditAction.END_ALL_SESSIONS, session
        ).save()
    one, every = AuditEntry.objects.order_by("pk")
    assert (one.actor, one.actor_id, one.client_address, one.occurred_at.timestamp()) == (
        "ann@a.org",
        "oidc/ann",
        "192.0.2.9",
        1_800_000_000.0,
    )
    assert (one.object_type, one.object_id, one.object_repr) == ("session", "s1", "ann@a.org, from 192.0.2.1")
    assert (every.action, every.object_type, every.object_id, every.object_repr) == (
        AuditAction.END_ALL_SESSIONS,
        "user",
        "oidc/ann",
        "ann@a.org",
    )
    nameless = SessionRecord("s2", "oidc/x", "x", "oidc", 0.0, 9e9, {"email": 7})
    assert session_entry(0.0, nameless, providers, "", AuditAction.END_SESSION, nameless).object_repr == "oidc/x, from an unknown address"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "eve@partner.example", "name": "Eve"}, "eve@partner.example"),
        ({"email": "eve@partner.example", "email_verified": True, "name": "Eve"}, "eve@partner.example"),
        ({"email": "eve@partner.example", "email_verified": False, "name": "Eve"}, "Eve (partner/eve)"),
        ({"email": "eve@partner.example", "email_verified": "no", "name": "Eve"}, "Eve (partner/eve)"),
        ({"email": "ceo@corp.example", "name": "Eve"}, "Eve (partner/eve)"),
        ({"email": "ceo@corp.example", "name": "ceo@corp.example"}, "partner/eve"),
        ({"email": "service_account/ci@partner.example", "email_verified": True}, "partner/eve"),
        ({"name": "ceo@corp.example (corp/ceo)"}, "partner/eve"),
        ({"name": "The Boss (corp/ceo)"}, "partner/eve"),
        ({"name": "The Boss (corp\u2215ceo)"}, "partner/eve"),
        ({"name": "robot (API)"}, "robot (API) (partner/eve)"),
        ({"name": "root (command line)"}, "root (command line) (partner/eve)"),
        ({"name": "E" * 5000}, f"{'E' * 100} (partner/eve)"),
        ({"name": 7}, "partner/eve"),
    ],
)
def test_ambiguous_name_identifies_no_user(tmp_path, claims, name):
    providers = make_options(tmp_path, **several("corp", "partner")).providers
    eve = SessionRecord("s1", "partner/eve", "eve", "partner", 0.0, 9e9, claims)
    assert session_entry(0.0, eve, providers, "", AuditAction.END_SESSION, eve).actor == name
    assert session_entry(0.0, eve, providers, "", AuditAction.END_ALL_SESSIONS).object_repr == name


@dataclass(frozen=True)
class Recorded(AuditLog):
    """An audit log that accepts up to `max_entries` entries."""

    max_entries: int = 9
    actions: list[str] = field(default_factory=list)

    async def record(self, action, model, objects):
        if len(self.actions) == self.max_entries:
            raise AuditLogUnavailable("full")
        self.actions.append(action)


@pytest.mark.parametrize("max_entries", [1, 2])
@pytest.mark.parametrize("error", [BrokerError, AccessError])
async def test_step_is_audited_before_it_runs_and_failure_after(error, max_entries):
    """The caller receives the error of the failed step, not that the log is full."""
    log = Recorded(BOB, "", max_entries=max_entries)

    async def fail():
        async with log.step(AuditAction.END_SESSION, Session, []):
            assert log.actions == [AuditAction.END_SESSION]
            raise error("away")

    with pytest.raises(error, match="away"):
        await fail()
    assert log.actions == [AuditAction.END_SESSION, AuditAction.END_SESSION.failure][:max_entries]


async def test_unauditable_action_is_refused():
    step = Recorded(BOB, "", max_entries=0).step(AuditAction.END_SESSION, Session, [])
    with pytest.raises(AuditLogUnavailable):
        await step.__aenter__()


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("Mal\0lory", "Mal\ufffdlory"),
        ("Mal\udc00lory", "Mal\ufffdlory"),
        ("\u202eyrollaM", "\ufffdyrollaM"),
        ("Mal\nlory", "Mal\ufffdlory"),
        ("Mallory", "Mallory"),
    ],
    ids=ascii,
)
def test_characters_unsupported_by_database_or_page_are_replaced(text, stored):
    async_to_sync(service_account_log(text, text, lambda: 0.0, "").record)(text, Session, [(text, text)])
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.actor_id) == (f"{stored} (API)", f"service_account/{stored}")
    assert (entry.client_address, entry.action, entry.object_id, entry.object_repr) == (stored,) * 4


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("a;=1+1;b", "a;'=1+1;b"),
        ('a;"=1+1";b', 'a;\'"=1+1";b'),
        ("a; +1", "a;' +1"),
        ("a\t@SUM(1)", "a\t'@SUM(1)"),
        ("a\n-1", "a\n'-1"),
        ("a\r\n=1", "a\r'\n'=1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\ta", "'\ta"),
        ("ann@a.org, from 192.0.2.1", "ann@a.org, from 192.0.2.1"),
        ("a-b; c=d", "a-b; c=d"),
    ],
    ids=ascii,
)
def test_no_cell_becomes_a_formula_wherever_a_spreadsheet_splits(cell, written):
    header, line = csv_lines(("who",), [(cell,)])
    assert header == '"who"\r\n'
    assert list(csv.reader(StringIO(line, newline=""))) == [[written]]
