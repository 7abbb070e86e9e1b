"""Store protocol: what a store of records must do.  Three exist: memory, kvstore, database; one test suite runs over all."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog

from databroker.records import Record
from foundation.errors import BrokerError
from foundation.telemetry.metrics import unreadable_records

log = structlog.get_logger(__name__)

# The `since` of a reader that has no place in the stream yet: no store remembers it, so it is told where to begin.
FROM_START: Final = -1


class VersionConflict(BrokerError):
    """`put(only_if_version=...)` found another version: somebody else wrote first."""

    status = 409


class ResyncRequired(BrokerError):
    """The change stream can't be continued from the version asked for: read everything anew, then follow from `version`."""

    def __init__(self, version: int):
        self.version = version
        super().__init__(f"the change stream restarts at version {version}")


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One step of the change stream; `record` is None where it was deleted."""

    version: int
    type: str
    id: str
    record: Record | None


class RecordStore(Protocol):
    """Six methods and no more.  Records past `expires` (Unix seconds) are as good as deleted.

    Data are JSON values and come back as JSON would bring them, a tuple as a list.  Nobody can change them in place.
    """

    async def get(self, type: str, id: str) -> Record | None: ...

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        """Write and return the record with its new version.

        `only_if_version=0` demands that no such record exists, another number that it has this version; else VersionConflict.
        """
        ...

    async def delete(self, type: str, id: str) -> bool:
        """Remove the record; False where there was none."""
        ...

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        """At most `limit` records of this type whose id sorts after `after`, in order of id."""
        ...

    def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        """Every change with a version above `since`, oldest first, then each new one as it comes; never ends by itself.

        A change that a later one of the same record has overtaken may be left out.  Where `since` is not a version that the
        store remembers (ANEW, too old, of an earlier life), raises StartOver; also when it loses its memory under an open stream.
        """
        ...

    async def server_version(self) -> str:
        """Id of the store's life: changes whenever it lost its memory; a client that sees another one starts over."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to do the one thing called `name`; `token` tells this holder from every other."""

    name: str
    token: str = field(repr=False)


class Leases(Protocol):
    """Leases, for what only one of many processes may do.  A lease ends by itself `ttl` seconds after it was last renewed."""

    async def acquire(self, name: str, ttl: float) -> Lease | None:
        """The lease, None where somebody else holds it."""
        ...

    async def renew(self, lease: Lease, ttl: float) -> bool:
        """False where the lease was lost: it ran out, and perhaps another holds it now."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give the lease up: somebody else may have it at once; nothing happens where it was lost already."""
        ...


class StoreBackend(RecordStore, Leases, Protocol):
    """A kind of store: records, leases beside them, and what its elected cleaner does."""

    async def clean(self, limit: int) -> bool:
        """Delete at most `limit` expired records, and forget changes that are too old; True where there is more to do.

        By the earlier of two clocks, ours and the server's, where it has one: whose clock is ahead ends nothing for the others.
        """
        ...

    async def clock_skew(self) -> float:
        """Seconds by which our clock is ahead of the server's, negative where it is behind; 0 where there is no other clock."""
        ...

    async def close(self) -> None: ...


def report_unreadable(type: str, id: str, reason: str) -> None:
    """Count and log a record that can't be read: it is as good as absent."""
    unreadable_records.labels(type).inc()
    log.error("unreadable record skipped", type=type, id=id, reason=reason)
