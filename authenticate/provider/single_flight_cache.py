"""Single-flight cache: one value, kept for a while, fetched by one caller at a time; a failure is shared by those who wait."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

import structlog

from foundation.errors import ProviderError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

T = TypeVar("T")
Place = Callable[[], AbstractContextManager[None]]  # what a caller occupies while it waits for a provider; ProviderError for none

FAILURE_KEPT = 2.0  # seconds; else every waiting sign-in would try a dead provider again, one after the other
NEVER = float("-inf")


class SingleFlightCache(Generic[T]):
    """Cache of one value; times are Unix seconds.  A failed renewal leaves the old value to those who do not ask for a newer one.

    For `stale` seconds after its lifetime the old value is still given, while a newer one is fetched in the background.
    """

    def __init__(self, fetch: Callable[[], Awaitable[T]], *, lifetime: float, stale: float = 0.0, clock: Callable[[], float]):
        self._fetch = fetch
        self._lifetime = lifetime
        self._stale = stale
        self._clock = clock
        self._lock = asyncio.Lock()
        self._value: tuple[T, float] | None = None
        self._failure: str | None = None
        self._tried = NEVER
        self._renewal: asyncio.Task[None] | None = None

    async def get(self, *, tried_after: float = NEVER, fetched_after: float = NEVER, place: Place = nullcontext) -> T:
        """The value, fetched anew where it is past its lifetime, the last try was not after `tried_after`, or the value itself is not of
        after `fetched_after`; ProviderError.  Only a caller that waits for a fetch takes a `place`.
        """
        if (found := self._known(tried_after, fetched_after)) is not None and found[1] < self._lifetime + self._stale:
            if found[1] >= self._lifetime:
                self._renew_soon()
            return found[0]
        with place():
            return await self._fetched(tried_after, fetched_after)

    async def _fetched(self, tried_after: float, fetched_after: float) -> T:
        async with self._lock:
            now = self._clock()
            if (found := self._known(tried_after, fetched_after)) is not None and found[1] < self._lifetime:
                return found[0]
            if self._failure is not None and now - self._tried < FAILURE_KEPT:
                raise ProviderError(self._failure)
            return await self._renewed()

    def _known(self, tried_after: float, fetched_after: float) -> tuple[T, float] | None:
        """The value and its age in seconds, None where it is not new enough."""
        if self._value is None or self._tried <= tried_after or self._value[1] <= fetched_after:
            return None
        return self._value[0], self._clock() - self._value[1]

    def _renew_soon(self) -> None:
        if self._renewal is None or self._renewal.done():
            self._renewal = spawn(self._renew(), name="provider metadata refresh")

    async def _renew(self) -> None:
        async with self._lock:
            if self._failure is not None and self._clock() - self._tried < FAILURE_KEPT:
                return
            try:
                await self._renewed()
            except ProviderError as error:
                log.warning("provider metadata refresh failed", reason=str(error))

    async def _renewed(self) -> T:
        self._failure = None
        self._tried = self._clock()
        try:
            value = await self._fetch()
        except ProviderError as error:
            self._failure = str(error)
            raise
        finally:
            self._tried = self._clock()
        self._value = (value, self._tried)
        return value
