"""How does work reach Django's database?  In threads with connections of their own, within a deadline, its errors as ours."""

import asyncio
import os
import select
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, Error, connection, connections

from gateproject.errors import BrokerError

THREADS = 4

Result = TypeVar("Result")


class DatabaseThreads:
    """Belongs to one event loop."""

    def __init__(self, deadline: float):
        self._deadline = deadline
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store", initializer=self._begin_thread)
        self._mine = threading.local()
        self._opened: list[tuple[threading.Lock, Any]] = []
        self._writing = asyncio.Lock()
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=False)
        await asyncio.to_thread(self._close_connections)

    async def do(self, work: Callable[[], Result], *, writes: bool = False) -> Result:
        """The one way to the database: in a thread, within a deadline, its errors as ours.

        Writes take turns in the order in which they come: the database's own locks know none.
        """
        if self._closed:
            raise BrokerError("the store is closed")
        call = _Call(work)
        try:
            async with asyncio.timeout(self._deadline), self._writing if writes else nullcontext():
                if self._closed:
                    raise BrokerError("the store is closed")
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._in_thread, call)
        except TimeoutError as error:
            call.give_up()
            raise BrokerError(f"the database (database_url) did not answer within {self._deadline:g} s") from error
        except Error as error:
            raise BrokerError(f"the database (database_url) fails: {str(error).partition(chr(10))[0]}") from error

    def _begin_thread(self) -> None:
        opened = connections[DEFAULT_DB_ALIAS]
        opened.inc_thread_sharing()  # `close` comes from another thread
        self._mine.busy = threading.Lock()
        self._opened.append((self._mine.busy, opened))

    def _in_thread(self, call: "_Call[Result]") -> Result:
        with self._mine.busy:
            try:
                call.begin()
                if connection.vendor == "sqlite":  # else a thread would wait for the file longer than its caller does
                    with connection.cursor() as cursor:
                        cursor.execute(f"PRAGMA busy_timeout = {int(self._deadline * 800)}")
                return call.work()
            except Error:
                connection.close()  # the next call begins with a new one: this one may be broken
                raise
            finally:
                call.end()
                if self._closed:
                    connection.close()

    def _close_connections(self) -> None:
        for busy, opened in self._opened:
            if busy.acquire(timeout=0.5):  # a thread that is at work closes its own when it has done
                opened.close()
                busy.release()


class _Call(Generic[Result]):
    """One piece of work in a thread.  A server that hangs keeps the thread for as long, unless the line to it is cut."""

    def __init__(self, work: Callable[[], Result]):
        self.work = work
        self._lock = threading.Lock()
        self._is_over = False
        self._line: socket.socket | None = None

    def begin(self) -> None:
        if connection.vendor != "postgresql":
            return
        connection.ensure_connection()
        # A server says nothing unasked but that it leaves: then this call needs another connection, and need not fail.
        if select.select([connection.connection], [], [], 0)[0]:
            connection.close()
            connection.ensure_connection()
        with self._lock:
            self._line = socket.socket(fileno=os.dup(connection.connection.fileno()))

    def end(self) -> None:
        with self._lock:
            if self._line is not None:
                self._line.close()
            self._line = None

    def give_up(self) -> None:
        with self._lock:
            if self._line is not None:
                with suppress(OSError):
                    self._line.shutdown(socket.SHUT_RDWR)
