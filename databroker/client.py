"""Data broker client: what other apps may ask of the data broker."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from config.options import Options
from databroker.records import SPENT, Record
from databroker.store.base import ANEW, Lease, RecordChange, StartOver, StoreBackend, VersionConflict
from foundation.errors import BrokerError
from foundation.web.page_context import PageContext, request_context

# Spent ids outlive what they guard by this many seconds, because the clocks of two machines may differ.
CLOCK_SKEW = 60.0
AT_ONCE = 500  # records of a page


class BrokerClient(Protocol):
    """Protocol of a client: the Store and the Leases (there are the promises), plus `spend`.  Any method raises BrokerError when the
    broker is away.
    """

    async def get(self, type: str, id: str) -> Record | None: ...

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record: ...

    async def delete(self, type: str, id: str) -> bool: ...

    async def page(self, type: str, after: str, limit: int) -> list[Record]: ...

    def changes(self, since: int) -> AsyncGenerator[RecordChange]: ...

    async def server_version(self) -> str: ...

    async def acquire(self, name: str, ttl: float) -> Lease | None: ...

    async def renew(self, lease: Lease, ttl: float) -> bool: ...

    async def release(self, lease: Lease) -> None: ...

    async def spend(self, id: str, expires: float) -> bool:
        """True for the first caller with this id and for nobody after; False too for what has long expired.

        The caller checks `expires` (Unix seconds) itself: the id is forgotten a minute after it.
        """
        ...


class BrokerPageContext(PageContext, Protocol):
    """Page context with the configuration in force and the data broker."""

    @property
    def options(self) -> Options: ...
    @property
    def broker(self) -> BrokerClient: ...


page_context: Callable[[Any], BrokerPageContext] = request_context


class ForgettingBroker:
    """Client around another, whose deletions `forget` hears of at once, as (type, id): no sign-out waits for the change stream."""

    def __init__(self, client: BrokerClient, forget: Callable[[str, str], None]):
        self._delete = client.delete
        self._forget = forget
        self.get = client.get
        self.put = client.put
        self.page = client.page
        self.changes = client.changes
        self.server_version = client.server_version
        self.acquire = client.acquire
        self.renew = client.renew
        self.release = client.release
        self.spend = client.spend

    async def delete(self, type: str, id: str) -> bool:
        was_live = await self._delete(type, id)
        self._forget(type, id)
        return was_live


class LocalBroker:
    """Client of the broker in this process: plain calls into its store."""

    def __init__(self, store: StoreBackend):
        self._store = store
        self.get = store.get
        self.put = store.put
        self.delete = store.delete
        self.page = store.page
        self.changes = store.changes
        self.server_version = store.server_version
        self.acquire = store.acquire
        self.renew = store.renew
        self.release = store.release

    async def spend(self, id: str, expires: float) -> bool:
        try:
            record = await self._store.put(SPENT, id, {}, expires=expires + CLOCK_SKEW, only_if_version=0)
        except VersionConflict:
            return False
        # A record that expired before it was written guards nothing: the next caller would succeed as well.
        return record.modified < expires + CLOCK_SKEW


async def every(client: BrokerClient, type: str, after: str = "") -> AsyncGenerator[Record]:
    """Every record of a type, behind the id `after`, in order of id; everything else has its turn between two pages."""
    while page := await client.page(type, after, AT_ONCE):
        for record in page:
            yield record
        after = page[-1].id
        await asyncio.sleep(0)


async def version_of(client: BrokerClient) -> int:
    """The broker's version now: what its change stream tells a reader without a place."""
    try:
        async with aclosing(client.changes(ANEW)) as changes:
            await anext(changes)
    except StartOver as start_over:
        return start_over.version
    raise BrokerError("the change stream does not start at its beginning")
