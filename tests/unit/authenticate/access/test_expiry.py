"""What ends by itself is in the audit log, once, and no later than it ends."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from authenticate.access.expiry import AHEAD, AccessExpiry
from databroker.access.asked import LIFETIME
from databroker.models import AuditEntry
from databroker.records import ASKED_ACCESS, TEMPORARY_ACCESS
from foundation.tasks import spawn
from tests.support.database import in_database
from tests.unit.authenticate.access.test_desk import HOUR, NOW, World

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def told() -> list[tuple[str, str, datetime]]:
    return await in_database(lambda: list(AuditEntry.objects.order_by("pk").values_list("action", "object_id", "when")))


async def test_the_end_of_access_is_told_once_before_it_comes(world: World) -> None:
    await world.approve(await world.ask())
    expiry, ends = AccessExpiry(world.broker, lambda: world.now), datetime.fromtimestamp(NOW + HOUR, UTC)
    world.now += HOUR - AHEAD - 1
    await expiry.look()
    assert await told() == []
    world.now += 1
    await expiry.look()
    await expiry.look()
    assert await told() == [("temporary access expired", "oidc/ann", ends)]
    assert len(await world.given()) == 1
    world.now += AHEAD
    assert await world.given() == []


async def test_what_ended_while_nobody_looked_is_told_all_the_same(world: World) -> None:
    await world.approve(await world.ask())
    world.now += 2 * HOUR
    await world.approve(await world.ask(why="again"))
    expiry = AccessExpiry(world.broker, lambda: world.now)
    await expiry.look()
    await expiry.look()
    assert [(action, id) for action, id, _ in await told()] == [("temporary access expired", "oidc/ann")]
    record = await world.broker.get(TEMPORARY_ACCESS, "oidc/ann")
    assert record is not None
    assert len(record.data["held"]) == 1, "what was told of is gone, and what goes on is not"
    assert len(await world.given()) == 1


async def test_a_request_that_nobody_answered_is_told_once(world: World) -> None:
    await world.ask()
    expiry = AccessExpiry(world.broker, lambda: world.now)
    await expiry.look()
    assert await told() == []
    world.now += LIFETIME
    await expiry.look()
    await expiry.look()
    assert [action for action, _, _ in await told()] == ["access request expired"]
    world.now += 61
    assert await world.broker.page(ASKED_ACCESS, "", 10) == []


async def test_without_the_audit_log_it_is_told_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("authenticate.access.expiry.LOOK_EVERY", 0.001)
    await world.approve(await world.ask())
    world.now += HOUR
    save, failed = AuditEntry.asave, asyncio.Event()

    async def broken(*args: Any, **more: Any) -> None:
        failed.set()
        raise OperationalError("the disk is full")

    monkeypatch.setattr(AuditEntry, "asave", broken)
    running = spawn(AccessExpiry(world.broker, lambda: world.now).run(), name="expiry of a test")
    await failed.wait()
    monkeypatch.setattr(AuditEntry, "asave", save)
    while not await told():
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(await told()) == 1
