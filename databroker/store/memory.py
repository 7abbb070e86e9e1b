"""Memory store: records in this process.  After a restart all users sign in again."""

import asyncio
import time
import uuid
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

from databroker.records import Record
from databroker.store.base import Lease, RecordChange, ResyncRequired, VersionConflict
from databroker.store.frozen import frozen_data
from foundation.errors import BrokerError

MAX_CHANGES = 100_000
BURST = 200

RecordKey = tuple[str, str]


class MemoryStore:
    """Store for one event loop.  No method awaits during its work, so each is atomic.

    The log contains the last change of each record, at most `remembered_changes`.  A reader holds only its version, so a slow one uses no
    memory and blocks no other; it gets ResyncRequired.
    """

    def __init__(self, clock: Callable[[], float] = time.time, *, remembered_changes: int = MAX_CHANGES):
        self._clock = clock
        self._remembered_changes = remembered_changes
        self._records: dict[RecordKey, Record] = {}
        self._ids: defaultdict[str, list[str]] = defaultdict(list)  # by type, sorted
        self._expiries: list[tuple[float, int, RecordKey]] = []  # a heap; entries of overwritten records are skipped when popped
        self._version = 0
        self._compacted_version = 0  # changes up to this version have left the log
        self._log: OrderedDict[int, RecordChange] = OrderedDict()
        self._last_change: dict[RecordKey, int] = {}
        self._changed = asyncio.Event()
        self._server_version = uuid.uuid4().hex
        self._leases: dict[str, tuple[Lease, float]] = {}  # with its expiry
        self._closed = False

    async def get(self, type: str, id: str) -> Record | None:
        return self._live((type, id))

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        key = (type, id)
        found = self._live(key)
        if only_if_version is not None and only_if_version != (found.version if found else 0):
            raise VersionConflict(f"the {type} was changed concurrently")
        record = Record(type, id, frozen_data(data), self._version + 1, self._clock(), expires)
        if key not in self._records:
            insort(self._ids[type], id)
        self._records[key] = record
        if expires is not None:
            self._schedule_expiry(expires, record.version, key)
        self._append_change(RecordChange(record.version, type, id, record))
        return record

    async def delete(self, type: str, id: str) -> bool:
        was_live = self._live((type, id)) is not None
        if (type, id) in self._records:
            self._remove((type, id))
        return was_live

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        ids = self._ids.get(type, [])
        rest = (self._live((type, ids[at])) for at in range(bisect_right(ids, after), len(ids)))
        return list(islice((record for record in rest if record is not None), max(limit, 0)))

    async def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        while True:
            if self._closed:
                raise BrokerError("the store is closed")
            if not self._compacted_version <= since <= self._version:
                raise ResyncRequired(self._version)
            if since == self._version:
                await self._changed.wait()
                continue
            since += 1
            if (change := self._log.get(since)) is not None:
                yield change
            if since % BURST == 0:
                await asyncio.sleep(0)  # so that a long backlog does not block requests

    async def server_version(self) -> str:
        return self._server_version

    async def close(self) -> None:
        self._closed = True
        self._wake_readers()

    async def acquire(self, name: str, ttl: float) -> Lease | None:
        if name in self._leases and self._leases[name][1] > self._clock():
            return None
        lease = Lease(name, uuid.uuid4().hex)
        self._leases[name] = (lease, self._clock() + ttl)
        return lease

    async def renew(self, lease: Lease, ttl: float) -> bool:
        holder, expires_at = self._leases.get(lease.name, (None, 0.0))
        if holder != lease or expires_at <= self._clock():
            return False
        self._leases[lease.name] = (lease, self._clock() + ttl)
        return True

    async def release(self, lease: Lease) -> None:
        if self._leases.get(lease.name, (None, 0.0))[0] == lease:
            del self._leases[lease.name]

    async def clock_skew(self) -> float:
        return 0.0

    async def clean(self, limit: int) -> bool:
        self.expire(self._clock(), limit)
        return self.has_expired(self._clock())

    def expire(self, now: float, limit: int = 1000) -> int:
        """Delete records that expired by `now`, and return their number.  Processes at most `limit` entries; repeat while `has_expired`."""
        removed = 0
        for _ in range(limit):
            if not self.has_expired(now):
                break
            _, version, key = heappop(self._expiries)
            if (record := self._records.get(key)) is not None and record.version == version:
                self._remove(key)
                removed += 1
        return removed

    def has_expired(self, now: float) -> bool:
        return bool(self._expiries) and self._expiries[0][0] <= now

    def _live(self, key: RecordKey) -> Record | None:
        record = self._records.get(key)
        if record is None or (record.expires is not None and record.expires <= self._clock()):
            return None
        return record

    def _remove(self, key: RecordKey) -> None:
        type, id = key
        del self._records[key]
        ids = self._ids[type]
        del ids[bisect_left(ids, id)]
        self._append_change(RecordChange(self._version + 1, type, id, None))

    def _schedule_expiry(self, expires: float, version: int, key: RecordKey) -> None:
        heappush(self._expiries, (expires, version, key))
        # Rebuild the heap, because each session refresh adds an entry, hours before the earlier entries are popped.
        if len(self._expiries) > 2 * len(self._records) + 1000:
            self._expiries = [(r.expires, r.version, key) for key, r in self._records.items() if r.expires is not None]
            heapify(self._expiries)

    def _append_change(self, change: RecordChange) -> None:
        self._version = change.version
        key = (change.type, change.id)
        self._log.pop(self._last_change.get(key, 0), None)
        self._log[change.version] = change
        self._last_change[key] = change.version
        if len(self._log) > self._remembered_changes:
            self._compacted_version, oldest = self._log.popitem(last=False)
            del self._last_change[(oldest.type, oldest.id)]
        self._wake_readers()

    def _wake_readers(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
