"""Store metrics: a wrapper that measures each operation of a store."""

import time
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from databroker.records import Record
from databroker.store.base import StoreBackend, VersionConflict
from foundation.errors import BrokerError
from foundation.telemetry.metrics import storage_operation_duration
from foundation.telemetry.tracing.spans import span

Result = TypeVar("Result")


class InstrumentedStore:
    """Store wrapper that counts and times operations.  A VersionConflict is not counted as an error."""

    def __init__(self, store: StoreBackend, backend: str):
        self._store = store
        self._backend = backend
        self.changes = store.changes
        self.server_version = store.server_version
        self.close = store.close
        self.acquire = store.acquire
        self.renew = store.renew
        self.release = store.release
        self.clock_skew = store.clock_skew

    async def get(self, type: str, id: str) -> Record | None:
        return await self._measure("get", self._store.get(type, id))

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        return await self._measure("put", self._store.put(type, id, data, expires=expires, only_if_version=only_if_version))

    async def delete(self, type: str, id: str) -> bool:
        return await self._measure("delete", self._store.delete(type, id))

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        return await self._measure("list", self._store.page(type, after, limit))

    async def clean(self, limit: int) -> bool:
        return await self._measure("clear_deleted", self._store.clean(limit))

    async def _measure(self, operation: str, work: Awaitable[Result]) -> Result:
        started, result = time.perf_counter(), "success"
        try:
            with span(f"{self._backend}.{operation}"):
                return await work
        except VersionConflict:
            raise
        except BrokerError:
            result = "error"
            raise
        finally:
            milliseconds = (time.perf_counter() - started) * 1000
            storage_operation_duration.labels(operation, result, self._backend, "databroker").observe(milliseconds)
