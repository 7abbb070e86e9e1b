"""Every store gives a lease to one holder, and a lease that is not renewed expires."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from databroker.store.base import Lease, Leases, StoreBackend

LONG = 30.0


@pytest.fixture
async def leases(opener: Callable[[Callable[[], float]], StoreBackend]) -> AsyncIterator[Leases]:
    store = opener(time.time)
    yield store
    await store.close()


async def acquired_in_the_end(leases: Leases, name: str) -> Lease:
    deadline = time.monotonic() + 10
    while (lease := await leases.acquire(name, LONG)) is None:
        assert time.monotonic() < deadline, "the lease never ends"
        await asyncio.sleep(0.01)
    return lease


async def test_one_lease_has_one_holder(leases):
    assert await leases.acquire("work", LONG) is not None
    assert await leases.acquire("work", LONG) is None
    assert await leases.acquire("other work", LONG) is not None


async def test_of_many_at_once_one_gets_it(leases):
    outcomes = await asyncio.gather(*(leases.acquire("work", LONG) for _ in range(50)))
    assert sum(lease is not None for lease in outcomes) == 1


async def test_a_released_lease_is_free_at_once(leases):
    first = await leases.acquire("work", LONG)
    await leases.release(first)
    second = await leases.acquire("work", LONG)
    assert second is not None
    assert second.token != first.token


async def test_unrenewed_lease_expires(leases):
    first = await leases.acquire("work", 0.03)
    await acquired_in_the_end(leases, "work")
    assert not await leases.renew(first, LONG)


async def test_a_renewed_lease_goes_on(leases):
    lease = await leases.acquire("work", 5.0)
    assert await leases.renew(lease, LONG)
    await asyncio.sleep(0.05)
    assert await leases.renew(lease, 0.03)
    await acquired_in_the_end(leases, "work")


async def test_lost_lease_cannot_be_released(leases):
    first = await leases.acquire("work", LONG)
    await leases.release(first)
    second = await leases.acquire("work", LONG)
    await leases.release(first)
    assert not await leases.renew(first, LONG)
    assert await leases.acquire("work", LONG) is None
    assert await leases.renew(second, LONG)


async def test_a_lease_is_no_secret_in_a_log(leases):
    lease = await leases.acquire("work", LONG)
    assert lease.token not in repr(lease)
