"""One fetch at a time, kept for its lifetime; a failure is shared, and short."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from authenticate.provider.single_flight_cache import SingleFlightCache
from foundation.errors import ProviderError
from tests.support.authenticate_site import Clock


class Source:
    def __init__(self) -> None:
        self.fetches = 0
        self.is_broken = False

    async def fetch(self) -> int:
        self.fetches += 1
        await asyncio.sleep(0.001)
        if self.is_broken:
            raise ProviderError("broken")
        return self.fetches


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_concurrent_requests_share_one_fetch(source: Source, clock: Clock) -> None:
    remembered = SingleFlightCache(source.fetch, lifetime=100, clock=clock)
    assert await asyncio.gather(*(remembered.get() for _ in range(20))) == [1] * 20
    clock.ahead = 101
    assert await remembered.get() == 2


async def test_waiters_share_a_failure(source: Source, clock: Clock) -> None:
    source.is_broken = True
    remembered = SingleFlightCache(source.fetch, lifetime=100, clock=clock)
    answers = await asyncio.gather(*(remembered.get() for _ in range(20)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["broken"] * 20
    assert source.fetches == 1
    source.is_broken, clock.ahead = False, 3
    assert await remembered.get() == 2


async def test_a_renewal_that_fails_leaves_the_old_value(source: Source, clock: Clock) -> None:
    remembered = SingleFlightCache(source.fetch, lifetime=100, clock=clock)
    await remembered.get()
    source.is_broken, clock.ahead = True, 50
    with pytest.raises(ProviderError):
        await remembered.get(tried_after=clock())
    assert await remembered.get() == 1
    clock.ahead = 101
    with pytest.raises(ProviderError):
        await remembered.get()


async def test_stale_value_is_returned_while_a_newer_one_is_fetched(source: Source, clock: Clock) -> None:
    remembered = SingleFlightCache(source.fetch, lifetime=100, stale=50, clock=clock)
    await remembered.get()
    clock.ahead = 101
    assert [await remembered.get(), await remembered.get()] == [1, 1]
    while source.fetches < 2 or await remembered.get() == 1:
        await asyncio.sleep(0.001)
    assert (await remembered.get(), source.fetches) == (2, 2)


async def test_an_old_value_does_not_stay_for_ever(source: Source, clock: Clock) -> None:
    remembered = SingleFlightCache(source.fetch, lifetime=100, stale=50, clock=clock)
    await remembered.get()
    source.is_broken, clock.ahead = True, 149
    assert await remembered.get() == 1
    clock.ahead = 160
    with pytest.raises(ProviderError):
        await remembered.get()


async def test_a_cancelled_fetch_leaves_the_next_one_possible(source: Source, clock: Clock) -> None:
    remembered = SingleFlightCache(source.fetch, lifetime=100, clock=clock)
    waiting = asyncio.create_task(remembered.get())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await remembered.get() == 2


async def test_only_a_caller_that_waits_takes_a_place(source: Source, clock: Clock) -> None:
    taken = 0

    @contextmanager
    def place() -> Iterator[None]:
        nonlocal taken
        taken += 1
        yield

    remembered = SingleFlightCache(source.fetch, lifetime=100, stale=100, clock=clock)
    await asyncio.gather(*(remembered.get(slot=place) for _ in range(3)))
    assert taken == 3
    for clock.ahead in (0, 101):  # fresh, stale
        await remembered.get(slot=place)
    assert taken == 3
    clock.ahead = 1000
    await remembered.get(slot=place)
    assert taken == 4
