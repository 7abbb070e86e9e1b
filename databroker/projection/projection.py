"""Projection of the store into the admin's tables: rows are rebuilt from the store for each id in the change stream."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import structlog
from asgiref.sync import sync_to_async
from django.db import Error, models

from databroker.broker_client import BrokerClient, iter_records
from databroker.claims import ProviderClaims
from databroker.models import MAX_ID_LENGTH, ConnectedAccount, DirectoryRun, Group, ServiceAccount, Session, User
from databroker.projection import rows
from databroker.records import (
    DIRECTORY_GROUP,
    DIRECTORY_RUN,
    DIRECTORY_USER,
    SERVICE_ACCOUNT,
    SESSION,
    UPSTREAM_CONNECTION,
    USER,
    Record,
)
from databroker.store.base import NO_POSITION, ResyncRequired
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError

log = structlog.get_logger(__name__)

TYPES: dict[type[models.Model], tuple[str, ...]] = {
    Session: (SESSION,),
    User: (USER, DIRECTORY_USER),
    Group: (DIRECTORY_GROUP,),
    ServiceAccount: (SERVICE_ACCOUNT,),
    DirectoryRun: (DIRECTORY_RUN,),
    ConnectedAccount: (UPSTREAM_CONNECTION,),
}
ADD: dict[type[models.Model], Callable[..., None]] = {
    Session: rows.add_session,
    User: rows.add_user,
    Group: rows.add_group,
    ServiceAccount: rows.add_service_account,
    DirectoryRun: rows.add_directory_run,
    ConnectedAccount: rows.add_connected_account,
}
MODELS = {type: model for model, types in TYPES.items() for type in types}
# SQLite has one writer, so small batches with pauses let the admin write too.
BATCH = 500
PAUSE = 0.05

RowKeys = set[tuple[type[models.Model], str]]


class Projection:
    """Worker that keeps the tables current.

    It reads the current records of every changed row, so reordered and repeated changes cannot leave an outdated row.
    """

    def __init__(
        self, client: BrokerClient, provider_claims: ProviderClaims | None = None, *, pause: float = PAUSE, initial_backoff: float = 0.1
    ):
        self._client = client
        self.provider_claims = provider_claims
        self._pause = pause  # seconds between two batches, and for which a batch collects changes
        self._initial_backoff = initial_backoff  # seconds after the first failure
        self._position = NO_POSITION

    async def run(self) -> None:
        """Load everything, then follow the store forever.  Errors of the store or the database are logged and retried."""
        self._position = NO_POSITION
        backoff = backoff_delays(self._initial_backoff)
        while True:
            try:
                await self._step()
                backoff = backoff_delays(self._initial_backoff)
                await asyncio.sleep(self._pause)
            except ResyncRequired as resync:
                await self._restart(resync.version, next(backoff))
            except Exception as error:
                _log_error("projection lagging", error)
                await asyncio.sleep(next(backoff))

    async def _restart(self, version: int, wait: float) -> None:
        try:
            await self._load()
            self._position = version
        except Exception as error:
            _log_error("projection load failed", error)
            await asyncio.sleep(wait)

    async def _step(self) -> None:
        """Wait for a change, collect the changes that follow closely, and write the batch.  A failed batch is read again."""
        touched: RowKeys = set()
        position = self._position
        async with aclosing(self._client.changes(position)) as changes:
            try:
                async with asyncio.timeout(None) as gathering:
                    async for change in changes:
                        position = change.version
                        if model := MODELS.get(change.type):
                            touched.add((model, change.id))
                        if len(touched) >= BATCH:
                            break
                        if gathering.when() is None:
                            gathering.reschedule(asyncio.get_running_loop().time() + self._pause)
            except TimeoutError:
                pass
        await self._write(touched)
        self._position = position

    async def _load(self) -> None:
        """Write all records of the store, then delete rows without a record, so that the tables are never empty.

        Records that change after their page was read are in the stream that follows.
        """
        for model in TYPES:
            loaded: set[str] = set()
            async for batch in build_batches(self._client, model, self.provider_claims, loaded):
                await self._save(batch)
            await self._remove_all_but(model, loaded)
        log.info("projection loaded")

    async def _remove_all_but(self, model: type[models.Model], loaded: set[str]) -> None:
        after = ""
        while ids := await sync_to_async(rows.ids_after)(model, after, BATCH):
            after = ids[-1]
            if left := [id for id in ids if id not in loaded]:
                await self._write({(model, id) for id in left})
                await asyncio.sleep(self._pause)

    async def _save(self, batch: rows.RowBatch) -> None:
        await sync_to_async(rows.write)(batch)
        await asyncio.sleep(self._pause)

    async def _write(self, touched: RowKeys) -> None:
        if touched:
            await sync_to_async(rows.write)(await build_batch(self._client, touched, self.provider_claims))


async def build_batch(client: BrokerClient, touched: RowKeys, provider_claims: ProviderClaims | None) -> rows.RowBatch:
    """Return the rows of these ids from the current records of the store."""
    batch = rows.RowBatch(provider_claims)
    for model, id in sorted(touched, key=lambda entry: entry[1]):
        add_rows(batch, model, id, *[await client.get(type, id) for type in TYPES[model]])
    return batch


async def build_batches(
    client: BrokerClient, model: type[models.Model], provider_claims: ProviderClaims | None, ids: set[str]
) -> AsyncGenerator[rows.RowBatch]:
    """Yield the rows of all records of a table, and add their ids to `ids`."""
    batch = rows.RowBatch(provider_claims)
    async for id, records in iter_joined_records(client, TYPES[model]):
        add_rows(batch, model, id, *records)
        ids.add(id)
        if len(batch.upserts) >= BATCH:
            yield batch
            batch = rows.RowBatch(provider_claims)
    if batch.upserts or batch.deletes:
        yield batch


async def iter_joined_records(client: BrokerClient, types: tuple[str, ...]) -> AsyncGenerator[tuple[str, tuple[Record | None, ...]]]:
    """Yield each id that has a record of any of these types, in order, with its record of each type or None."""
    pages = [iter_records(client, type) for type in types]
    firsts = [await anext(each, None) for each in pages]
    while ids := [record.id for record in firsts if record is not None]:
        id = min(ids)
        found = tuple(record if record is not None and record.id == id else None for record in firsts)
        yield id, found
        firsts = [await anext(each, None) if taken is not None else first for each, taken, first in zip(pages, found, firsts, strict=True)]


def _log_error(event: str, error: Exception) -> None:
    """Log any error of the loop, which continues because otherwise the tables would stay outdated."""
    if isinstance(error, (BrokerError, Error)):
        log.warning(event, reason=str(error))
    else:
        log.error(event, exc_info=error)


def add_rows(batch: rows.RowBatch, model: type[models.Model], id: str, *records: Record | None) -> None:
    """Add the row of `records`, one for each of the model's types and in that order.

    A record that no row can represent is skipped with a warning, so that the others are written.
    """
    if not rows.is_storable(id):
        log.warning("record id not representable", table=model.__name__, id=id[:MAX_ID_LENGTH])
        return
    try:
        if any(records):
            ADD[model](batch, id, *records)
        else:
            batch.deletes.append((model, id))
    except (TypeError, ValueError) as error:
        log.warning("malformed record not projected", table=model.__name__, id=id, error=type(error).__name__)
        batch.deletes.append((model, id))
