"""Is every action told once, with who did it, and can nobody fill the log who is not let in?"""

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone
from structlog.testing import capture_logs

from databroker.admin import record_action
from databroker.adminsite.audit import ENDS, ENDS_ALL, STRANGER, access_entry, name_of, record_command, session_entry, who
from databroker.models import AuditEntry, Session, User
from databroker.records import SessionRecord
from tests.support.database import row
from tests.support.options import make_options
from tests.support.several_providers import several

pytestmark = pytest.mark.usefixtures("database")


def request_of(user: Any) -> HttpRequest:
    request: Any = HttpRequest()
    request.user, request.scope = user, {"gate": SimpleNamespace(client_address="192.0.2.9")}
    return request


def account(username: str = "sso-1234", **facts: Any) -> Any:
    return get_user_model().objects.create_user(username, **facts)


def test_an_action_is_a_row_and_a_line_in_the_log():
    ann = account(email="ann@a.org")
    with capture_logs() as logged:
        record_action(request_of(ann), "entered the admin", object_repr="Ann", object_id="oidc/ann")
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.account, entry.address) == ("ann@a.org", "sso-1234", "192.0.2.9")
    assert (entry.action, entry.object_words, entry.object_id) == ("entered the admin", "Ann", "oidc/ann")
    did = {"action": "entered the admin", "object": "Ann", "object_id": "oidc/ann"}
    expected = {"event": "admin action", **did, "by": "ann@a.org", "client": "192.0.2.9"}
    assert [{**entry, "log_level": ""} for entry in logged] == [{**expected, "log_level": ""}]


def test_a_name_longer_than_its_column_is_cut():
    record_action(request_of(account()), "entered the admin", object_repr="x" * 500)
    assert AuditEntry.objects.get().object_words == "x" * 255


def test_somebody_without_an_account_is_told_of_too():
    record_action(request_of(AnonymousUser()), "was refused", object_repr="bob@a.org", object_id="oidc/bob")
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.account, entry.object_words) == (STRANGER, "", "bob@a.org")
    record_action(request_of(AnonymousUser()), "was refused", object_repr="eve@a.org", stranger=f"eve@a.org, {STRANGER}")
    assert AuditEntry.objects.filter(who="eve@a.org, not an administrator", account="").count() == 1
    assert not get_user_model().objects.exists()


def test_a_stranger_who_knocks_again_and_again_fills_no_table():
    request = request_of(AnonymousUser())
    with capture_logs() as logged:
        for _ in range(20):
            record_action(request, "was refused", object_repr="bob@a.org", object_id="oidc/bob")
        record_action(request, "was refused", object_repr="eve@a.org", object_id="oidc/eve")
    assert sorted(AuditEntry.objects.values_list("object_id", flat=True)) == ["oidc/bob", "oidc/eve"]
    assert len(logged) == 21


def test_a_stranger_who_comes_back_later_is_told_of_again():
    request = request_of(AnonymousUser())
    record_action(request, "was refused", object_repr="bob@a.org")
    with connection.cursor() as cursor:
        cursor.execute('UPDATE databroker_auditentry SET "when" = %s', [timezone.now() - timedelta(minutes=2)])
    record_action(request, "was refused", object_repr="bob@a.org")
    assert AuditEntry.objects.count() == 2


def test_what_an_administrator_repeats_is_told_each_time():
    request = request_of(account())
    for _ in range(3):
        record_action(request, "entered the admin", object_repr="Ann")
    assert AuditEntry.objects.count() == 3


@pytest.mark.parametrize("change", ["save", "delete", "update", "delete all"])
def test_what_was_written_stays_as_it_was(change: str):
    record_action(request_of(account()), "entered the admin", object_repr="Ann")
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


def test_what_djangos_log_holds_is_taken_over():
    ann = account(email="ann@a.org")
    LogEntry.objects.create(user=ann, object_id="s1", object_repr="bob@a.org", action_flag=3, change_message="ends the session")
    migration = import_module("databroker.migrations.0005_audit_log")
    migration.copy(apps, None)
    ann.delete()
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.account, entry.action) == ("ann@a.org", "sso-1234", "ends the session")
    assert (entry.object_id, entry.object_words, timezone.now() - entry.when < timedelta(minutes=5)) == ("s1", "bob@a.org", True)


def test_an_administrator_is_named_as_people_know_them():
    assert who(account("sso-1", email="ann@a.org", first_name="Ann")) == "ann@a.org"
    assert who(account("sso-2", first_name="Ann")) == "Ann"
    assert who(account("root")) == "root"


def test_a_session_is_named_in_words_that_outlive_it():
    row(User, id="oidc/bob", email="bob@a.org")
    assert name_of(Session(id="s", user_id="oidc/bob", client_address="192.0.2.1")) == "bob@a.org, from 192.0.2.1"
    assert name_of(Session(id="s", user_id="oidc/none")) == "oidc/none, from an unknown address"
    assert name_of(Session(id="s")) == "an unknown person, from an unknown address"


def test_what_a_command_does_is_told_by_who_typed_it_each_time():
    for _ in range(2):
        record_command("root@host", "revokes the service account", "ci", Session)
    assert AuditEntry.objects.filter(who="root@host (command line)", action="revokes the service account", object_id="ci").count() == 2


def test_what_people_end_themselves_is_told_under_their_name(tmp_path):
    providers = make_options(tmp_path).providers
    ann = SessionRecord("s1", "oidc/ann", "ann", "oidc", 0.0, 9e9, {"email": "ann@a.org", "name": "Ann"}, client_address="192.0.2.1")
    for session in (ann, None):
        session_entry(1_800_000_000.0, ann, providers, "192.0.2.9", ENDS if session else ENDS_ALL, session).save()
    one, every = AuditEntry.objects.order_by("pk")
    assert (one.who, one.account, one.address, one.when.timestamp()) == ("ann@a.org", "oidc/ann", "192.0.2.9", 1_800_000_000.0)
    assert (one.object_type, one.object_id, one.object_words) == ("session", "s1", "ann@a.org, from 192.0.2.1")
    assert (every.action, every.object_type, every.object_id, every.object_words) == (ENDS_ALL, "user", "oidc/ann", "ann@a.org")
    nameless = SessionRecord("s2", "oidc/x", "x", "oidc", 0.0, 9e9, {"email": 7})
    assert session_entry(0.0, nameless, providers, "", ENDS, nameless).object_words == "oidc/x, from an unknown address"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "eve@partner.example", "name": "Eve"}, "eve@partner.example"),
        ({"email": "ceo@corp.example", "name": "Eve"}, "Eve"),
        ({"email": "ceo@corp.example", "name": "ceo@corp.example"}, "partner/eve"),
    ],
)
def test_nobody_is_called_by_an_address_that_is_not_for_their_provider_to_tell(tmp_path, claims, name):
    providers = make_options(tmp_path, **several("corp", "partner")).providers
    eve = SessionRecord("s1", "partner/eve", "eve", "partner", 0.0, 9e9, claims)
    assert session_entry(0.0, eve, providers, "", ENDS, eve).who == name
    assert session_entry(0.0, eve, providers, "", ENDS_ALL).object_words == name
    assert access_entry(0.0, eve, providers, "", "asks", "partner/eve", "wages").who == name
