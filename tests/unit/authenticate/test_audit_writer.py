"""Rows of the audit log come a moment later, all of them and in their order; and memory is bounded where the database is slow."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from django.db import OperationalError
from structlog.testing import capture_logs

from authenticate import audit_writer
from authenticate.audit_writer import AuditWriter
from databroker.audit_log import scim_entry
from databroker.models import AppendOnly, AuditEntry
from tests.support.database import in_database

pytestmark = pytest.mark.usefixtures("database")
NOW = 1_800_000_000.0


def push(number: int) -> AuditEntry:
    return scim_entry(NOW + number, "192.0.2.7", "changed the user", "user", f"okta/{number}", "Ann")


def rows() -> list[tuple[str, float]]:
    return [(entry.object_id, entry.occurred_at.timestamp()) for entry in AuditEntry.objects.order_by("pk")]


@pytest.fixture
async def started() -> AsyncIterator[AuditWriter]:
    noted = AuditWriter()
    noted.start()
    yield noted
    await noted.stop()


async def test_every_change_is_written_in_its_order_and_with_its_time(started: AuditWriter) -> None:
    for number in range(1200):
        await started.enqueue(push(number))
    assert await in_database(rows) == []
    await until_written(1200)
    assert await in_database(rows) == [(f"okta/{number}", NOW + number) for number in range(1200)]
    await started.enqueue(push(1200))
    await started.stop()
    assert len(await in_database(rows)) == 1201


async def test_decision_waits_for_slower_database(started: AuditWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_writer, "MAX_QUEUE", 3)
    for number in range(3):
        await started.enqueue(push(number))
    fourth = asyncio.ensure_future(started.enqueue(push(3)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not fourth.done()
    await fourth
    await started.stop()
    assert [id for id, _ in await in_database(rows)] == [f"okta/{number}" for number in range(4)]


async def until_written(number: int) -> None:
    async with asyncio.timeout(20):
        while len(await in_database(rows)) < number:
            await asyncio.sleep(0.01)


async def test_an_entry_that_no_database_takes_loses_no_other(started: AuditWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = push(1)
    odd.action = None  # as a text that the database refuses
    for entry in (push(0), odd, push(2)):
        await started.enqueue(entry)
    with capture_logs() as logged:
        await started.stop()
    assert [id for id, _ in await in_database(rows)] == ["okta/0", "okta/2"]
    assert [(line["event"], line["object_id"]) for line in logged] == [("audit log entry lost", "okta/1")]


async def test_where_the_database_is_unavailable_each_entry_is_named_and_none_is_tried_alone(
    started: AuditWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*arguments: object, **options: object) -> None:
        raise OperationalError("unavailable")

    tried: list[AuditEntry] = []
    monkeypatch.setattr(AppendOnly, "bulk_create", unavailable)
    monkeypatch.setattr(AuditEntry, "save", tried.append)
    for number in range(3):
        await started.enqueue(push(number))
    with capture_logs() as logged:
        await started.stop()
    assert ([line["object_id"] for line in logged], tried) == (["okta/0", "okta/1", "okta/2"], [])
