"""Does the store survive what happens to a database server: a restart, and a time without writes?"""

import asyncio
import os
import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created

from databroker.models import StoredRecord
from databroker.records import SESSION
from databroker.store.base import ResyncRequired
from databroker.store.database import DatabaseStore
from databroker.store.database_threads import THREADS
from foundation.errors import BrokerError
from gateproject.postgresql_engine.base import DeadlineConnection
from tests.support.network_faults import FaultyLink
from tests.support.stores import use_postgresql


async def test_a_restarted_server_is_used_again_and_readers_start_over(database_on_postgresql, postgresql):
    store = database_on_postgresql(time.time)
    written = await store.put(SESSION, "a", {"n": 1})
    before = await store.server_version()
    postgresql.restart()
    for _ in range(10):  # with each thread's connection, none of which lives
        assert await store.get(SESSION, "a") == written
    assert await store.server_version() != before
    with pytest.raises(ResyncRequired) as received:
        await anext(store.changes(written.version))
    assert received.value.version > written.version
    await store.close()


async def test_silent_connection_blocks_no_thread(database_on_postgresql, postgresql, monkeypatch):
    with FaultyLink(postgresql.port) as line:
        use_postgresql(postgresql.url.replace(str(postgresql.port), str(line.port)), monkeypatch)
        store = database_on_postgresql(time.time, deadline=1)
        await store.put(SESSION, "a", {"n": 1})
        await asyncio.gather(*(store.get(SESSION, "a") for _ in range(20)))
        line.stall()
        calls = [store.get(SESSION, "a") for _ in range(10)] + [store.put(SESSION, str(number), {}) for number in range(10)]
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {BrokerError}
        line.restore()
        async with asyncio.timeout(20):
            while (await asyncio.gather(store.put(SESSION, "b", {}), return_exceptions=True))[0].__class__ is BrokerError:
                pass
            assert all(await asyncio.gather(*(store.get(SESSION, "b") for _ in range(20))))
        await store.close()


async def test_a_line_that_goes_silent_while_it_is_opened_costs_no_thread(database_on_postgresql, postgresql, monkeypatch):
    """The caller has given up before the work began: nothing it would wait for is still begun."""
    with FaultyLink(postgresql.port) as line:
        use_postgresql(postgresql.url.replace(str(postgresql.port), str(line.port)), monkeypatch)
        store, opened = database_on_postgresql(time.time, deadline=1), threading.Event()

        def fall_silent(**_: object) -> None:
            line.stall()
            opened.wait(30)

        connection_created.connect(fall_silent)
        try:
            with pytest.raises(BrokerError, match="within 1 s"):
                await store.get(SESSION, "a")
        finally:
            connection_created.disconnect(fall_silent)
            opened.set()
        line.restore()
        async with asyncio.timeout(20):  # each thread in turn
            while any(isinstance(each, BrokerError) for each in await asyncio.gather(*[hold(store) for _ in range(THREADS)])):
                pass
        await store.close()


async def hold(store: DatabaseStore) -> BrokerError | None:
    """One of as many threads as do this at once."""
    try:
        await store._do(partial(time.sleep, 0.2))
    except BrokerError as error:
        return error
    return None


async def test_a_connection_is_looked_at_however_many_files_are_open(database_on_postgresql):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        store = database_on_postgresql(time.time)
        for _ in range(2):
            assert await store.get(SESSION, "a") is None
        await store.close()


def test_hanging_server_times_out(postgresql, monkeypatch):
    """Django's own threads, to which gate sets no deadline: the admin's tables, the decision log, the admin's pages."""
    monkeypatch.setattr(DeadlineConnection, "max_wait_seconds", 0.5)
    with FaultyLink(postgresql.port) as line:
        use_postgresql(postgresql.url.replace(str(postgresql.port), str(line.port)), monkeypatch)

        def ask() -> Iterator[str]:
            """Run in a separate thread, which has a separate connection."""
            try:
                StoredRecord.objects.count()
                line.stall()
                for _ in range(2):
                    with pytest.raises(OperationalError) as received:
                        StoredRecord.objects.count()
                    yield str(received.value)
                line.restore()
                connection.close()
                StoredRecord.objects.count()
            finally:
                connection.close()

        with ThreadPoolExecutor(1) as executor:
            first, second = executor.submit(lambda: list(ask())).result(30)
    assert "in time" in first
    assert second == "the connection is closed"


async def test_read_only_server_error_and_recovery(database_on_postgresql, postgresql):
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


async def test_lease_ignores_clock_skew(database_on_postgresql):
    stores = [database_on_postgresql(lambda ahead=ahead: time.time() + ahead) for ahead in (0.0, 3600.0, -3600.0)]
    try:
        for holder in stores:
            lease = await holder.acquire("work", 30.0)
            assert lease is not None
            for other in stores:
                assert await other.acquire("work", 30.0) is None
            assert await holder.renew(lease, 30.0)
            await holder.release(lease)
    finally:
        for store in stores:
            await store.close()
