"""Does the store survive what happens to a database server: a restart, and a time without writes?"""

import asyncio
import time

import pytest

from databroker.records import SESSION
from databroker.store.base import StartOver
from gateproject.errors import BrokerError
from tests.support.faulty_line import FaultyLine
from tests.support.stores import use_postgresql


async def test_a_restarted_server_is_used_again_and_readers_start_over(database_on_postgresql, postgresql):
    store = database_on_postgresql(time.time)
    written = await store.put(SESSION, "a", {"n": 1})
    before = await store.server_version()
    postgresql.restart()
    for _ in range(10):  # with each thread's connection, none of which lives
        assert await store.get(SESSION, "a") == written
    assert await store.server_version() != before
    with pytest.raises(StartOver) as told:
        await anext(store.changes(written.version))
    assert told.value.version > written.version
    await store.close()


async def test_a_line_that_goes_silent_holds_nobody_up_and_costs_no_thread(database_on_postgresql, postgresql, monkeypatch):
    with FaultyLine(postgresql.port) as line:
        use_postgresql(postgresql.url.replace(str(postgresql.port), str(line.port)), monkeypatch)
        store = database_on_postgresql(time.time, deadline=1)
        await store.put(SESSION, "a", {"n": 1})
        await asyncio.gather(*(store.get(SESSION, "a") for _ in range(20)))
        line.silence()
        calls = [store.get(SESSION, "a") for _ in range(10)] + [store.put(SESSION, str(number), {}) for number in range(10)]
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {BrokerError}
        line.mend()
        async with asyncio.timeout(20):
            while (await asyncio.gather(store.put(SESSION, "b", {}), return_exceptions=True))[0].__class__ is BrokerError:
                pass
            assert all(await asyncio.gather(*(store.get(SESSION, "b") for _ in range(20))))
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
