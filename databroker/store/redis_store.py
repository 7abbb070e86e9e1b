"""Key-value store (Redis): records that processes share and that survive restarts of gate."""

import asyncio
import json
import struct
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha1
from typing import Any

import structlog
from redis.exceptions import NoScriptError, RedisError

from databroker.records import Record
from databroker.store import redis_scripts
from databroker.store.base import Lease, RecordChange, ResyncRequired, VersionConflict, report_unreadable
from databroker.store.frozen import frozen_data
from databroker.store.redis_client import RedisClient
from databroker.store.redis_pipeline import CommandPipeline
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError
from foundation.tasks import spawn
from foundation.telemetry.metrics import watch_connections

log = structlog.get_logger(__name__)

# Timeout of every call in seconds, because a server can hang.
DEADLINE = 3.0
# Interval in seconds at which the listener checks that the server's epoch is unchanged.
BLOCK_SECONDS = 1.0
BATCH_SIZE = 500
# As in memory.py: a long backlog must not block requests.
BURST = 50
# A reader that missed more than this time (seconds) or number of changes must reload everything.
CHANGE_RETENTION = 3600.0
MAX_CHANGES = 1_000_000
NEVER = float("inf")


class RedisStore:
    """Store for one event loop.  Each method is one command or one Lua script, so it is atomic and works in a cluster."""

    def __init__(
        self,
        client: RedisClient,
        clock: Callable[[], float] = time.time,
        *,
        deadline: float = DEADLINE,
        remembered_changes: int = MAX_CHANGES,
    ):
        self._client = client
        self._clock = clock
        self._deadline = deadline
        self._pipeline = CommandPipeline(client.send, deadline)
        self._remembered_changes = remembered_changes
        self._changed = asyncio.Event()
        self._notified_version = 0
        self._listener: asyncio.Task[None] | None = None
        self._closed = False
        watch_connections(client.connections)

    async def get(self, type: str, id: str) -> Record | None:
        found = await self._call("HGET", redis_scripts.KEYS[1], _record_name(type, id))
        record = None if found is None else _unpack_record(type, id, found)
        return None if record is None or (record.expires is not None and record.expires <= self._clock()) else record

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        frozen, now = frozen_data(data), self._clock()
        times = struct.pack(">dd", now, NEVER if expires is None else expires)
        score, condition = "" if expires is None else repr(expires), "" if only_if_version is None else only_if_version
        version = await self._run(redis_scripts.PUT, _record_name(type, id), times, _to_bytes(frozen), repr(now), score, condition)
        if version is None:
            raise VersionConflict(f"the {type} was changed concurrently")
        return Record(type, id, frozen, int(version), now, expires)

    async def delete(self, type: str, id: str) -> bool:
        return bool(await self._run(redis_scripts.DELETE, _record_name(type, id), repr(self._clock())))

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        first, end = b"(" + _record_name(type, after), b"(" + type.encode() + b"\1"
        if limit <= 0:
            return []
        found = await self._run(redis_scripts.PAGE, first, end, limit, repr(self._clock()))
        records = [_unpack_record(*_type_and_id(name), packed) for name, packed in zip(found[::2], found[1::2], strict=True)]
        return [record for record in records if record is not None]

    async def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        while True:
            if self._closed:
                raise BrokerError("the store is closed")
            changed = self._changed  # read before the query, so that a wake-up during it is not missed
            must_resync, reported_version, *found = await self._run(redis_scripts.CHANGES, since, BATCH_SIZE)
            version = int(reported_version)
            if must_resync:
                self._reset_listener_if_behind(version)
                raise ResyncRequired(version)
            for number, (name, packed) in enumerate(zip(found[::2], found[1::2], strict=True), 1):
                change = _unpack_change(name, packed)
                since = change.version
                yield change
                if number % BURST == 0:
                    await asyncio.sleep(0)
            if len(found) < 2 * BATCH_SIZE:
                since = version
                await self._wait_for_change(version, changed)

    async def server_version(self) -> str:
        return str(await self._run(redis_scripts.EPOCH), "ascii")

    async def close(self) -> None:
        self._closed = True
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait({self._listener})
        self._wake_readers()
        with suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(self._deadline):
                await self._client.aclose()

    async def acquire(self, name: str, ttl: float) -> Lease | None:
        lease = Lease(name, uuid.uuid4().hex)
        is_acquired = await self._run(redis_scripts.ACQUIRE, lease.token, _milliseconds(ttl), keys=(redis_scripts.LEASE + name,))
        return lease if is_acquired else None

    async def renew(self, lease: Lease, ttl: float) -> bool:
        return bool(await self._run(redis_scripts.RENEW, lease.token, _milliseconds(ttl), keys=(redis_scripts.LEASE + lease.name,)))

    async def release(self, lease: Lease) -> None:
        await self._run(redis_scripts.RELEASE, lease.token, keys=(redis_scripts.LEASE + lease.name,))

    async def clean(self, limit: int) -> bool:
        now = self._clock()
        expired = int(await self._run(redis_scripts.EXPIRE, repr(now), limit))
        forgotten = int(await self._run(redis_scripts.COMPACT, repr(now), CHANGE_RETENTION, self._remembered_changes, limit))
        return limit in (expired, forgotten)

    async def clock_skew(self) -> float:
        started_at = self._clock()
        server_time = float(await self._run(redis_scripts.CLOCK))
        return (started_at + self._clock()) / 2 - server_time

    async def _wait_for_change(self, version: int, changed: asyncio.Event) -> None:
        if self._listener is None:
            self._listener = spawn(self._listen(), name="news of the kvstore")
        if version >= self._notified_version and not self._closed:
            await changed.wait()

    def _reset_listener_if_behind(self, version: int) -> None:
        """Restart the listener if the store was wiped: it waits for versions above those of the previous data."""
        if self._listener is not None and version < self._notified_version:
            self._listener.cancel()
            self._listener, self._notified_version = None, 0

    async def _listen(self) -> None:
        """Wait for changes on one connection for all readers of this process.

        Also wakes them if the server is unavailable or has a new epoch.
        """
        backoff, epoch = backoff_delays(0.05), ""
        while True:
            try:
                if not epoch:
                    epoch, self._notified_version = await self._check_eviction_policy(), 0
                    self._wake_readers()  # what they have read may be of an earlier epoch
                if found := await self._read_new_version():
                    self._notified_version = _parse_version(found)
                    self._wake_readers()
                elif epoch != (epoch := await self.server_version()):
                    self._notified_version = 0  # the versions of the new epoch may be lower
                    self._wake_readers()
                backoff = backoff_delays(0.05)
            except Exception as error:
                # Log any error and continue, because without this loop no reader would receive another sign-out.
                if not isinstance(error, BrokerError):
                    log.exception("reading change notifications failed")
                epoch, self._notified_version = "", 0
                self._wake_readers()  # their own queries then report the error
                await asyncio.sleep(next(backoff))

    async def _check_eviction_policy(self) -> str:
        policy = str(await self._run(redis_scripts.EVICTION_POLICY), "ascii")
        if policy != "noeviction":
            log.warning("kvstore maxmemory-policy is not noeviction", policy=policy)
        return await self.server_version()

    async def _read_new_version(self) -> Any:
        """Run a blocking read on a separate connection, so that no other response waits for it."""
        block, stream = int(BLOCK_SECONDS * 1000), redis_scripts.KEYS[5]
        with self._translated_errors():
            async with asyncio.timeout(BLOCK_SECONDS + self._deadline):
                (found,) = await self._client.send([("XREAD", "BLOCK", block, "STREAMS", stream, f"{self._notified_version}-0")])
                if isinstance(found, RedisError):
                    raise found
                return found

    def _wake_readers(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _run(self, script: str, *arguments: Any, keys: tuple[str, ...] = redis_scripts.KEYS) -> Any:
        try:
            return await self._call("EVALSHA", _sha1(script), len(keys), *keys, *arguments)
        except NoScriptError:  # the server has restarted or has not received this script
            return await self._call("EVAL", script, len(keys), *keys, *arguments)

    async def _call(self, *command: Any) -> Any:
        """Run a command within the deadline.  Raises BrokerError."""
        with self._translated_errors():
            async with asyncio.timeout(self._deadline):
                return await self._pipeline.execute(command)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate errors of Redis to BrokerError."""
        try:
            yield
        except NoScriptError:
            raise
        except TimeoutError as error:
            spawn(self._client.drop_idle(), name="idle connections end")
            raise BrokerError(f"the kvstore did not respond within {self._deadline:g} s") from error
        except (RedisError, OSError) as error:
            raise BrokerError(f"kvstore (databroker_storage_connection_string) error: {error}") from error


def _record_name(type: str, id: str) -> bytes:
    return f"{type}\0{id}".encode()


def _type_and_id(name: bytes) -> tuple[str, str]:
    type, _, id = name.decode().partition("\0")
    return type, id


def _unpack_record(type: str, id: str, packed: bytes) -> Record | None:
    """Return the record, or None if it was deleted or is unreadable."""
    if len(packed) == redis_scripts.HEADER_BYTES:
        return None
    try:
        version, modified, expires = struct.unpack_from(redis_scripts.HEADER, packed)
        data = frozen_data(json.loads(packed[redis_scripts.HEADER_BYTES :]))
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        report_unreadable(type, id, str(error))
        return None
    return Record(type, id, data, int(version), modified, None if expires == NEVER else expires)


def _unpack_change(name: bytes, packed: bytes) -> RecordChange:
    """Return the change.  An unreadable record is reported as deleted, so that no reader keeps the previous value."""
    type, id = _type_and_id(name)
    return RecordChange(int(struct.unpack_from(">d", packed)[0]), type, id, _unpack_record(type, id, packed))


def _to_bytes(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _parse_version(found: Any) -> int:
    """Return the version of the newest entry in a response to XREAD."""
    return int(found[0][1][-1][0].partition(b"-")[0])


@cache
def _sha1(script: str) -> str:
    return sha1(script.encode(), usedforsecurity=False).hexdigest()
