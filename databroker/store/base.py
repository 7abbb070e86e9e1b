"""Store protocol, implemented by the stores `memory`, `kvstore` and `database`.  One test suite runs against all of them."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog

from databroker.records import Record
from foundation.errors import BrokerError
from foundation.telemetry.metrics import unreadable_records

log = structlog.get_logger(__name__)

# `since` of a reader without a position.  It replays nothing: the reader gets ResyncRequired with the current version.
NO_POSITION: Final = -1


class VersionConflict(BrokerError):
    """`put(only_if_version=...)` found another version, because of a concurrent write."""

    status = 409


class ResyncRequired(BrokerError):
    """The requested version is no longer available.  Reload all records, then follow the stream from `version`."""

    def __init__(self, version: int):
        self.version = version
        super().__init__(f"the change stream restarts at version {version}")


@dataclass(frozen=True, slots=True)
class RecordChange:
    """Change of a record in the change stream; `record` is None if it was deleted."""

    version: int
    type: str
    id: str
    record: Record | None


class RecordStore(Protocol):
    """Store of records.  Records past `expires` (Unix seconds) are treated as deleted.

    Data are JSON values and are returned as JSON would decode them, a tuple as a list.  They are immutable.
    """

    async def get(self, type: str, id: str) -> Record | None: ...

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        """Write the record and return it with its new version.

        Raises VersionConflict if the record does not have the version `only_if_version`; 0 means that it must not exist.
        """
        ...

    async def delete(self, type: str, id: str) -> bool:
        """Delete the record.  Return False if it did not exist."""
        ...

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        """Return at most `limit` records of this type with an id after `after`, in order of id."""
        ...

    def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        """Yield every change with a version above `since`, oldest first, then each new change.  Never ends.

        A change may be omitted if a later one of the same record follows.  Raises ResyncRequired if the store cannot continue from
        `since` (NO_POSITION, too old, or of another server version), also while the stream is open.
        """
        ...

    async def server_version(self) -> str:
        """Return an id that changes whenever the store may have lost writes.  A client that sees a new id must reload everything."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """Exclusive right to do the work `name`; `token` identifies this holder."""

    name: str
    token: str = field(repr=False)


class Leases(Protocol):
    """Leases for work that only one process may do.  A lease expires `ttl` seconds after its last renewal."""

    async def acquire(self, name: str, ttl: float) -> Lease | None:
        """Return the lease, or None if it is held."""
        ...

    async def renew(self, lease: Lease, ttl: float) -> bool:
        """Extend the lease.  Return False if it has expired; another process may hold it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Release the lease for the next holder; no effect if it has been lost."""
        ...


class StoreBackend(RecordStore, Leases, Protocol):
    """Implementation of a store: records, leases, and the work of the elected sweep."""

    async def clean(self, limit: int) -> bool:
        """Delete at most `limit` expired records, and compact old changes.  Return True if more remain.

        Uses the earlier of the local time and the server's time, so that a fast clock does not expire records for other processes.
        """
        ...

    async def clock_skew(self) -> float:
        """Return the seconds by which the local clock is ahead of the server's; negative if behind, 0 without a server clock."""
        ...

    async def close(self) -> None: ...


def report_unreadable(type: str, id: str, reason: str) -> None:
    """Count and log an unreadable record, which is treated as absent."""
    unreadable_records.labels(type).inc()
    log.error("unreadable record skipped", type=type, id=id, reason=reason)
