"""Do calls to the database end within their deadline, writes in turn, and is a server that left noticed before the work begins?"""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from django.db import Error, connection
from django.db.backends.signals import connection_created

from databroker.store.database_threads import THREADS, DatabaseExecutor
from foundation.errors import BrokerError

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
async def threads() -> AsyncIterator[DatabaseExecutor]:
    threads = DatabaseExecutor(0.1)
    yield threads
    await threads.close()


async def test_waiting_for_turn_ends_at_deadline(threads: DatabaseExecutor) -> None:
    held = threading.Event()
    calls = (threads.run(lambda: held.wait(5), writes=number % 2 == 0) for number in range(10 * THREADS))
    try:
        async with asyncio.timeout(4):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        held.set()
    assert {type(outcome) for outcome in outcomes} == {BrokerError}
    assert "0.1 s" in str(outcomes[0])


async def test_writes_take_turns() -> None:
    order: list[int] = []
    threads = DatabaseExecutor(30)
    await asyncio.gather(*(threads.run(lambda number=number: order.append(number), writes=True) for number in range(20)))
    await threads.close()
    assert order == list(range(20))


async def test_a_connection_with_an_error_is_not_used_again(threads: DatabaseExecutor) -> None:
    def fail() -> None:
        connection.ensure_connection()
        raise Error("secret\nin the second line")

    with pytest.raises(BrokerError, match=r"database_url.*secret$"):
        await threads.run(fail)
    assert all(opened.connection is None for _, opened in threads._opened)


async def test_closed_store_reports_it(threads: DatabaseExecutor) -> None:
    await threads.close()
    with pytest.raises(BrokerError, match="closed"):
        await threads.run(lambda: None)


async def test_work_cancelled_before_start_is_never_done(threads: DatabaseExecutor) -> None:
    """The server may be reached late, after the caller has stopped waiting."""
    go_on, done = threading.Event(), []

    def is_slow(**_: object) -> None:
        go_on.wait(30)

    connection_created.connect(is_slow)
    try:
        with pytest.raises(BrokerError, match="did not respond within"):
            await threads.run(lambda: done.append("the work"))
    finally:
        connection_created.disconnect(is_slow)
        go_on.set()
    await asyncio.to_thread(threads._threads.shutdown)
    assert done == []
