"""Upstream connection, as aiohttp reads it: what has arrived of an answer is not lost with its connection."""

import asyncio
import sys
from typing import Any, cast

from aiohttp.client_proto import ResponseHandler

from proxy.upstreams.route_statistics import RouteStatistics

# How much is read at once, and at most held beside what the client is still to take.  asyncio reads 256 KiB and aiohttp (3.14) holds
# 512: with two thousand clients that do not read, more than a gigabyte.
INITIAL_READ_BYTES = 16 * 1024  # bytes, and then nothing until the client has taken what came before
MAX_READ_BYTES = 64 * 1024  # bytes, and as much again, for a client that takes what it is given
INITIAL_BUFFER_BYTES = INITIAL_READ_BYTES // 2  # bytes; where more is held, no more is read
RAMP_UP_AFTER_BYTES = 128 * 1024  # bytes that it took, each piece
FAST_READER_SECONDS = 0.2  # seconds after it was given
_DRAIN_BYTES = 256 * 1024  # bytes


class UpstreamConnection(ResponseHandler):
    """Upstream connection.  `requests` counts those that were sent on it; `has_spoken`: a byte came since the last of them.

    It counts as one of the route that it was opened for; its bytes are the present route's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(loop)
        self.requests = 0
        self.received_any = False
        self._is_idle = False
        self._read_size = 0  # bytes
        self._delivered = 0  # bytes in a row, soon enough
        self._delivered_at = 0.0
        self._opened_for: RouteStatistics | None = None
        self.statistics: RouteStatistics | None = None

    def start_request(self, statistics: RouteStatistics | None) -> None:
        """Begin a request of a route."""
        if statistics is not None and self.requests == 0:
            self._opened_for = statistics
            statistics.connection_opened()
        self.statistics = statistics
        self.requests += 1
        self.received_any = self._is_idle = False

    def finish_request(self) -> None:
        """End a request that has its whole answer.  What comes before the next one was not asked for: it would be part of its answer."""
        self._is_idle = True

    def mark_closed(self) -> None:
        """Note the end: it is no open connection of any route."""
        if self._opened_for is not None:
            self._opened_for.connection_closed()
            self._opened_for = None

    def start_response(self) -> None:
        self._read_size = self._delivered = 0
        self._read_up_to(INITIAL_READ_BYTES)

    def on_delivered(self, size: int) -> None:
        """Note how many bytes of the answer were given on, with more to come."""
        self._delivered += size
        self._delivered_at = self._loop.time()

    def on_read_wanted(self) -> None:
        """Note that the client has taken what it was given."""
        if self._loop.time() - self._delivered_at > FAST_READER_SECONDS:
            self._delivered = 0
            self._read_up_to(INITIAL_READ_BYTES)
        elif self._delivered >= RAMP_UP_AFTER_BYTES:
            self._read_up_to(MAX_READ_BYTES)

    def _read_up_to(self, size: int) -> None:
        if size == self._read_size or self.transport is None:  # without it nothing more comes, and what has come is not held back
            return
        self._read_size = size
        set_read_size(self.transport, size)
        if self._payload is not None:
            buffer_bytes = MAX_READ_BYTES if size == MAX_READ_BYTES else INITIAL_BUFFER_BYTES
            self._payload._low_water, self._payload._high_water = buffer_bytes // 2, buffer_bytes

    def data_received(self, data: bytes) -> None:
        self.received_any = True
        if self._is_idle:
            self.force_close()
        if self.statistics is not None:
            self.statistics.received_bytes += len(data)
        super().data_received(data)

    def connection_lost(self, error: BaseException | None) -> None:
        self.mark_closed()
        if self._parser is not None and not self._upgraded:
            self._drain_socket()
        super().connection_lost(error)

    def _drain_socket(self) -> None:
        """An upstream may answer before it has read the request, and reset: the failed write is noticed before the answer is read.

        The kernel still holds it then, and aiohttp's parser (3.14) forgets what it held back for a slow reader.  The connection is
        over, so this is bounded by the kernel's buffer.
        """
        self._resume_fully()
        sock = getattr(self.transport, "_sock", None)  # asyncio's own attribute; TLS has none
        try:
            while sock is not None and (data := sock.recv(_DRAIN_BYTES)):
                self.data_received(data)
                self._resume_fully()
        except OSError:
            return

    def _resume_fully(self) -> None:
        if self._reading_paused:
            if self._payload is not None:
                self._payload.set_read_chunk_size(sys.maxsize)
                self._payload._high_water_chunks = sys.maxsize  # small chunks are held back by number, too
            self.resume_reading()


def set_read_size(transport: asyncio.BaseTransport, size: int) -> None:
    """Limit one read, in bytes.  (asyncio's own attribute; a transport of TLS has none, and reads what has been decrypted.)"""
    cast(Any, transport).max_size = size
