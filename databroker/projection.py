"""How do the admin's tables follow the store?  The change stream says what was touched; rows are made from what the store has."""

import asyncio
from contextlib import aclosing

import structlog
from asgiref.sync import sync_to_async
from django.db import Error, models

from databroker import rows
from databroker.backoff import pauses
from databroker.client import BrokerClient
from databroker.models import Group, Session, User
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SESSION, USER
from databroker.store.base import ANEW, StartOver
from gateproject.errors import BrokerError

log = structlog.get_logger(__name__)

MODELS: dict[str, type[models.Model]] = {SESSION: Session, USER: User, DIRECTORY_USER: User, DIRECTORY_GROUP: Group}
# SQLite has one writer: small batches with pauses leave the admin room for its own writes.
BATCH = 200
PAUSE = 0.05

Touched = set[tuple[type[models.Model], str]]


class Projection:
    """Reads the store anew for every row, so neither the order of changes nor a repeated one can leave a wrong row behind."""

    def __init__(self, client: BrokerClient, *, pause: float = PAUSE, first_wait: float = 0.1):
        self._client = client
        self._pause = pause  # seconds between two batches; a batch gathers changes for as long
        self._first_wait = first_wait  # seconds after the first failure
        self._position = ANEW

    async def run(self) -> None:
        """Follow the store forever; trouble with it or with the database is logged and tried again."""
        waits = pauses(self._first_wait)
        while True:
            try:
                await self._step()
                waits = pauses(self._first_wait)
                await asyncio.sleep(self._pause)
            except StartOver as start_over:
                await self._restart(start_over.version, next(waits))
            except (BrokerError, Error) as error:
                log.warning("the admin's tables can't follow the store", reason=str(error))
                await asyncio.sleep(next(waits))

    async def _restart(self, version: int, wait: float) -> None:
        try:
            await self._load()
            self._position = version
        except (BrokerError, Error) as error:
            log.warning("the admin's tables can't be filled", reason=str(error))
            await asyncio.sleep(wait)

    async def _step(self) -> None:
        """Wait for a change, gather what comes close upon it, write; a batch that can't be written is read again."""
        touched: Touched = set()
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
        """Everything the store has, and then away with the rows that it has not."""
        for type, model in MODELS.items():
            after = ""
            while page := await self._client.page(type, after, BATCH):
                await self._write({(model, record.id) for record in page})
                after = page[-1].id
                await asyncio.sleep(self._pause)
        for model in (Session, User, Group):
            after = ""
            while ids := await sync_to_async(rows.ids_after)(model, after, BATCH):
                await self._write({(model, id) for id in ids if not await self._is_backed(model, id)})
                after = ids[-1]
                await asyncio.sleep(self._pause)
        log.info("the admin's tables are filled")

    async def _is_backed(self, model: type[models.Model], id: str) -> bool:
        types = [type for type, its_model in MODELS.items() if its_model is model]
        return any([await self._client.get(type, id) for type in types])

    async def _write(self, touched: Touched) -> None:
        if not touched:
            return
        batch = rows.Rows()
        for model, id in sorted(touched, key=lambda entry: entry[1]):
            if model is Session:
                rows.add_session(batch, id, await self._client.get(SESSION, id))
            elif model is User:
                rows.add_user(batch, id, await self._client.get(USER, id), await self._client.get(DIRECTORY_USER, id))
            else:
                rows.add_group(batch, id, await self._client.get(DIRECTORY_GROUP, id))
        await sync_to_async(rows.write)(batch)
