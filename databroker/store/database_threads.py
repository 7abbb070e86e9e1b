"""Database threads: work reaches Django's database in threads with connections of their own, within a deadline, its errors as ours."""

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
    """Thread pool of one event loop."""

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
        """Run work in a thread, within a deadline; its errors as ours.  The one way to the database.

        Writes take turns in the order in which they come: the database's own locks know none.
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
        opened.inc_thread_sharing()  # `close` comes from another thread
        self._local.busy = threading.Lock()
        self._opened.append((self._local.busy, opened))

    def _run_in_thread(self, work: Callable[[], Result], until: float) -> Result:
        with self._local.busy:
            try:
                self._prepare_connection(until)
                return work()
            except Error:
                connection.close()  # the next call begins with a new one: this one may be broken
                raise
            finally:
                if self._closed:
                    connection.close()

    def _prepare_connection(self, until: float) -> None:
        """Start work that lasts no longer than somebody waits for it: each thread is one of few."""
        connection.ensure_connection()
        if connection.vendor == "postgresql":
            # A server says nothing unasked but that it leaves: then this call needs another connection, and need not fail.
            if _is_readable(connection.connection.fileno()):
                connection.close()
                connection.ensure_connection()
            connection.connection.until = until
        if (left := until - time.monotonic()) <= 0:
            raise OperationalError("timeout")
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {int(left * 800)}")

    def _close_connections(self) -> None:
        for busy, opened in self._opened:
            if busy.acquire(timeout=0.5):  # a thread that is at work closes its own when it has done
                opened.close()
                busy.release()


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()  # `select` itself knows no descriptor above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
