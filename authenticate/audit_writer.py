"""Buffered writer of audit log entries from outside the admin: entries are written in batches, after a short delay."""

import asyncio

import structlog
from asgiref.sync import sync_to_async
from django.db import Error, OperationalError, connection

from databroker.models import AuditEntry
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

FLUSH_INTERVAL = 0.2  # seconds
BATCH_SIZE = 500
MAX_QUEUE = 5_000


class AuditWriter:
    """Bounded queue of entries. `enqueue` waits while it is full."""

    def __init__(self) -> None:
        self._queue: list[AuditEntry] = []
        self._has_entries = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the writer. Do not call this within a request, because asgiref's threads of a request end with it."""
        self._task = spawn(self._write(), name="audit trail")

    async def stop(self) -> None:
        """Return when all queued entries are written or have failed."""
        self._stopping = True
        self._has_entries.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def enqueue(self, entry: AuditEntry) -> None:
        await self._has_capacity.wait()
        self._queue.append(entry)
        self._has_entries.set()
        if len(self._queue) >= MAX_QUEUE:
            self._has_capacity.clear()

    async def _write(self) -> None:
        while True:
            await self._has_entries.wait()
            if not self._stopping:
                await asyncio.sleep(FLUSH_INTERVAL)
            self._has_entries.clear()
            while some := self._queue[:BATCH_SIZE]:
                await _write_batch(some)
                del self._queue[: len(some)]
                self._has_capacity.set()
            if self._stopping:
                return


async def _write_batch(entries: list[AuditEntry]) -> None:
    # A lost entry does not undo its action: a sign-out or a deactivation must take effect.
    for entry, error in await sync_to_async(_write_entries)(entries):
        log.error("audit log entry lost", action=entry.action, object_id=entry.object_id, actor_id=entry.actor_id, error=str(error))


def _write_entries(entries: list[AuditEntry]) -> list[tuple[AuditEntry, Exception]]:
    """Write the entries. Return those that failed, each with its error; they do not affect the others."""
    try:
        AuditEntry.objects.bulk_create(entries, batch_size=100)
    except OperationalError as error:  # the database is unavailable, for each of them
        return [(entry, error) for entry in entries]
    except (Error, ValueError):
        return [(entry, problem) for entry in entries if (problem := _write_one(entry)) is not None]
    finally:
        connection.close()
    return []


def _write_one(entry: AuditEntry) -> Exception | None:
    try:
        entry.save()
    except (Error, ValueError) as error:
        return error
    return None
