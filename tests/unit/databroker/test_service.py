"""Do store, replica and tables work together, and end together?"""

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from databroker.claims import GroupsClaim, ProviderClaims
from databroker.models import Group, Session
from databroker.records import SESSION, USED_ID, USER
from databroker.replica import UNKNOWN
from databroker.service import SWEEP_BATCH, SWEEP_INTERVAL, DataBrokerService
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.database import in_database
from tests.support.eventually import eventually, eventually_equal

NOW = 1_700_000_000.0

pytestmark = pytest.mark.usefixtures("database")


async def test_a_session_is_seen_everywhere_and_expires_everywhere():
    now = NOW
    service = DataBrokerService(MemoryStore(lambda: now), lambda: now, sweep_interval=0.01)
    await service.start()
    await asyncio.sleep(0.02)
    try:
        await service.client.put(SESSION, "s", {"user_id": "oidc/1"}, expires=NOW + 60)

        async def is_cached() -> bool:
            return await service.replica.get(SESSION, "s") == service.replica.peek(SESSION, "s")

        async def has_row() -> bool:
            return await in_database(Session.objects.exists)

        async def has_no_row() -> bool:
            return not await has_row()

        await eventually(is_cached)
        await eventually(has_row)
        now += 60
        assert service.replica.peek(SESSION, "s") is None
        await eventually(has_no_row)
        assert service.replica.peek(SESSION, "s") is UNKNOWN
    finally:
        await service.stop()


async def test_stopping_ends_every_task():
    before = asyncio.all_tasks()
    service = DataBrokerService(MemoryStore())
    await service.start()
    await asyncio.sleep(0.02)
    await service.stop()
    assert asyncio.all_tasks() == before
    with pytest.raises(BrokerError):
        await anext(service.client.changes(0))


async def test_changed_groups_claim_rebuilds_tables():
    def claim(name: str) -> ProviderClaims:
        return ProviderClaims((GroupsClaim(name, "oidc", "https://idp.example.com"),))

    async def expect_groups(*groups: str) -> None:
        await eventually_equal(lambda: in_database(lambda: tuple(Group.objects.order_by("pk").values_list("pk", flat=True))), groups)

    store = MemoryStore()
    await store.put(USER, "oidc/1", {"claims": {"groups": ["a"], "roles": ["b"]}, "issuer": "https://idp.example.com"})
    service = DataBrokerService(store, provider_claims=claim("groups"))
    service.reconfigure([], 0.0, claim("groups"))  # a reload before the start
    await service.start()
    try:
        await expect_groups("a")
        service.reconfigure([], 0.0, claim("roles"))
        await expect_groups("b")
        service.reconfigure([], 0.0, claim(""))
        await expect_groups()
    finally:
        await service.stop()


async def test_records_can_be_used_before_the_start():
    service = DataBrokerService(MemoryStore())
    await service.client.put(SESSION, "s", {"n": 1})
    assert (await service.replica.get(SESSION, "s")).data == {"n": 1}


async def test_stopping_without_a_start_is_no_error():
    service = DataBrokerService(MemoryStore())
    await service.stop()
    with pytest.raises(BrokerError):
        await anext(service.client.changes(0))


async def test_user_locations_reach_the_tables():
    service = DataBrokerService(MemoryStore(), activity_interval=0.01)
    await service.start()
    try:
        await service.client.put(SESSION, "s", {"user_id": "oidc/1"})
        service.activity.record("s", time.time(), "app.example.com")

        async def is_displayed() -> bool:
            return await in_database(Session.objects.filter(last_host="app.example.com", last_seen_at__isnull=False).exists)

        await eventually(is_displayed)
    finally:
        await service.stop()


async def test_many_simultaneous_expirations_block_no_call():
    now = NOW
    service = DataBrokerService(MemoryStore(lambda: now), lambda: now, sweep_interval=60)
    for number in range(10 * SWEEP_BATCH):
        await service.client.put(USED_ID, str(number), {}, expires=NOW + 1)
    await service.start()
    now += 1
    steps = []
    version = (await service.client.put(SESSION, "last", {})).version
    async with asyncio.timeout(10):
        while sum(steps) < 10 * SWEEP_BATCH:
            await asyncio.sleep(0)
            latest = (await service.client.put(SESSION, "last", {})).version
            steps.append(latest - version - 1)
            version = latest
    await service.stop()
    assert max(steps) == SWEEP_BATCH


def test_expired_session_is_reported_within_a_second():
    assert SWEEP_INTERVAL <= 0.5


class AwayForAMoment(MemoryStore):
    """Can't clean at first."""

    failures = 2

    async def clean(self, limit: int) -> bool:
        if self.failures:
            self.failures -= 1
            raise BrokerError("the store is away")
        return await super().clean(limit)


async def test_a_store_that_is_away_is_swept_when_it_is_back():
    """One line for each attempt and no traceback, because an operator can repair this and the code is not at fault."""
    store = AwayForAMoment(lambda: NOW)
    await store.put(USED_ID, "old", {}, expires=NOW - 1)
    service = DataBrokerService(store, lambda: NOW, sweep_interval=0.001)
    with capture_logs() as logged:
        await service.start()
        await eventually(lambda: not store.has_expired(NOW))
        await service.stop()
    problems = [entry for entry in logged if entry["log_level"] in ("warning", "error")]
    assert [(entry["event"], entry["reason"]) for entry in problems] == [("purging expired records failed", "the store is away")] * 2
