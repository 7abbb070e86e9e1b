"""Data broker client: the interface that other apps use."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

from config.options import Options
from databroker.records import USED_ID, Record
from databroker.store.base import NO_POSITION, Leases, RecordStore, ResyncRequired, VersionConflict
from foundation.errors import BrokerError
from foundation.web.page_context import PageContext, request_context

# Used ids are stored longer than their values are valid, because the clocks of two machines may differ.
CLOCK_SKEW_SECONDS = 60.0
PAGE_SIZE = 500  # records of a page


class BrokerClient(RecordStore, Leases, Protocol):
    """Store, or its remote client.  Every method raises BrokerError if the broker is unavailable."""


class BrokerPageContext(PageContext, Protocol):
    """Page context with the configuration in force and the data broker."""

    @property
    def options(self) -> Options: ...
    @property
    def broker(self) -> BrokerClient: ...


page_context: Callable[[Any], BrokerPageContext] = request_context


class InvalidatingBroker:
    """BrokerClient that calls `on_deletion(type, id)` right after a deletion, so that sign-out does not wait for the change stream."""

    def __init__(self, client: BrokerClient, on_deletion: Callable[[str, str], None]):
        self._delete = client.delete
        self._on_deletion = on_deletion
        self.get = client.get
        self.put = client.put
        self.page = client.page
        self.changes = client.changes
        self.server_version = client.server_version
        self.acquire = client.acquire
        self.renew = client.renew
        self.release = client.release

    async def delete(self, type: str, id: str) -> bool:
        was_live = await self._delete(type, id)
        self._on_deletion(type, id)
        return was_live


# enforcement-point: Sign-in and sign-out: One-time values
async def consume_once(client: BrokerClient, id: str, expires: float) -> bool:
    """Return True for the first call with this id, False for later ones and for an id that expired over a minute ago.

    The caller checks `expires` (Unix seconds), because the id is deleted a minute after it.
    """
    try:
        record = await client.put(USED_ID, id, {}, expires=expires + CLOCK_SKEW_SECONDS, only_if_version=0)
    except VersionConflict:
        return False
    # A record that had expired when it was written prevents no replay: the next call would succeed too.
    return record.modified < expires + CLOCK_SKEW_SECONDS


# Data and expiry of a record, as `update` writes them.
Edited = tuple[Mapping[str, Any], float | None]


async def update(
    client: BrokerClient, type: str, id: str, edit: Callable[[Record | None], Edited | None], *, attempts: int = 5
) -> Record | None:
    """Replace a record with the result of `edit`, with optimistic locking.

    Returns the written record, or None if `edit` returned None because there is nothing to change.  `edit` is called again after a
    concurrent write.  Raises VersionConflict after `attempts`.
    """
    for _ in range(attempts):
        record = await client.get(type, id)
        edited = edit(record)
        if edited is None:
            return None
        data, expires = edited
        with suppress(VersionConflict):
            return await client.put(type, id, data, expires=expires, only_if_version=record.version if record is not None else 0)
    raise VersionConflict(f"the {type} was changed concurrently too often")


async def iter_records(client: BrokerClient, type: str, after: str = "", limit: int = PAGE_SIZE) -> AsyncGenerator[Record]:
    """Yield the records of a type after the id `after`, in order of id.  Other tasks run between two pages of `limit` records."""
    while page := await client.page(type, after, limit):
        for record in page:
            yield record
        after = page[-1].id
        await asyncio.sleep(0)


async def current_version(client: BrokerClient) -> int:
    """Return the broker's current version, as its change stream reports it to a reader without a position."""
    try:
        async with aclosing(client.changes(NO_POSITION)) as changes:
            await anext(changes)
    except ResyncRequired as start_over:
        return start_over.version
    raise BrokerError("the change stream accepted a reader without a position")
