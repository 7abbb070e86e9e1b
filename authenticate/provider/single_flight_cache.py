"""Single-flight cache: one value with a lifetime, fetched by one caller at a time. Waiting callers share a failure."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

import structlog

from foundation.errors import ProviderError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

T = TypeVar("T")
Slot = Callable[[], AbstractContextManager[None]]  # occupied while a caller waits for a provider; raises ProviderError if none is free

NEGATIVE_TTL = 2.0  # seconds; otherwise every waiting sign-in would retry an unavailable provider in turn
NEVER = float("-inf")


class SingleFlightCache(Generic[T]):
    """Cache of one value; times are Unix seconds.

    After a failed refresh the old value remains available to callers that do not require a newer one.
    For `stale` seconds after its lifetime the old value is returned while a new one is fetched in the background.
    """

    def __init__(self, fetch: Callable[[], Awaitable[T]], *, lifetime: float, stale: float = 0.0, clock: Callable[[], float]):
        self._fetch = fetch
        self._lifetime = lifetime
        self._stale = stale
        self._clock = clock
        self._lock = asyncio.Lock()
        self._value: tuple[T, float] | None = None
        self._failure: str | None = None
        self._tried_at = NEVER
        self._refresh_task: asyncio.Task[None] | None = None

    async def get(self, *, tried_after: float = NEVER, fetched_after: float = NEVER, slot: Slot = nullcontext) -> T:
        """Return the value. Raises ProviderError.

        It is fetched if its lifetime has passed, if the last attempt was not after `tried_after`, or if the value was not fetched
        after `fetched_after`. Only a caller that waits for a fetch occupies a `slot`.
        """
        if (found := self._cached(tried_after, fetched_after)) is not None and found[1] < self._lifetime + self._stale:
            if found[1] >= self._lifetime:
                self._refresh_in_background()
            return found[0]
        with slot():
            return await self._get_or_fetch(tried_after, fetched_after)

    async def _get_or_fetch(self, tried_after: float, fetched_after: float) -> T:
        async with self._lock:
            now = self._clock()
            if (found := self._cached(tried_after, fetched_after)) is not None and found[1] < self._lifetime:
                return found[0]
            if self._failure is not None and now - self._tried_at < NEGATIVE_TTL:
                raise ProviderError(self._failure)
            return await self._fetch_value()

    def _cached(self, tried_after: float, fetched_after: float) -> tuple[T, float] | None:
        """Return the value and its age in seconds, None if it is not new enough."""
        if self._value is None or self._tried_at <= tried_after or self._value[1] <= fetched_after:
            return None
        return self._value[0], self._clock() - self._value[1]

    def _refresh_in_background(self) -> None:
        if self._refresh_task is None or self._refresh_task.done():
            self._refresh_task = spawn(self._refresh(), name="provider metadata refresh")

    async def _refresh(self) -> None:
        async with self._lock:
            if self._failure is not None and self._clock() - self._tried_at < NEGATIVE_TTL:
                return
            try:
                await self._fetch_value()
            except ProviderError as error:
                log.warning("provider metadata refresh failed", reason=str(error))

    async def _fetch_value(self) -> T:
        self._failure = None
        self._tried_at = self._clock()
        try:
            value = await self._fetch()
        except ProviderError as error:
            self._failure = str(error)
            raise
        finally:
            self._tried_at = self._clock()
        self._value = (value, self._tried_at)
        return value
