"""PostgreSQL engine with a deadline for each wait, regardless of the state of server and connection.

The statement timeout needs a server that runs, and TCP timeouts need a peer that is gone. A stopped server or a stalled pooler would
block a caller forever, and Django's synchronous code has only one thread.
"""

import time
from collections.abc import Generator
from math import inf
from types import SimpleNamespace
from typing import Any

import psycopg
from django_prometheus.db.backends.postgresql import base

# Slightly longer than the statement timeout, so that a running server reports the slow statement itself.
MAX_WAIT_SECONDS = 11.0


class DeadlineConnection(psycopg.Connection[Any]):
    """Connection that waits at most `max_wait_seconds` seconds, and not beyond `deadline` (monotonic clock).

    Then it raises OperationalError and closes.
    """

    max_wait_seconds = MAX_WAIT_SECONDS
    deadline = inf

    def wait(self, gen: Generator[Any, Any, Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        bound = max(0.0, min(inf if timeout is None else timeout, self.max_wait_seconds, self.deadline - time.monotonic()))
        ends = time.monotonic() + bound
        try:
            return super().wait(gen, interval, None if bound == inf else bound)
        except psycopg.OperationalError as error:
            if time.monotonic() < ends:
                raise
            self.pgconn.finish()  # a late response would be taken for that of the next query
            raise psycopg.OperationalError("the server did not respond in time") from error


class DatabaseWrapper(base.DatabaseWrapper):
    """django-prometheus's database wrapper with `DeadlineConnection`."""

    Database = SimpleNamespace(**{**vars(psycopg), "connect": DeadlineConnection.connect})
