"""Broker clients for tests: a real store behind a connection that can be cut, slowed, or switched to another store."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from databroker.records import Record
from databroker.store.base import RecordChange, StoreBackend
from foundation.errors import BrokerError


class DisturbedBroker:
    """Client of a store over a connection that a test can disturb. `requests` lists every (type, id) requested by `get`."""

    def __init__(self, store: StoreBackend):
        self.requests: list[tuple[str, str]] = []
        self.held: asyncio.Event | None = None  # `get` waits for it after reading the store
        self.silent: asyncio.Event | None = None  # all calls and changes wait for it: a stalled connection without an error
        self._cut = asyncio.Event()
        self._connect(store)

    def _connect(self, store: StoreBackend) -> None:
        self._store = store
        self.put, self.delete, self.page = store.put, store.delete, store.page
        self.acquire, self.renew, self.release = store.acquire, store.renew, store.release

    def cut(self) -> None:
        self._cut.set()

    def mend(self, store: StoreBackend | None = None) -> None:
        if store is not None:
            self._connect(store)
        self._cut.clear()

    def _check(self) -> None:
        if self._cut.is_set():
            raise BrokerError("the line is cut")

    async def get(self, type: str, id: str) -> Record | None:
        await self._wait_while_silent()
        self.requests.append((type, id))
        record = await self._store.get(type, id)
        if self.held is not None:
            await self.held.wait()
        self._check()
        return record

    async def server_version(self) -> str:
        await self._wait_while_silent()
        return await self._store.server_version()

    async def _wait_while_silent(self) -> None:
        self._check()
        if self.silent is not None:
            await self.silent.wait()

    async def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        await self._wait_while_silent()
        cut = asyncio.create_task(self._cut.wait())
        async with aclosing(self._store.changes(since)) as changes:
            try:
                while True:
                    following = asyncio.create_task(anext(changes))
                    try:
                        await asyncio.wait({following, cut}, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        if not following.done():
                            following.cancel()
                            await asyncio.wait({following})
                    await self._wait_while_silent()
                    yield following.result()
            finally:
                cut.cancel()
