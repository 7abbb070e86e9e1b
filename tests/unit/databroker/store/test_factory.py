"""Do the options mean the store that they name?"""

from pathlib import Path

import pytest

from databroker.store.factory import open_store
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.children import free_port
from tests.support.options import make_options


def test_without_a_word_records_live_in_memory(tmp_path: Path) -> None:
    assert isinstance(open_store(make_options(tmp_path)), MemoryStore)


async def test_a_kvstore_that_is_not_there_is_a_broker_error(tmp_path: Path) -> None:
    url = f"kvstore://127.0.0.1:{free_port()}"
    store = open_store(make_options(tmp_path, databroker_storage_type="kvstore", databroker_storage_connection_string=url))
    with pytest.raises(BrokerError, match="databroker_storage_connection_string"):
        await store.get("session", "s")
    await store.close()
