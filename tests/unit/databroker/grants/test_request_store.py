"""Access requests: the number of pending ones is bounded, and each ends once."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from databroker.grants.request_store import (
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
ASKED = AccessRequest("n0", "oidc/1", ISSUER, "ann", "0123456789abcdef wages", "wages", "the year's end", 3600.0, NOW)


@pytest.fixture
def asked(broker: MemoryStore, clock: Clock) -> AccessRequestStore:
    return AccessRequestStore(broker, clock)


async def every(asked: AccessRequestStore) -> list[StoredAccessRequest]:
    return [held async for held in asked.iter_pending()]


async def test_a_request_waits_until_it_expires_by_itself(asked: AccessRequestStore, clock: Clock) -> None:
    approval = AccessApproval("oidc/2", "s2", "bob", NOW)
    await asked.add(replace(ASKED, approvals=(approval,)))
    (held,) = await every(asked)
    assert held.request == replace(ASKED, approvals=(approval,))
    assert await asked.find(held.id, "n0") == held
    assert await asked.find(held.id, "n1") is None
    assert await asked.list_for("oidc/1", ISSUER) == [held]
    assert await asked.list_for("oidc/1", "https://other.example.com") == []
    clock.now += LIFETIME_SECONDS
    assert await every(asked) == []
    assert await asked.find(held.id, "n0") is None


async def test_so_many_of_one_person_and_route_wait_and_no_flood_gets_past(asked: AccessRequestStore, broker: MemoryStore) -> None:
    read = broker.get

    async def get(type: str, id: str) -> Record | None:
        record = await read(type, id)
        await asyncio.sleep(0)  # as over a line: the others read the same
        return record

    broker.get = get  # type: ignore[method-assign]
    flood = (asked.add(replace(ASKED, request_id=f"n{number}")) for number in range(4 * MAX_PENDING))
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(outcome, RequestQuotaExceeded) for outcome in outcomes) == 3 * MAX_PENDING
    assert len(await every(asked)) == MAX_PENDING
    await asked.add(replace(ASKED, request_id="another route", route="fedcba9876543210 wiki"))
    await asked.add(replace(ASKED, request_id="another person", user_id="oidc/2"))
    assert len(await every(asked)) == MAX_PENDING + 2


async def test_a_place_that_is_over_is_used_again_by_another_request_a_minute_later(asked: AccessRequestStore, clock: Clock) -> None:
    for number in range(MAX_PENDING):
        await asked.add(replace(ASKED, request_id=f"n{number}"))
    with pytest.raises(RequestQuotaExceeded):
        await asked.add(replace(ASKED, request_id="one more"))
    assert sorted(held.request.request_id for held in await every(asked)) == [f"n{number}" for number in range(MAX_PENDING)]
    first = (await every(asked))[0]
    await asked.close(first)
    assert await asked.find(first.id, first.request.request_id) is None
    for step in (asked.add, asked.check_quota):
        with pytest.raises(RequestQuotaExceeded, match="a minute later"):
            await step(replace(ASKED, request_id="next"))
    clock.now += 61
    await asked.check_quota(replace(ASKED, request_id="next"))
    await asked.add(replace(ASKED, request_id="next"))
    assert await asked.find(first.id, first.request.request_id) is None, "what was said of the one is not said of the other"
    assert (await asked.find(first.id, "next")) is not None


async def test_who_comes_second_changes_nothing(asked: AccessRequestStore) -> None:
    await asked.add(ASKED)
    (held,) = await every(asked)
    await asked.change(held, replace(held.request, state=APPROVED, grant_expires_at=NOW + 3600))
    with pytest.raises(VersionConflict):
        await asked.close(held)
    (after,) = await every(asked)
    assert after.request.state == APPROVED


@pytest.mark.parametrize(
    "wrong", [{"duration_seconds": float("nan")}, {"request_id": ""}, {"user_id": "oidc/2"}, {"issuer": "x"}, {"approvals": [7]}]
)
async def test_what_can_not_be_a_request_hides_no_other(asked: AccessRequestStore, broker: MemoryStore, wrong: dict[str, Any]) -> None:
    beginning = slot_prefix(ASKED.user_id, ASKED.issuer, ASKED.route)
    await broker.put(ACCESS_REQUEST, f"{beginning}0", {**ASKED.to_data(), **wrong})
    await broker.put(ACCESS_REQUEST, f"{beginning}1", {**ASKED.to_data(), "request_id": "n1", "of a later release": 1})
    assert [held.request.request_id for held in await every(asked)] == ["n1"]
    assert [held.request.request_id for held in await asked.list_for(ASKED.user_id, ASKED.issuer)] == ["n1"]
