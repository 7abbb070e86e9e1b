"""Replica of the data broker: a bounded read cache, kept right by the change stream."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Final

import structlog

from databroker.broker_client import BrokerClient, current_version
from databroker.record_cache import ChangeCounter, RecordCache, without_non_policy_fields
from databroker.records import ACCESS_GRANT, DIRECTORY_GROUP, DIRECTORY_USER, SERVICE_ACCOUNT, SESSION, USER, Record
from databroker.store.base import FROM_START, RecordChange, ResyncRequired
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError
from foundation.readiness import HealthTracker
from foundation.single_flight import SingleFlight
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

MAX_SESSIONS = 100_000  # and as many users, directory users and groups
# So late at most does it see that a broker is back: until then records that were changed meanwhile may still be served.
MAX_BACKOFF = 1.0
# Silence is no sign of life: so often at most is asked whether the copy is right, three times within the staleness.
POLL_INTERVAL = 5.0
# Less silence than this is no loss, whatever the staleness.
MIN_SILENCE = 3.0


class Unknown(Enum):
    """Result for a record of which the cache holds nothing."""

    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = Unknown.UNKNOWN
# What callbacks get when anything may have changed: drop whatever was derived from records.
EVERYTHING: Final = RecordChange(0, "", "", None)

ABSENCE_NOT_CACHED: Final = frozenset({SESSION, SERVICE_ACCOUNT})

type_and_id = tuple[str, str]


class Replica:
    """Cache of what was asked for, at most `max_records` of each type, sessions without their tokens, and only while `run()` follows the
    change stream.

    What is cached is served for `staleness` seconds after the last moment at which it is known to have been right, or until the stream
    is back; then it is dropped, and every `get` asks the broker.  A line that goes silent tells nobody: so the broker is asked again
    and again which version it is at, and what it says counts when the stream has brought as much.

    That there is no such record is remembered too (most people are in no directory), except for sessions and service accounts:
    whoever has just signed in, or was made, must be seen at once, not when the stream says so.
    """

    def __init__(
        self,
        client: BrokerClient,
        types: tuple[str, ...] = (SESSION, USER, DIRECTORY_USER, DIRECTORY_GROUP, SERVICE_ACCOUNT, ACCESS_GRANT),
        *,
        max_records: int = MAX_SESSIONS,
        initial_backoff: float = 0.1,
        staleness: float = 0.0,
        min_silence: float = MIN_SILENCE,
        clock: Callable[[], float] = time.time,
    ):
        self._client = client
        self._types = frozenset(types)
        self._initial_backoff = initial_backoff
        self.staleness = staleness
        self._min_silence = min_silence
        self._clock = clock
        self._writes = ChangeCounter()
        self._cache = {type: RecordCache(type, max_records, self._writes) for type in types}
        self._fetches: SingleFlight[type_and_id, Record | None] = SingleFlight("replica fetch")
        self._callbacks: list[Callable[[RecordChange], None]] = []
        self._is_following = False
        self._staleness_timer: asyncio.TimerHandle | None = None
        self._follow_timeout: asyncio.Timeout | None = None
        self._server_version = ""
        self._position = 0
        self._advanced = asyncio.Event()
        self.health = HealthTracker(clock)  # of the change stream
        # Grows whenever the cache is cleared: another server may number its changes from the beginning.
        self.generation = 0

    @property
    def seen(self) -> str:
        """Version up to which this copy is right, for another process's `catch_up`; empty while nothing is known."""
        return f"{self._server_version}:{self._position}" if self._is_following else ""

    @property
    def is_following(self) -> bool:
        """Whether every change is heard of as it comes."""
        return self._is_following

    async def catch_up(self, seen: str, timeout: float) -> None:
        """Return when nothing here is older than `seen`, another replica's; what does not arrive within `timeout` seconds is dropped.

        So a process that heard of a change is never answered from what was true before it.
        """
        server_version, _, version = seen.rpartition(":")
        try:
            async with asyncio.timeout(timeout):
                while version and self.is_serving and not self._has_reached(server_version, int(version)):
                    await self._advanced.wait()
        except TimeoutError:
            self._reset(is_following=self._is_following)

    @property
    def is_serving(self) -> bool:
        """Whether what is cached may be served: while the stream is followed, and for the staleness after it."""
        return self._is_following or self._staleness_timer is not None

    def _has_reached(self, server_version: str, version: int) -> bool:
        return self._server_version == server_version and self._position >= version

    def _advance(self, position: int) -> None:
        self._position = position
        self._advanced.set()
        self._advanced = asyncio.Event()

    def peek(self, type: str, id: str) -> Record | Unknown | None:
        """The record if it is cached, without waiting; None where it is known that no such record exists (or it expired)."""
        if (cache := self._cache.get(type)) is None or id not in cache:
            return UNKNOWN
        record = cache.get(id)
        if record is not None and record.expires is not None and record.expires <= self._clock():
            return None
        return record

    @property
    def writes(self) -> int:
        """Number of changes of what is cached, whatever they were: as long as it stays, each `version` does, but for what expires."""
        return self._writes.number

    def count(self, type: str) -> int:
        """Number of records that are cached."""
        return len(self._cache[type])

    def version(self, type: str, id: str) -> int | Unknown | None:
        """The version of what `peek` would find, for a tenth of its price: as long as it and `life` stay, the record is the same."""
        if (cache := self._cache.get(type)) is None or id not in cache:
            return UNKNOWN
        return cache.version(id, self._clock())

    async def get(self, type: str, id: str) -> Record | None:
        """The record, from the cache or from the broker; BrokerError.  Callers that miss the same id share one call."""
        if (known := self.peek(type, id)) is not UNKNOWN:
            return known
        key = (type, id)
        return await self._fetches.run(key, partial(self._fetch, key))

    def on_change(self, callback: Callable[[RecordChange], None]) -> None:
        """Call `callback` inside the stream task for each change of our types, cached or not, after the cache has heard of it.

        It gets EVERYTHING (compare with `is`) when the cache was cleared.  Where it raises all begins anew, with EVERYTHING.
        """
        self._callbacks.append(callback)

    async def run(self) -> None:
        """Follow the change stream forever."""
        backoff = backoff_delays(self._initial_backoff, MAX_BACKOFF)
        poller = spawn(self._poll_forever(), name="is the replica right")
        try:
            while True:
                try:
                    async with asyncio.timeout(None) as self._follow_timeout:
                        await self._follow()
                except (BrokerError, TimeoutError) as error:
                    if self._is_following:
                        backoff = backoff_delays(self._initial_backoff, MAX_BACKOFF)
                        self._on_lost_stream()
                    reason = str(error) or "timeout"
                    self.health.mark_down(reason)
                    log.warning("replica lost the change stream", reason=reason)
                except Exception:  # of a callback: nobody goes on from what it missed, and everybody is told EVERYTHING next
                    log.exception("change callback failed")
                    self._clear(is_following=False)
                await asyncio.sleep(next(backoff))
        finally:
            poller.cancel()
            self._reset(is_following=False)

    async def _poll_forever(self) -> None:
        while True:
            max_silence = max(self.staleness, self._min_silence)
            await asyncio.sleep(min(max_silence / 3, POLL_INTERVAL))
            started_at, generation = asyncio.get_running_loop().time(), self.generation
            with suppress(BrokerError, TimeoutError):
                async with asyncio.timeout(max_silence):
                    version = await current_version(self._client)
                    while self._is_following and self.generation == generation and self._position < version:
                        await self._advanced.wait()
                if self._is_following and self.generation == generation:
                    self._confirm_current(started_at)

    def _confirm_current(self, moment: float) -> None:
        """Note that all that is cached is right at this moment of the loop's clock."""
        if self._staleness_timer is not None:
            self._staleness_timer.cancel()
        expires_at = moment + max(self.staleness, self._min_silence)
        self._staleness_timer = asyncio.get_running_loop().call_at(expires_at, self._drop_if_stale)

    async def _follow(self) -> None:
        # Each beginning asks anew who the server is, so one that restarted (another server version) is never mistaken for the old one.
        started_at = asyncio.get_running_loop().time()
        server_version, position = await self._client.server_version(), FROM_START
        while True:
            try:
                async for change in self._client.changes(position):
                    position = change.version
                    if change.type in self._types:
                        self._apply(change)
                    self._advance(position)
                raise BrokerError("the change stream ended")
            except ResyncRequired as resync:
                if position != FROM_START:  # it restarted and the line held: who it is now must be asked before its versions count
                    self._reset(is_following=False)
                    started_at = asyncio.get_running_loop().time()
                    server_version, position = await self._client.server_version(), FROM_START
                    continue
                position = resync.version
                self._server_version = server_version
                self._reset(is_following=True)
                self._confirm_current(started_at)
                self._advance(position)
                self.health.mark_up()
                log.info("replica follows the change stream", server_version=server_version, version=position)

    def _apply(self, change: RecordChange) -> None:
        self._fetches.drop((change.type, change.id))  # what this one brings may be older than the change
        cache = self._cache[change.type]
        if change.id in cache:
            version = cache.peek_version(change.id)
            # Nothing says how old "no such record" is, so a change never fills it in: the next `get` asks.
            if version is None or (change.record is None and version < change.version):
                cache.drop(change.id)
            elif version < change.version:
                cache.put(change.id, without_non_policy_fields(change.record))
        self._notify(change)

    async def _fetch(self, key: type_and_id) -> Record | None:
        record = without_non_policy_fields(await self._client.get(*key))
        if self._fetches.is_current(key):  # no change has overtaken it
            self._store(key, record)
        return record

    def _store(self, key: type_and_id, record: Record | None) -> None:
        if not self._is_following or key[0] not in self._types or (record is None and key[0] in ABSENCE_NOT_CACHED):
            return
        self._cache[key[0]].put(key[1], record)

    def forget(self, type: str, id: str) -> None:
        """Drop a record that this process has deleted, before the stream reports the deletion."""
        self._fetches.drop((type, id))
        if type in self._types:  # as for a change of the stream: no listener knows any other type
            self._cache[type].drop(id)
            self._notify(RecordChange(self._position, type, id, None))

    def invalidate(self) -> None:
        """Drop what is cached: this process has stood still, and the changes that it missed may come after the questions that it missed."""
        self._reset(is_following=self._is_following)

    def _on_lost_stream(self) -> None:
        """Handle the end of the stream: what is cached is all that may be served, and not for long."""
        if self.staleness <= 0:
            self._reset(is_following=False)
            return
        self._is_following = False
        self._fetches.clear()  # what these bring may be older than a change that we did not hear of

    def _drop_if_stale(self) -> None:
        log.warning("replica exceeded staleness limit", staleness=self.staleness)
        was_following = self._is_following
        self._reset(is_following=False)
        if was_following and self._follow_timeout is not None:  # the stream does not know yet that it is dead
            self._follow_timeout.reschedule(asyncio.get_running_loop().time())

    def _reset(self, *, is_following: bool) -> None:
        self._clear(is_following=is_following)
        self._notify(EVERYTHING)

    def _clear(self, *, is_following: bool) -> None:
        self._is_following = is_following
        if self._staleness_timer is not None:
            self._staleness_timer.cancel()
            self._staleness_timer = None
        self._advanced.set()
        self._advanced = asyncio.Event()
        self.generation += 1
        for cache in self._cache.values():
            cache.clear()
        self._fetches.clear()

    def _notify(self, change: RecordChange) -> None:
        for callback in self._callbacks:
            callback(change)
