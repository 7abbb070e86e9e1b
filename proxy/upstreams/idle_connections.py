"""Pool of idle connections to upstreams."""

import asyncio
import time
from collections import deque
from typing import cast

from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection

from proxy.upstreams.upstream_connection import UpstreamConnection

# Node and uvicorn close idle connections after 5 s, and a request sent at that moment would be lost.
KEEPALIVE_TIMEOUT = 4.0  # seconds


class IdleConnections:
    """Pool of idle connections by upstream, first in, first out.

    (aiohttp's own takes several times as long, and hands out connections on which unasked bytes have arrived.)
    """

    def __init__(self) -> None:
        self._waiting: dict[ConnectionKey, deque[tuple[Connection, float]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<IdleConnections {sum(map(len, self._waiting.values()))} of {len(self._waiting)} upstreams>"

    def acquire(self, key: ConnectionKey) -> Connection | None:
        """Return a usable connection, or None if the pool has none."""
        waiting, now = self._waiting.get(key), time.monotonic()
        while waiting:
            connection, released_at = waiting.popleft()
            is_usable = now - released_at <= KEEPALIVE_TIMEOUT and not connection.closed
            if is_usable and not cast(UpstreamConnection, connection.protocol).should_close:
                return connection
            connection.close()
        return None

    def release(self, key: ConnectionKey, connection: Connection) -> None:
        self._waiting.setdefault(key, deque()).append((connection, time.monotonic()))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_TIMEOUT, self._close_expired)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiting in self._waiting.values():
            for connection, _ in waiting:
                connection.close()
        self._waiting.clear()

    def _close_expired(self) -> None:
        cutoff = time.monotonic() - KEEPALIVE_TIMEOUT
        for key, waiting in list(self._waiting.items()):
            while waiting and (waiting[0][1] <= cutoff or waiting[0][0].closed):
                waiting.popleft()[0].close()
            if not waiting:
                del self._waiting[key]
        self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_TIMEOUT / 4, self._close_expired) if self._waiting else None
