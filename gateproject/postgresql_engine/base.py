"""PostgreSQL engine whose waits end in time, whatever became of the server or of the line to it.

The server's own statement timeout needs a server that is awake, and TCP's need a peer that is gone: a stopped server, or a
pooler that hangs, keeps whoever waits.  One such thread would be the last one that Django's synchronous code has.
"""

import time
from collections.abc import Generator
from math import inf
from types import SimpleNamespace
from typing import Any

import psycopg
from django_prometheus.db.backends.postgresql import base

# A little longer than the statement timeout, so that a server that is awake says itself what was too long.
LONGEST_WAIT = 11.0


class DeadlineConnection(psycopg.Connection[Any]):
    """Connection that waits `longest_wait` seconds, not beyond `until` (of the monotonic clock); then OperationalError, and it closes."""

    longest_wait = LONGEST_WAIT
    until = inf

    def wait(self, gen: Generator[Any, Any, Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        bound = max(0.0, min(inf if timeout is None else timeout, self.longest_wait, self.until - time.monotonic()))
        ends = time.monotonic() + bound
        try:
            return super().wait(gen, interval, None if bound == inf else bound)
        except psycopg.OperationalError as error:
            if time.monotonic() < ends:
                raise
            self.pgconn.finish()  # the answer that did not come would be taken for the next one's
            raise psycopg.OperationalError("the server did not respond in time") from error


class DatabaseWrapper(base.DatabaseWrapper):
    """Database wrapper as django-prometheus counts it, whose connections have deadlines."""

    Database = SimpleNamespace(**{**vars(psycopg), "connect": DeadlineConnection.connect})
