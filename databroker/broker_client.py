"""Data broker client: what other apps may ask of the data broker."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

from config.options import Options
from databroker.records import USED_ID, Record
from databroker.store.base import FROM_START, Leases, RecordStore, ResyncRequired, VersionConflict
from foundation.errors import BrokerError
from foundation.web.page_context import PageContext, request_context

# Spent ids outlive what they guard by this many seconds, because the clocks of two machines may differ.
CLOCK_SKEW_SECONDS = 60.0
PAGE_SIZE = 500  # records of a page


class BrokerClient(RecordStore, Leases, Protocol):
    """A store, or its remote client.  Any method raises BrokerError when the broker is away."""


class BrokerPageContext(PageContext, Protocol):
    """Page context with the configuration in force and the data broker."""

    @property
    def options(self) -> Options: ...
    @property
    def broker(self) -> BrokerClient: ...


page_context: Callable[[Any], BrokerPageContext] = request_context


class InvalidatingBroker:
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

    async def delete(self, type: str, id: str) -> bool:
        was_live = await self._delete(type, id)
        self._forget(type, id)
        return was_live


# enforcement-point: Sign-in and sign-out: One-time values
async def consume_once(client: BrokerClient, id: str, expires: float) -> bool:
    """Return True for the first caller with this id and False for every other, and for an id that has long expired.

    The caller checks `expires` (Unix seconds) itself: the id is forgotten a minute after it.
    """
    try:
        record = await client.put(USED_ID, id, {}, expires=expires + CLOCK_SKEW_SECONDS, only_if_version=0)
    except VersionConflict:
        return False
    # A record that expired before it was written guards nothing: the next caller would succeed as well.
    return record.modified < expires + CLOCK_SKEW_SECONDS


# What `update` writes: a record's data, and when it expires.
Edited = tuple[Mapping[str, Any], float | None]


async def update(
    client: BrokerClient, type: str, id: str, edit: Callable[[Record | None], Edited | None], *, attempts: int = 5
) -> Record | None:
    """Write what `edit` makes of a record over the version that it was given.  Return the record as written; None where `edit` returned
    None, because there is nothing to change.

    `edit` is called again where another client has written in between.  Raises VersionConflict after `attempts`.
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
    """Every record of a type, behind the id `after`, in order of id; everything else has its turn between two pages of `limit`."""
    while page := await client.page(type, after, limit):
        for record in page:
            yield record
        after = page[-1].id
        await asyncio.sleep(0)


async def current_version(client: BrokerClient) -> int:
    """The broker's version now: what its change stream tells a reader without a place."""
    try:
        async with aclosing(client.changes(FROM_START)) as changes:
            await anext(changes)
    except ResyncRequired as start_over:
        return start_over.version
    raise BrokerError("the change stream does not start at its beginning")
