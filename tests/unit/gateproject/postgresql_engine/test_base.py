"""Waits for PostgreSQL have a deadline, and a connection with a pending response is not reused."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf

import psycopg
import pytest

from gateproject.postgresql_engine.base import MAX_WAIT_SECONDS, DatabaseWrapper, DeadlineConnection

# PostgreSQL's protocol, version 3: AuthenticationOk, ReadyForQuery; CommandComplete, ReadyForQuery.
WELCOME = b"R\0\0\0\x08\0\0\0\0" + b"Z\0\0\0\x05I"
DONE = b"C\0\0\0\x08SET\0" + b"Z\0\0\0\x05I"


class Server:
    """Server that accepts every connection and responds to a statement on demand, at the latest after the test timeout."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._answers = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError), self._listening.accept()[0] as line:
            line.recv(4096)
            line.sendall(WELCOME)
            while line.recv(4096):
                self._answers.wait(5)
                line.sendall(DONE)

    def connect(self) -> DeadlineConnection:
        port = self._listening.getsockname()[1]
        return DatabaseWrapper.Database.connect(f"host=127.0.0.1 port={port} user=gate sslmode=disable gssencmode=disable", autocommit=True)

    def answer(self) -> None:
        self._answers.set()

    def close(self) -> None:
        self._answers.set()
        self._listening.close()
        self._thread.join(30)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.mark.parametrize(("max_wait_seconds", "until"), [(0.05, inf), (inf, 0.05), (30.0, 0.05), (30.0, -1.0)])
def test_an_answer_that_does_not_come_in_time_is_an_error_and_the_end_of_the_connection(
    server: Server, max_wait_seconds: float, until: float
) -> None:
    with server.connect() as connection:
        connection.max_wait_seconds, connection.deadline = max_wait_seconds, time.monotonic() + until
        with pytest.raises(psycopg.OperationalError, match="in time"):
            connection.execute("SET a = 1")
        assert connection.closed
        server.answer()
        with pytest.raises(psycopg.OperationalError, match="closed"):
            connection.execute("SET a = 1")


def test_one_that_comes_in_time_is_taken(server: Server) -> None:
    server.answer()
    with server.connect() as connection:
        assert connection.max_wait_seconds == MAX_WAIT_SECONDS
        assert connection.execute("SET a = 1").statusmessage == "SET"


def test_other_errors_are_reported_unchanged_and_not_fatal(server: Server) -> None:
    server.answer()
    with server.connect() as connection:
        with pytest.raises(psycopg.ProgrammingError):
            connection.execute("SET a = %s %s", ["1"])
        assert not connection.closed
