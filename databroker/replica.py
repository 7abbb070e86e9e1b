"""Replica of the data broker: a bounded read cache that the change stream keeps current."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Final

import structlog

from databroker.broker_client import BrokerClient, current_version
from databroker.record_cache import ChangeCounter, RecordCache, select_policy_fields
from databroker.records import (
    ACCESS_GRANT,
    DIRECTORY_GROUP,
    DIRECTORY_USER,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_TOKEN,
    SESSION,
    UPSTREAM_CONNECTION,
    USER,
    Record,
)
from databroker.store.base import NO_POSITION, RecordChange, ResyncRequired
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError
from foundation.readiness import HealthTracker
from foundation.single_flight import SingleFlight
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

MAX_RECORDS_PER_TYPE = 100_000  # the limit of every other type too
# Maximum delay until the replica notices that the broker is back.  Until then it may serve records that have changed.
MAX_BACKOFF = 1.0
# Maximum interval of version checks, because a dead stream looks like an idle one.  There are three checks within `staleness`.
POLL_INTERVAL = 5.0
# Minimum time without a confirmation before the cache is dropped, even if `staleness` is shorter.
MIN_SILENCE = 3.0


class Unknown(Enum):
    """Result for a record that the cache knows nothing about."""

    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = Unknown.UNKNOWN
# Change that callbacks receive if anything may have changed: they drop everything derived from records.
CACHE_CLEARED: Final = RecordChange(0, "", "", None)

REPLICATED_TYPES: Final = (
    SESSION,
    USER,
    DIRECTORY_USER,
    DIRECTORY_GROUP,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_TOKEN,
    ACCESS_GRANT,
    UPSTREAM_CONNECTION,
)
ABSENCE_NOT_CACHED: Final = frozenset({SESSION, SERVICE_ACCOUNT, SERVICE_ACCOUNT_TOKEN, UPSTREAM_CONNECTION})

RecordKey = tuple[str, str]


class Replica:
    """Cache of requested records, at most `max_records` of each type, filled only while `run()` follows the change stream.

    Sessions are cached without their tokens.

    After the stream is lost, cached records are served until it is back, or for `staleness` seconds after they were last confirmed to be
    current.  Then they are dropped, and every `get` queries the broker.  A dead connection is indistinguishable from an idle one, so the
    replica polls the broker's version and confirms the cache once the stream has reached that version; without a confirmation in time it
    drops the cache.

    The absence of a record is cached too, because most users are in no directory.  The exceptions are sessions, service accounts, their
    access tokens, and connections of users to third-party servers: a new one must be found immediately, without waiting for the stream.
    """

    def __init__(
        self,
        client: BrokerClient,
        types: tuple[str, ...] = REPLICATED_TYPES,
        *,
        max_records: int = MAX_RECORDS_PER_TYPE,
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
        self._fetches: SingleFlight[RecordKey, Record | None] = SingleFlight("replica fetch")
        self._callbacks: list[Callable[[RecordChange], None]] = []
        self._is_following = False
        self._staleness_timer: asyncio.TimerHandle | None = None
        self._follow_timeout: asyncio.Timeout | None = None
        self._server_version = ""
        self._position = 0
        self._advanced = asyncio.Event()
        self.health = HealthTracker(clock)  # of the change stream
        # Incremented whenever the cache is cleared, because another server may number its changes from the start.
        self.generation = 0

    @property
    def sync_token(self) -> str:
        """Position, `<server version>:<position>`, for `catch_up` of another process; empty if the stream is not followed."""
        return f"{self._server_version}:{self._position}" if self._is_following else ""

    @property
    def is_following(self) -> bool:
        """Whether changes are received as they occur."""
        return self._is_following

    async def catch_up(self, sync_token: str, timeout: float) -> None:
        """Wait until this replica has reached the position of another replica's `sync_token`; clear the cache after `timeout` seconds.

        This way a process that has received a change never gets a result from before the change.
        """
        server_version, _, version = sync_token.rpartition(":")
        try:
            async with asyncio.timeout(timeout):
                while version and self.is_serving and not self._has_reached(server_version, int(version)):
                    await self._advanced.wait()
        except TimeoutError:
            self._clear_and_notify(is_following=self._is_following)

    @property
    def is_serving(self) -> bool:
        """Whether cached records may be served: while the stream is followed, and for `staleness` seconds after its loss."""
        return self._is_following or self._staleness_timer is not None

    def _has_reached(self, server_version: str, version: int) -> bool:
        return self._server_version == server_version and self._position >= version

    def _advance(self, position: int) -> None:
        self._position = position
        self._advanced.set()
        self._advanced = asyncio.Event()

    def peek(self, type: str, id: str) -> Record | Unknown | None:
        """Return the cached record without waiting, None if it is known to be absent or expired, else UNKNOWN."""
        if (cache := self._cache.get(type)) is None or id not in cache:
            return UNKNOWN
        record = cache.get(id)
        if record is not None and record.expires is not None and record.expires <= self._clock():
            return None
        return record

    @property
    def writes(self) -> int:
        """Number of changes to the cache.  While it is unchanged, `version` returns the same for each record until the record expires."""
        return self._writes.number

    def count(self, type: str) -> int:
        """Return the number of cached records of a type."""
        return len(self._cache[type])

    def version(self, type: str, id: str) -> int | Unknown | None:
        """Return the version of the record that `peek` returns, at a tenth of the cost.

        While it and `generation` are unchanged, the record is the same.
        """
        if (cache := self._cache.get(type)) is None or id not in cache:
            return UNKNOWN
        return cache.version(id, self._clock())

    async def get(self, type: str, id: str) -> Record | None:
        """Return the record from the cache or from the broker.  Concurrent misses of one id share a call.  Raises BrokerError."""
        if (known := self.peek(type, id)) is not UNKNOWN:
            return known
        key = (type, id)
        return await self._fetches.run(key, partial(self._fetch, key))

    def on_change(self, callback: Callable[[RecordChange], None]) -> None:
        """Call `callback` in the stream task for each change of the replica's types, cached or not, after the cache is updated.

        It receives CACHE_CLEARED (compare with `is`) if the cache was cleared.  If a callback raises, the cache is cleared and the stream
        is followed again from the start.
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
                except Exception:  # of a callback: clear, because it missed a change; the next connection sends CACHE_CLEARED
                    log.exception("change callback failed")
                    self._clear(is_following=False)
                await asyncio.sleep(next(backoff))
        finally:
            poller.cancel()
            self._clear_and_notify(is_following=False)

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
        """Record that the cache was current at `moment` of the loop's clock."""
        if self._staleness_timer is not None:
            self._staleness_timer.cancel()
        expires_at = moment + max(self.staleness, self._min_silence)
        self._staleness_timer = asyncio.get_running_loop().call_at(expires_at, self._drop_if_stale)

    async def _follow(self) -> None:
        # The server version is read on each connection, so a restarted server is never mistaken for the previous one.
        started_at = asyncio.get_running_loop().time()
        server_version, position = await self._client.server_version(), NO_POSITION
        while True:
            try:
                async for change in self._client.changes(position):
                    position = change.version
                    if change.type in self._types:
                        self._apply(change)
                    self._advance(position)
                raise BrokerError("the change stream ended")
            except ResyncRequired as resync:
                if position != NO_POSITION:  # the server restarted under the open stream: read its version before trusting positions
                    self._clear_and_notify(is_following=False)
                    started_at = asyncio.get_running_loop().time()
                    server_version, position = await self._client.server_version(), NO_POSITION
                    continue
                position = resync.version
                self._server_version = server_version
                self._clear_and_notify(is_following=True)
                self._confirm_current(started_at)
                self._advance(position)
                self.health.mark_up()
                log.info("replica follows the change stream", server_version=server_version, version=position)

    def _apply(self, change: RecordChange) -> None:
        self._fetches.drop((change.type, change.id))  # a fetch in progress may return a record from before the change
        cache = self._cache[change.type]
        if change.id in cache:
            version = cache.peek_version(change.id)
            # A cached absence has no version to compare, so a change drops it and the next `get` queries the broker.
            if version is None or (change.record is None and version < change.version):
                cache.drop(change.id)
            elif version < change.version:
                cache.put(change.id, select_policy_fields(change.record))
        self._notify(change)

    async def _fetch(self, key: RecordKey) -> Record | None:
        record = select_policy_fields(await self._client.get(*key))
        if self._fetches.is_current(key):  # no change arrived during the fetch
            self._store(key, record)
        return record

    def _store(self, key: RecordKey, record: Record | None) -> None:
        if not self._is_following or key[0] not in self._types or (record is None and key[0] in ABSENCE_NOT_CACHED):
            return
        self._cache[key[0]].put(key[1], record)

    def apply_local_deletion(self, type: str, id: str) -> None:
        """Drop a record that this process has deleted, and notify the callbacks, before the stream reports the deletion."""
        self._fetches.drop((type, id))
        if type in self._types:  # as with a change from the stream: callbacks receive no other type
            self._cache[type].drop(id)
            self._notify(RecordChange(self._position, type, id, None))

    def invalidate(self) -> None:
        """Clear the cache after this process was suspended, because waiting requests may run before missed changes arrive."""
        self._clear_and_notify(is_following=self._is_following)

    def _on_lost_stream(self) -> None:
        """Handle the loss of the stream: serve cached records for `staleness` seconds, or clear the cache if it is 0."""
        if self.staleness <= 0:
            self._clear_and_notify(is_following=False)
            return
        self._is_following = False
        self._fetches.clear()  # these may return records from before a missed change

    def _drop_if_stale(self) -> None:
        log.warning("replica exceeded staleness limit", staleness=self.staleness)
        was_following = self._is_following
        self._clear_and_notify(is_following=False)
        if was_following and self._follow_timeout is not None:  # the dead stream has not reported an error, so end it
            self._follow_timeout.reschedule(asyncio.get_running_loop().time())

    def _clear_and_notify(self, *, is_following: bool) -> None:
        self._clear(is_following=is_following)
        self._notify(CACHE_CLEARED)

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
