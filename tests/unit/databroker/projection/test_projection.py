"""The admin's tables match the store, after any failure."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from structlog.testing import capture_logs

from databroker.models import Group, Membership, Session, User
from databroker.projection import rows
from databroker.projection.projection import Projection
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SESSION, USED_ID, USER
from databroker.store.memory import MemoryStore
from tests.support.brokers import DisturbedBroker
from tests.support.database import in_database, row
from tests.support.eventually import eventually, eventually_equal

NOW = 1_700_000_000.0

pytestmark = pytest.mark.usefixtures("database")


async def until(question: Callable[[], object], answer: object) -> None:
    await eventually_equal(lambda: in_database(question), answer)


def ids(model) -> Callable[[], list[str]]:
    return lambda: sorted(model.objects.values_list("pk", flat=True))


@asynccontextmanager
async def following(client):
    running = asyncio.create_task(Projection(client, pause=0.002, initial_backoff=0.005).run())
    yield running
    running.cancel()
    await asyncio.wait({running})


async def put_alice(store: MemoryStore) -> None:
    session = {"user_id": "oidc/alice", "issued_at": NOW, "expires_at": NOW + 60, "client_address": "192.0.2.1", "user_agent": "browser"}
    await store.put(SESSION, "s", {**session, "access_token": "secret-token", "claims": {"ssn": "secret-claim"}})
    await store.put(
        USER, "oidc/alice", {"email": "alice@a.org", "name": "Alice", "last_sign_in_at": NOW, "claims": {"ssn": "secret-claim"}}
    )
    await store.put(DIRECTORY_USER, "oidc/alice", {"email": "old@a.org", "group_ids": ["g1", "g2"]})
    await store.put(DIRECTORY_GROUP, "g1", {"name": "engineering", "email": "eng@a.org"})


async def check_alice() -> None:
    def look():
        session = Session.objects.select_related("user").get()
        return session, session.user, list(session.user.groups.all())

    await until(ids(Group), ["g1"])
    await until(lambda: Membership.objects.count(), 2)
    await until(lambda: list(User.objects.values_list("name", flat=True)), ["Alice"])
    await until(ids(Session), ["s"])
    session, user, groups = await in_database(look)
    assert (session.started_at, session.expires_at) == (datetime.fromtimestamp(NOW, UTC), datetime.fromtimestamp(NOW + 60, UTC))
    assert (session.client_address, session.user_agent) == ("192.0.2.1", "browser")
    assert (user.id, user.email, user.name, user.last_sign_in_at) == ("oidc/alice", "alice@a.org", "Alice", session.started_at)
    assert [(group.name, group.email) for group in groups] == [("engineering", "eng@a.org")]


async def test_existing_state_is_loaded():
    store = MemoryStore()
    await put_alice(store)
    async with following(DisturbedBroker(store)):
        await check_alice()


async def test_later_changes_follow():
    store = MemoryStore()
    async with following(DisturbedBroker(store)):
        await asyncio.sleep(0.02)
        await put_alice(store)
        await check_alice()


async def test_no_secret_reaches_the_tables():
    store = MemoryStore()
    await put_alice(store)
    async with following(DisturbedBroker(store)):
        await check_alice()
    with sqlite3.connect(connection.settings_dict["NAME"]) as database:
        dump = "\n".join(database.iterdump())
    database.close()
    assert "192.0.2.1" in dump
    assert "secret-token" not in dump
    assert "secret-claim" not in dump


async def test_rows_go_with_their_records():
    store = MemoryStore()
    await put_alice(store)
    async with following(DisturbedBroker(store)):
        await check_alice()
        await store.delete(SESSION, "s")
        await until(ids(Session), [])
        await store.delete(USER, "oidc/alice")
        await until(lambda: User.objects.get().email, "old@a.org")
        await store.delete(DIRECTORY_USER, "oidc/alice")
        await until(ids(User), [])
        assert await in_database(Membership.objects.count) == 0
        await store.delete(DIRECTORY_GROUP, "g1")
        await until(ids(Group), [])


async def test_session_is_displayed_without_user_record():
    store = MemoryStore()
    await put_alice(store)
    async with following(DisturbedBroker(store)):
        await check_alice()
        for type in (USER, DIRECTORY_USER):
            await store.delete(type, "oidc/alice")
        await until(ids(User), [])
        assert await in_database(ids(Session)) == ["s"]


async def test_user_leaving_group_is_no_longer_listed_in_it():
    store = MemoryStore()
    await put_alice(store)
    async with following(DisturbedBroker(store)):
        await check_alice()
        await store.put(DIRECTORY_USER, "oidc/alice", {"group_ids": ["g2"]})
        await until(lambda: list(Membership.objects.values_list("group_id", flat=True)), ["g2"])


async def test_rows_of_an_earlier_run_are_removed_and_many_records_loaded():
    await in_database(lambda: Session.rows.bulk_create([Session(id=f"old{number:03}") for number in range(450)]))
    await in_database(lambda: row(Group, id="old"))
    store = MemoryStore()
    for number in range(450):
        await store.put(SESSION, f"new{number:03}", {"user_id": f"oidc/{number}"})
    async with following(DisturbedBroker(store)):
        await until(ids(Session), [f"new{number:03}" for number in range(450)])
        await until(ids(Group), [])


async def test_an_expired_record_leaves_no_row():
    now = NOW
    store = MemoryStore(lambda: now)
    await store.put(SESSION, "s", {}, expires=NOW + 1)
    async with following(DisturbedBroker(store)):
        await until(ids(Session), ["s"])
        now += 1
        store.expire(now)
        await until(ids(Session), [])


async def test_a_broker_that_lost_its_memory_means_starting_over():
    store = MemoryStore()
    await put_alice(store)
    line = DisturbedBroker(store)
    async with following(line):
        await check_alice()
        other = MemoryStore()
        await other.put(SESSION, "other", {})
        line.cut()
        await asyncio.sleep(0.02)
        line.mend(other)
        await until(ids(Session), ["other"])
        await until(ids(User), [])


async def test_a_database_in_trouble_is_tried_again():
    def rename(before: str, after: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {before} RENAME TO {after}")

    store = MemoryStore()
    with capture_logs() as started:
        running = asyncio.create_task(Projection(DisturbedBroker(store), pause=0.002, initial_backoff=0.005).run())
        await eventually(lambda: started)
    try:
        await in_database(lambda: rename("databroker_session", "away"))
        with capture_logs() as logged:
            await store.put(SESSION, "s", {})
            await eventually(lambda: len(logged) >= 2)
        await in_database(lambda: rename("away", "databroker_session"))
        await until(ids(Session), ["s"])
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})
    assert [entry["event"] for entry in started] == ["projection loaded"]
    assert {entry["event"] for entry in logged} == {"projection lagging"}


async def test_strange_values_do_not_stop_it():
    store = MemoryStore()
    async with following(DisturbedBroker(store)):
        await store.put(USED_ID, "x", {})
        await store.put(
            SESSION, "s", {"user_id": None, "issued": "yesterday", "expires": -1, "user_agent": "x" * 5000, "client_address": 7}
        )
        await store.put(USER, "u", {"email": ["a@a.org"], "last_sign_in_at": None})
        await store.put(DIRECTORY_USER, "u", {"group_ids": ["g", "g", 3]})
        await store.put(SESSION, "last", {})
        await until(ids(Session), ["last", "s"])
        await until(lambda: Membership.objects.count(), 2)
    assert len((await in_database(lambda: Session.objects.get(pk="s"))).user_agent) == 512


async def test_the_admin_can_write_while_the_projection_does():
    """Short transactions: a writer beside it never waits long, and never fails with "database is locked"."""
    store = MemoryStore()
    for number in range(1000):
        await store.put(SESSION, f"{number:04}", {"user_id": "oidc/1"})

    def write_concurrently() -> None:
        Group.rows.bulk_create([Group(pk="beside", name="x")], ignore_conflicts=True)

    async with following(DisturbedBroker(store)):
        for _ in range(20):
            await sync_to_async(rows_closed(write_concurrently), thread_sensitive=False)()
            await asyncio.sleep(0.005)
        await until(lambda: Session.objects.count(), 1000)


def rows_closed(work: Callable[[], None]) -> Callable[[], None]:
    def in_a_thread_of_its_own() -> None:
        try:
            work()
        finally:
            connection.close()

    return in_a_thread_of_its_own


@pytest.mark.parametrize(
    ("type", "id", "data"),
    [(DIRECTORY_USER, "oidc/odd", {"group_ids": 7}), (USER, "oidc/" + "x" * 400, {}), (USER, "oidc/\0", {})],
    ids=["malformed", "too long", "NUL"],
)
async def test_unstorable_record_does_not_block_others(type: str, id: str, data: dict) -> None:
    store = MemoryStore()
    await store.put(type, id, data)
    async with following(DisturbedBroker(store)):
        await put_alice(store)
        await check_alice()
        await store.put(type, id, {**data, "name": "again"})
        await store.delete(SESSION, "s")
        await until(ids(Session), [])


async def test_no_error_ends_the_following(monkeypatch: pytest.MonkeyPatch) -> None:
    store, write, failures = MemoryStore(), rows.write, [RuntimeError("unexpected")]

    def failing_first(batch: rows.RowBatch) -> None:
        if failures:
            raise failures.pop()
        write(batch)

    monkeypatch.setattr(rows, "write", failing_first)
    async with following(DisturbedBroker(store)):
        await put_alice(store)
        await check_alice()
    assert not failures
