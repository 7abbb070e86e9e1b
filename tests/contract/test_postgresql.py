"""Does the store survive what happens to a database server: a restart, and a time without writes?"""

import time

import pytest

from databroker.records import SESSION
from databroker.store.base import StartOver
from gateproject.errors import BrokerError


async def test_a_restarted_server_is_used_again_and_readers_start_over(database_on_postgresql, postgresql):
    store = database_on_postgresql(time.time)
    written = await store.put(SESSION, "a", {"n": 1})
    before = await store.server_version()
    postgresql.restart()
    found, said = None, "database_url"
    for _ in range(10):  # each thread's connection is noticed to be gone once
        try:
            found = await store.get(SESSION, "a")
        except BrokerError as error:
            said = str(error)
    assert found == written
    assert "database_url" in said
    assert await store.server_version() != before
    with pytest.raises(StartOver) as told:
        await anext(store.changes(written.version))
    assert told.value.version > written.version
    await store.close()


async def test_a_server_that_takes_no_writes_says_so_and_is_used_again(database_on_postgresql, postgresql):
    postgresql.query("ALTER DATABASE postgres SET default_transaction_read_only = on")
    try:
        store = database_on_postgresql(time.time)
        with pytest.raises(BrokerError, match="read-only"):
            await store.put(SESSION, "a", {})
        await store.close()
    finally:
        postgresql.query("BEGIN READ WRITE; ALTER DATABASE postgres SET default_transaction_read_only = off; COMMIT")
    store = database_on_postgresql(time.time)
    assert (await store.put(SESSION, "a", {})).id == "a"
    await store.close()
