"""Database threads: run database work in threads with separate connections, with a deadline, and translate its errors."""

import asyncio
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, Error, OperationalError, connection, connections

from foundation.errors import BrokerError

THREADS = 4

Result = TypeVar("Result")


class DatabaseExecutor:
    """Thread pool for one event loop."""

    def __init__(self, deadline: float):
        self._deadline = deadline
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store", initializer=self._init_thread)
        self._local = threading.local()
        self._opened: list[tuple[threading.Lock, Any]] = []
        self._writing = asyncio.Lock()
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=False)
        await asyncio.to_thread(self._close_connections)

    async def run(self, work: Callable[[], Result], *, writes: bool = False) -> Result:
        """Run work in a thread within the deadline.  This is the store's only access to the database.

        Writes run one after the other in order of arrival, because the database's locks have no order.  Raises BrokerError.
        """
        if self._closed:
            raise BrokerError("the store is closed")
        until = time.monotonic() + self._deadline
        try:
            async with asyncio.timeout(self._deadline), self._writing if writes else nullcontext():
                if self._closed:
                    raise BrokerError("the store is closed")
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._run_in_thread, work, until)
        except TimeoutError as error:
            raise BrokerError(f"the database (database_url) did not respond within {self._deadline:g} s") from error
        except Error as error:
            raise BrokerError(f"database (database_url) error: {str(error).partition(chr(10))[0]}") from error

    def _init_thread(self) -> None:
        opened = connections[DEFAULT_DB_ALIAS]
        opened.inc_thread_sharing()  # because `close` runs in another thread
        self._local.busy = threading.Lock()
        self._opened.append((self._local.busy, opened))

    def _run_in_thread(self, work: Callable[[], Result], until: float) -> Result:
        with self._local.busy:
            try:
                self._prepare_connection(until)
                return work()
            except Error:
                connection.close()  # it may be broken, so the next call opens a new one
                raise
            finally:
                if self._closed:
                    connection.close()

    def _prepare_connection(self, until: float) -> None:
        """Prepare the connection, and limit the work to the deadline, because there are few threads."""
        connection.ensure_connection()
        if connection.vendor == "postgresql":
            # An idle connection with data to read was closed by the server: reconnect instead of failing this call.
            if _is_readable(connection.connection.fileno()):
                connection.close()
                connection.ensure_connection()
            connection.connection.deadline = until
        if (left := until - time.monotonic()) <= 0:
            raise OperationalError("timeout")
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {int(left * 800)}")

    def _close_connections(self) -> None:
        for busy, opened in self._opened:
            if busy.acquire(timeout=0.5):  # a busy thread closes its own connection when its work ends
                opened.close()
                busy.release()


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()  # not `select.select`, which is limited to descriptors below 1,024
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
