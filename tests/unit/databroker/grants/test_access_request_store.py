"""Access requests: the number of pending ones is bounded, and each ends once."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from databroker.grants.access_request_store import (
    APPROVED,
    LIFETIME_SECONDS,
    MAX_PENDING,
    AccessApproval,
    AccessRequest,
    AccessRequestStore,
    RequestQuotaExceeded,
    StoredAccessRequest,
    slot_prefix,
)
from databroker.records import ACCESS_REQUEST, Record
from databroker.store.base import VersionConflict
from databroker.store.memory import MemoryStore
from tests.support.clock import NOW, Clock

ISSUER = "https://idp.example.com"
REQUEST = AccessRequest("n0", "oidc/1", ISSUER, "ann", "0123456789abcdef wages", "wages", "the year's end", 3600.0, NOW)


@pytest.fixture
def store(broker: MemoryStore, clock: Clock) -> AccessRequestStore:
    return AccessRequestStore(broker, clock)


async def every(store: AccessRequestStore) -> list[StoredAccessRequest]:
    return [held async for held in store.iter_pending()]


async def test_a_request_waits_until_it_expires_by_itself(store: AccessRequestStore, clock: Clock) -> None:
    approval = AccessApproval("oidc/2", "s2", "bob", NOW)
    await store.add(replace(REQUEST, approvals=(approval,)))
    (held,) = await every(store)
    assert held.request == replace(REQUEST, approvals=(approval,))
    assert await store.find(held.id, "n0") == held
    assert await store.find(held.id, "n1") is None
    assert await store.list_for("oidc/1", ISSUER) == [held]
    assert await store.list_for("oidc/1", "https://other.example.com") == []
    clock.now += LIFETIME_SECONDS
    assert await every(store) == []
    assert await store.find(held.id, "n0") is None


async def test_pending_requests_per_user_and_route_are_limited(store: AccessRequestStore, broker: MemoryStore) -> None:
    read = broker.get

    async def get(type: str, id: str) -> Record | None:
        record = await read(type, id)
        await asyncio.sleep(0)  # as over a line: the others read the same
        return record

    broker.get = get  # type: ignore[method-assign]
    flood = (store.add(replace(REQUEST, request_id=f"n{number}")) for number in range(4 * MAX_PENDING))
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(outcome, RequestQuotaExceeded) for outcome in outcomes) == 3 * MAX_PENDING
    assert len(await every(store)) == MAX_PENDING
    await store.add(replace(REQUEST, request_id="another route", route="fedcba9876543210 wiki"))
    await store.add(replace(REQUEST, request_id="another person", user_id="oidc/2"))
    assert len(await every(store)) == MAX_PENDING + 2


async def test_a_place_that_is_over_is_used_again_by_another_request_a_minute_later(store: AccessRequestStore, clock: Clock) -> None:
    for number in range(MAX_PENDING):
        await store.add(replace(REQUEST, request_id=f"n{number}"))
    with pytest.raises(RequestQuotaExceeded):
        await store.add(replace(REQUEST, request_id="one more"))
    assert sorted(held.request.request_id for held in await every(store)) == [f"n{number}" for number in range(MAX_PENDING)]
    first = (await every(store))[0]
    await store.close(first)
    assert await store.find(first.id, first.request.request_id) is None
    for step in (store.add, store.check_quota):
        with pytest.raises(RequestQuotaExceeded, match="a minute later"):
            await step(replace(REQUEST, request_id="next"))
    clock.now += 61
    await store.check_quota(replace(REQUEST, request_id="next"))
    await store.add(replace(REQUEST, request_id="next"))
    assert await store.find(first.id, first.request.request_id) is None, "what was said of the one is not said of the other"
    assert (await store.find(first.id, "next")) is not None


async def test_second_decision_changes_nothing(store: AccessRequestStore) -> None:
    await store.add(REQUEST)
    (held,) = await every(store)
    await store.change(held, replace(held.request, state=APPROVED, grant_expires_at=NOW + 3600))
    with pytest.raises(VersionConflict):
        await store.close(held)
    (after,) = await every(store)
    assert after.request.state == APPROVED


@pytest.mark.parametrize(
    "invalid", [{"duration_seconds": float("nan")}, {"request_id": ""}, {"user_id": "oidc/2"}, {"issuer": "x"}, {"approvals": [7]}]
)
async def test_malformed_request_hides_no_other(store: AccessRequestStore, broker: MemoryStore, invalid: dict[str, Any]) -> None:
    beginning = slot_prefix(REQUEST.user_id, REQUEST.issuer, REQUEST.route)
    await broker.put(ACCESS_REQUEST, f"{beginning}0", {**REQUEST.to_data(), **invalid})
    await broker.put(ACCESS_REQUEST, f"{beginning}1", {**REQUEST.to_data(), "request_id": "n1", "of a later release": 1})
    assert [held.request.request_id for held in await every(store)] == ["n1"]
    assert [held.request.request_id for held in await store.list_for(REQUEST.user_id, REQUEST.issuer)] == ["n1"]
