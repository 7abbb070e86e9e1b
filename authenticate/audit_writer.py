"""Audit trail of what is done outside of the admin: rows of the audit log, written a moment later, many at once."""

import asyncio

import structlog
from asgiref.sync import sync_to_async
from django.db import Error, OperationalError, connection

from databroker.models import AuditEntry
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

GATHERED = 0.2  # seconds
AT_ONCE = 500
MOST_WAITING = 5_000


class AuditTrail:
    """Bounded queue of entries: whoever is faster than the database waits for it."""

    def __init__(self) -> None:
        self._waiting: list[AuditEntry] = []
        self._noted = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_over = False
        self._writer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the writer.  Not from within a request: what asgiref runs for a task's request ends with that request."""
        self._writer = spawn(self._write(), name="audit trail")

    async def stop(self) -> None:
        """Return when all that was noted is in the log, or can't be."""
        self._is_over = True
        self._noted.set()
        if self._writer is not None:
            await asyncio.wait({self._writer})

    async def note(self, entry: AuditEntry) -> None:
        await self._room.wait()
        self._waiting.append(entry)
        self._noted.set()
        if len(self._waiting) >= MOST_WAITING:
            self._room.clear()

    async def _write(self) -> None:
        while True:
            await self._noted.wait()
            if not self._is_over:
                await asyncio.sleep(GATHERED)
            self._noted.clear()
            while some := self._waiting[:AT_ONCE]:
                await _written(some)
                del self._waiting[: len(some)]
                self._room.set()
            if self._is_over:
                return


async def _written(some: list[AuditEntry]) -> None:
    # What was done counts all the same: whom the provider shuts out, or who signs out, must be out.
    for entry, error in await sync_to_async(_write)(some):
        log.error("audit log entry lost", action=entry.action, id=entry.object_id, by=entry.actor_id, error=str(error))


def _write(some: list[AuditEntry]) -> list[tuple[AuditEntry, Exception]]:
    """Write the entries; return those that can't be written, each with its error: they must not take the others with them."""
    try:
        AuditEntry.objects.bulk_create(some, batch_size=100)
    except OperationalError as error:  # the database is unavailable, for each of them
        return [(entry, error) for entry in some]
    except (Error, ValueError):
        return [(entry, problem) for entry in some if (problem := _write_one(entry)) is not None]
    finally:
        connection.close()
    return []


def _write_one(entry: AuditEntry) -> Exception | None:
    try:
        entry.save()
    except (Error, ValueError) as error:
        return error
    return None
