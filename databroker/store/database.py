"""Database store: records in Django's database, SQLite or PostgreSQL, for installations without a key-value store."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any, cast

from django.db import connection, transaction
from django.db.models import CharField, F, Func, Max, Q, Value
from django.db.models.functions import Cast

from databroker.models import StoredLease, StoredRecord, StoreState
from databroker.records import Record
from databroker.store.base import Lease, RecordChange, ResyncRequired, VersionConflict, report_unreadable
from databroker.store.database_threads import DatabaseExecutor
from databroker.store.frozen import frozen_data
from foundation.errors import BrokerError

DEADLINE = 5.0
# Maximum delay of changes from other processes, in seconds; this process's own are seen immediately.
POLL_INTERVAL = 0.1
BATCH_SIZE = 500
BURST = 50
CHANGE_RETENTION = 3600.0
STATE_ID = 1


class DatabaseStore:
    """Store for one event loop.  Each method is one transaction, in a thread."""

    def __init__(self, clock: Callable[[], float] = time.time, *, deadline: float = DEADLINE):
        self._clock = clock
        self._threads = DatabaseExecutor(deadline)
        self._do = self._threads.run
        self._changed = asyncio.Event()
        self._last_poll, self._last_version = 0.0, 0
        self._closed = False

    async def get(self, type: str, id: str) -> Record | None:
        if "\x00" in id:
            return None  # PostgreSQL rejects NUL, and an id from a client must not look like a failure of the store
        row = await self._do(lambda: _live(self._clock()).filter(type=type, record_id=id).first())
        return None if row is None else _record(row)

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        frozen, now = frozen_data(data), self._clock()
        row = StoredRecord(type=type, record_id=id, modified_at=now, expires_at=expires, data=json.dumps(frozen, separators=(",", ":")))
        await self._do(partial(_put, row, now, only_if_version), writes=True)
        self._wake_readers()
        return Record(type, id, frozen, row.version, now, expires)

    async def delete(self, type: str, id: str) -> bool:
        was_live = await self._do(partial(_delete, type, id, self._clock()), writes=True)
        self._wake_readers()
        return was_live

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        now, found = self._clock(), list[Record]()
        while limit > 0 and not found:  # unreadable records must not produce an empty page, which means the end
            rows = await self._do(partial(_page, type, after, limit, now))
            found = [record for record in map(_record, rows) if record is not None]
            if not rows:
                break
            after = rows[-1].record_id
        return found

    async def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        while True:
            if self._closed:
                raise BrokerError("the store is closed")
            changed = self._changed
            version, compacted_version, rows = await self._do(partial(_changes, since))
            if not compacted_version <= since <= version:
                raise ResyncRequired(version)
            for number, row in enumerate(rows, 1):
                yield RecordChange(row.version, row.type, row.record_id, None if row.is_deleted else _record(row))
                if number % BURST == 0:
                    await asyncio.sleep(0)
            since = version if len(rows) < BATCH_SIZE else rows[-1].version
            if len(rows) < BATCH_SIZE:
                await self._wait_for_change(changed)

    async def _wait_for_change(self, changed: asyncio.Event) -> None:
        """Wait for new changes.  One reader at a time polls the version, and wakes the others if it has changed."""
        loop = asyncio.get_running_loop()
        while not changed.is_set():
            try:
                async with asyncio.timeout_at(self._last_poll + POLL_INTERVAL):
                    await changed.wait()
            except TimeoutError:
                if loop.time() < self._last_poll + POLL_INTERVAL:
                    continue  # another reader is polling
                self._last_poll = loop.time()
                version = (await self._do(_state)).version
                if version != self._last_version:
                    self._last_version = version
                    self._wake_readers()

    async def server_version(self) -> str:
        return await self._do(lambda: _state().server_version)

    async def close(self) -> None:
        self._closed = True
        self._wake_readers()
        await self._threads.close()

    async def acquire(self, name: str, ttl: float) -> Lease | None:
        lease = Lease(name, uuid.uuid4().hex)
        return lease if await self._do(partial(_acquire_or_renew, lease, self._clock(), ttl, acquire=True)) else None

    async def renew(self, lease: Lease, ttl: float) -> bool:
        return await self._do(partial(_acquire_or_renew, lease, self._clock(), ttl, acquire=False))

    async def release(self, lease: Lease) -> None:
        await self._do(lambda: StoredLease.objects.filter(name=lease.name, token=lease.token).delete())

    async def clean(self, limit: int) -> bool:
        now = self._clock()
        number = await self._do(partial(_clean, now, limit))
        if number:
            self._wake_readers()
        return number == limit

    async def clock_skew(self) -> float:
        started_at = self._clock()
        server_time = await self._do(lambda: _server_time(self._clock()))
        return (started_at + self._clock()) / 2 - server_time if connection.vendor == "postgresql" else 0.0

    def _wake_readers(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _state() -> StoreState:
    """Return the state row.  After a restart of the server it has a new epoch, because the server may have lost writes that were read."""
    state = _current_state(StoreState.objects)
    if state is None:
        with transaction.atomic():
            state = _locked_state()
    return state


def _locked_state() -> StoreState:
    """Return the state row, locked in the current transaction, so that there is one writer at a time."""
    state = _current_state(StoreState.objects.select_for_update())
    if state is not None:
        return state
    StoreState.objects.get_or_create(pk=STATE_ID, defaults={"version": 0, "compacted_version": 0, "epoch": "", "server_version": ""})
    fresh: Any = StoreState.objects.annotate(current_epoch=_epoch()).select_for_update().get(pk=STATE_ID)
    state = cast(StoreState, fresh)
    if state.epoch != fresh.current_epoch:
        state.version = state.compacted_version = max(state.version + 10**9, time.time_ns() // 1000)
        state.epoch, state.server_version = fresh.current_epoch, uuid.uuid4().hex
        state.save()
    return state


def _current_state(rows: Any) -> StoreState | None:
    state: StoreState | None = rows.annotate(current_epoch=_epoch()).filter(pk=STATE_ID, epoch=F("current_epoch")).first()
    return state


def _epoch() -> Any:
    """Return SQL for the identity of one run of the server; constant for SQLite, which has no server."""
    if connection.vendor == "postgresql":
        return Cast(Func(function="pg_postmaster_start_time"), CharField())
    return Value(connection.vendor, output_field=CharField())


def _next_version(state: StoreState) -> int:
    version: int = state.version + 1
    StoreState.objects.filter(pk=STATE_ID).update(version=version)
    state.version = version
    return version


def _live(now: float) -> Any:
    return StoredRecord.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), is_deleted=False)


def _put(row: StoredRecord, now: float, only_if_version: int | None) -> None:
    with transaction.atomic():
        state = _locked_state()
        now = now if only_if_version is None else _earlier_time(now)
        found = StoredRecord.objects.filter(type=row.type, record_id=row.record_id).first()
        is_live = found is not None and not found.is_deleted and (found.expires_at is None or found.expires_at > now)
        if only_if_version is not None and only_if_version != (found.version if found is not None and is_live else 0):
            raise VersionConflict(f"the {row.type} was changed concurrently")
        row.pk = found.pk if found is not None else None
        row.version = _next_version(state)
        row.save(force_update=found is not None, force_insert=found is None)


def _delete(type: str, id: str, now: float) -> bool:
    with transaction.atomic():
        state = _locked_state()
        found = StoredRecord.objects.filter(type=type, record_id=id, is_deleted=False).first()
        if found is None:
            return False
        was_live = found.expires_at is None or found.expires_at > now
        _write_tombstone(state, found, now)
        return was_live


def _write_tombstone(state: StoreState, row: StoredRecord, now: float) -> None:
    version = _next_version(state)
    StoredRecord.objects.filter(pk=row.pk).update(version=version, modified_at=now, expires_at=None, is_deleted=True, data="")


def _page(type: str, after: str, limit: int, now: float) -> list[StoredRecord]:
    return list(_live(_earlier_time(now)).filter(type=type, record_id__gt=after).order_by("record_id")[:limit])


def _changes(since: int) -> tuple[int, int, list[StoredRecord]]:
    """Return the current version, the compacted version, and the changes above `since`.

    The compacted version is read last, to include a compaction during the query.
    """
    state = _state()
    version = state.version
    if version <= since:
        return version, state.compacted_version, []
    rows = list(StoredRecord.objects.filter(version__gt=since, version__lte=version).order_by("version")[:BATCH_SIZE])
    return version, _state().compacted_version, rows


def _acquire_or_renew(lease: Lease, now: float, ttl: float, *, acquire: bool) -> bool:
    with transaction.atomic():
        _locked_state()
        now = _server_time(now)
        found = StoredLease.objects.filter(name=lease.name).first()
        is_held = found is not None and found.expires_at > now
        if is_held if acquire else not is_held or found is None or found.token != lease.token:
            return False
        StoredLease.objects.update_or_create(name=lease.name, defaults={"token": lease.token, "expires_at": now + ttl})
        return True


def _server_time(local_time: float) -> float:
    """Return the server's time, so that a fast clock does not take over a held lease; the local time for SQLite, a local file."""
    if connection.vendor != "postgresql":
        return local_time
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(cursor.fetchone()[0])


def _earlier_time(local_time: float) -> float:
    """Return the earlier of local and server time, so that a fast clock does not expire records for other processes."""
    return min(local_time, _server_time(local_time))


def _clean(now: float, limit: int) -> int:
    """Delete expired records and old tombstones.  Takes no lock if there are none."""
    now = _earlier_time(now)
    expired = StoredRecord.objects.filter(is_deleted=False, expires_at__lte=now).order_by("expires_at")
    old = StoredRecord.objects.filter(is_deleted=True, modified_at__lt=now - CHANGE_RETENTION).order_by("version")
    if not expired.exists() and not old.exists():
        return 0
    with transaction.atomic():
        state = _locked_state()
        rows = list(expired[:limit])
        for row in rows:
            _write_tombstone(state, row, now)
        gone = [row.pk for row in old[: limit - len(rows)]]
        newest = StoredRecord.objects.filter(pk__in=gone).aggregate(newest=Max("version"))["newest"]
        if newest is not None:
            StoreState.objects.filter(pk=STATE_ID).update(compacted_version=max(state.compacted_version, newest))
            StoredRecord.objects.filter(pk__in=gone).delete()
    return len(rows) + len(gone)


def _record(row: StoredRecord) -> Record | None:
    try:
        data = frozen_data(json.loads(row.data))
    except (ValueError, TypeError, AttributeError) as error:
        report_unreadable(row.type, row.record_id, str(error))
        return None
    return Record(row.type, row.record_id, data, row.version, row.modified_at, row.expires_at)
