"""Admin action that ends sessions: they end in the store, leave the tables at once and are all audited, also after failures."""

from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import Error, connection
from django.http import HttpRequest
from structlog.testing import capture_logs

from databroker.admin.end_sessions_action import BATCH_SIZE, EndSessionsAction
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry, Session, User
from databroker.records import SESSION
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.database import row
from tests.support.signed_in import put_session

pytestmark = pytest.mark.usefixtures("database")


class FailingStore(MemoryStore):
    """Store that becomes unavailable after `deletions` deletions."""

    deletions = 2

    async def delete(self, type: str, id: str) -> bool:
        if self.deletions == 0:
            raise BrokerError("away")
        self.deletions -= 1
        return await super().delete(type, id)


def request_to(store: MemoryStore) -> HttpRequest:
    request: Any = HttpRequest()
    request.user = get_user_model().objects.create_user("ann")
    request.scope, request.session = request_scope(store), {}
    return request


def request_scope(store: MemoryStore) -> dict[str, Any]:
    return {"gate": SimpleNamespace(broker=store, client_address="192.0.2.9")}


def put(store: MemoryStore, id: str, user_id: str | None) -> None:
    async_to_sync(put_session)(store, id, {"user_id": user_id})
    row(Session, id=id, user_id=user_id, client_address="192.0.2.1")


async def fill(store: MemoryStore, ids: list[str]) -> None:
    for id in ids:
        await put_session(store, id, {"user_id": "oidc/bob"})


def end_sessions(store: MemoryStore, ids: list[str]) -> int:
    ending = EndSessionsAction(request_to(store))
    ending.end_sessions(ids)
    return ending.ended


def end_all_sessions(store: MemoryStore, people: list[str | None]) -> int:
    ending = EndSessionsAction(request_to(store))
    ending.end_all_sessions(people)
    assert ending.is_complete
    return ending.ended


def left(store: MemoryStore) -> list[str]:
    return [record.id for record in async_to_sync(store.page)(SESSION, "", 10_000)]


def audited() -> list[tuple[str, str, str]]:
    return sorted(AuditEntry.objects.values_list("action", "object_id", "object_repr"))


def test_sessions_end_in_store_and_table_and_each_is_audited(store):
    row(User, id="oidc/bob", email="bob@a.org")
    put(store, "s1", "oidc/bob")
    put(store, "s2", None)
    put(store, "s3", "oidc/bob")
    with capture_logs() as logged:
        assert end_sessions(store, ["s1", "s2"]) == 2
    assert left(store) == ["s3"]
    assert list(Session.objects.values_list("pk", flat=True)) == ["s3"]
    assert audited() == [
        (AuditAction.END_SESSION, "s1", "bob@a.org, from 192.0.2.1"),
        (AuditAction.END_SESSION, "s2", "an unknown user, from 192.0.2.1"),
    ]
    assert [(entry["event"], entry["object_id"], entry["actor"]) for entry in logged] == [
        ("admin action", "s1", "ann"),
        ("admin action", "s2", "ann"),
    ]


def test_the_weaker_sessions_of_the_same_browser_end_with_the_stronger_one(store):
    for id in ("weak", "weaker", "anothers"):
        put(store, id, "oidc/bob")
    async_to_sync(store.put)(SESSION, "strong", {"user_id": "oidc/bob", "linked_session_ids": ["weak", "weaker", "long gone"]})
    assert end_sessions(store, ["strong"]) == 3
    assert left(store) == ["anothers"]
    assert [id for _, id, _ in audited()] == ["strong", "weak", "weaker"]


def test_sessions_ended_before_broker_failure_are_audited():
    store = FailingStore()
    for id in ("s1", "s2", "s3"):
        put(store, id, "oidc/bob")
    with pytest.raises(BrokerError):
        end_sessions(store, ["s1", "s2", "s3"])
    assert left(store) == ["s3"]
    assert list(Session.objects.values_list("pk", flat=True)) == ["s3"]
    assert [(what, id) for what, id, _ in audited()] == [
        (AuditAction.END_SESSION.failure, "s3"),
        *((AuditAction.END_SESSION, f"s{n}") for n in (1, 2, 3)),
    ]


def test_partially_failed_end_completes_on_retry():
    store = FailingStore()
    put(store, "weak", "oidc/bob")
    put(store, "weaker", "oidc/bob")
    put(store, "strong", "oidc/bob")
    async_to_sync(store.put)(SESSION, "strong", {"user_id": "oidc/bob", "linked_session_ids": ["weak", "weaker"]})
    store.deletions = 1
    with pytest.raises(BrokerError):
        end_sessions(store, ["strong"])
    assert "strong" in left(store), "it names the others"
    store.deletions = 3
    ending = EndSessionsAction(SimpleNamespace(user=get_user_model().objects.get(), scope=request_scope(store), session={}))
    ending.end_sessions(["strong"])
    assert left(store) == []


def test_action_is_refused_if_it_cannot_be_logged(store):
    put(store, "s1", "oidc/bob")
    request = request_to(store)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE databroker_auditentry RENAME TO away")
    try:
        for end in (EndSessionsAction(request).end_sessions, EndSessionsAction(request).end_all_sessions):
            with pytest.raises(Error):
                end(["s1", "oidc/bob"])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO databroker_auditentry")
    assert left(store) == ["s1"]
    assert Session.objects.filter(pk="s1").exists()


def test_broker_failure_while_ending_sessions_is_audited_again():
    store = FailingStore()
    for id in ("s1", "s2", "s3"):
        put(store, id, "oidc/bob")
    with pytest.raises(BrokerError):
        end_all_sessions(store, ["oidc/bob"])
    assert (AuditAction.END_ALL_SESSIONS.failure, "oidc/bob", "oidc/bob") in audited()


def test_slow_action_stops_and_reports_it(store):
    ids = [f"{number:05}" for number in range(2 * BATCH_SIZE)]
    async_to_sync(fill)(store, ids)
    ticks = iter(range(1000))
    ending = EndSessionsAction(request_to(store), clock=lambda: float(next(ticks)), timeout=3.0)
    ending.end_all_sessions(["oidc/bob"])
    assert (ending.ended, ending.is_complete) == (BATCH_SIZE, False)
    assert len(left(store)) == BATCH_SIZE
    assert (AuditAction.END_ALL_SESSIONS.failure, "oidc/bob", "oidc/bob") in audited()


def test_all_sessions_of_one_user_and_no_others_end(store):
    for id, user_id in (("s1", "oidc/bob"), ("s2", "oidc/carol"), ("s3", "oidc/bob"), ("s4", None), ("s5", "oidc/bobby")):
        put(store, id, user_id)
    assert end_all_sessions(store, ["oidc/bob"]) == 2
    assert left(store) == ["s2", "s4", "s5"]
    assert (AuditAction.END_ALL_SESSIONS, "oidc/bob", "oidc/bob") in audited()


def test_a_session_too_young_to_have_a_row_ends_with_the_others(store):
    put(store, "old", "oidc/bob")
    async_to_sync(fill)(store, ["young"])
    assert end_all_sessions(store, ["oidc/bob"]) == 2
    assert left(store) == []


def test_user_without_id_is_unknown(store):
    put(store, "s", None)
    assert end_all_sessions(store, ["", None]) == 0
    assert left(store) == ["s"]
    assert audited() == []


def test_more_sessions_than_a_page_end(store):
    ids = [f"{number:05}" for number in range(2 * BATCH_SIZE + 1)]
    async_to_sync(fill)(store, ids)
    Session.rows.bulk_create([Session(id=id, user_id="oidc/bob") for id in ids])
    assert end_all_sessions(store, ["oidc/bob"]) == len(ids)
    assert left(store) == []
    assert not Session.objects.exists()
    assert AuditEntry.objects.count() == len(ids) + 1
