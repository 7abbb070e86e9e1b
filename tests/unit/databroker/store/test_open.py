"""Do the options mean the store that they name?"""

from pathlib import Path

import pytest

from databroker.store.kvstore import KvStore
from databroker.store.measured import MeasuredStore
from databroker.store.memory import MemoryStore
from databroker.store.open import open_store
from databroker.store.sealed import SealedStore
from foundation.errors import BrokerError
from foundation.telemetry.metrics import registry
from tests.support.children import free_port
from tests.support.options import make_options
from tests.support.redis_server import RedisServer


def test_without_a_word_records_live_in_memory(tmp_path: Path) -> None:
    assert isinstance(open_store(make_options(tmp_path)), MemoryStore)


@pytest.mark.parametrize("kind", ["kvstore", "redis"])
async def test_a_kvstore_is_sealed_and_reached_as_configured(tmp_path: Path, redis_server: RedisServer, kind: str) -> None:
    options = make_options(tmp_path, databroker_storage_type=kind, databroker_storage_connection_string=redis_server.url)
    store = open_store(options)
    await store.put("session", "s", {"access_token": "hunter2"})
    assert isinstance(store, SealedStore)
    assert isinstance(store._store, MeasuredStore)
    assert isinstance(store._store._store, KvStore)
    operations = {"operation": "put", "result": "success", "backend": "kvstore", "service": "databroker"}
    assert registry.get_sample_value("storage_operation_duration_ms_count", operations) >= 1
    assert registry.get_sample_value("kvstore_conns") >= registry.get_sample_value("kvstore_idle_conns") >= 1
    assert "hunter2" not in redis_server.command("--no-raw", "HGETALL", "{gate}records")
    await store.close()


async def test_a_kvstore_that_is_not_there_is_a_broker_error(tmp_path: Path) -> None:
    url = f"kvstore://127.0.0.1:{free_port()}"
    store = open_store(make_options(tmp_path, databroker_storage_type="kvstore", databroker_storage_connection_string=url))
    with pytest.raises(BrokerError, match="databroker_storage_connection_string"):
        await store.get("session", "s")
    await store.close()
