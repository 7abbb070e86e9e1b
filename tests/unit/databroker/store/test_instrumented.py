"""Does each operation count once, by how it ended?"""

from contextlib import suppress

import pytest

from databroker.store.base import VersionConflict
from databroker.store.instrumented import InstrumentedStore
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from foundation.telemetry.metrics import registry


class Breaking(MemoryStore):
    async def get(self, type: str, id: str):
        raise BrokerError("away")


def count(operation: str, result: str, backend: str) -> float:
    labels = {"operation": operation, "result": result, "backend": backend, "service": "databroker"}
    return registry.get_sample_value("storage_operation_duration_ms_count", labels) or 0


async def test_each_operation_is_counted_by_kind() -> None:
    store = InstrumentedStore(MemoryStore(), "counted")
    record = await store.put("session", "a", {})
    assert await store.get("session", "a") == record
    assert await store.page("session", "", 5) == [record]
    assert await store.delete("session", "a")
    assert not await store.clean(5)
    with suppress(VersionConflict):
        await store.put("session", "a", {}, only_if_version=7)
    names = ("get", "put", "list", "delete", "clear_deleted")
    assert [count(name, "success", "counted") for name in names] == [1, 2, 1, 1, 1]
    assert sum(count(name, "error", "counted") for name in names) == 0


async def test_a_store_that_fails_is_counted_as_an_error() -> None:
    with pytest.raises(BrokerError):
        await InstrumentedStore(Breaking(), "breaking").get("session", "a")
    assert (count("get", "error", "breaking"), count("get", "success", "breaking")) == (1, 0)
