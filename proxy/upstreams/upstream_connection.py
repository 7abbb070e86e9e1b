"""Upstream connection for aiohttp that limits its buffers and preserves received bytes when the connection is lost."""

import asyncio
import sys
from typing import Any, cast

from aiohttp.client_proto import ResponseHandler

from proxy.upstreams.route_statistics import RouteStatistics

# Bytes of one read, and limit of the buffer for a client that has not read them. asyncio reads 256 KiB and aiohttp (3.14) buffers
# 512 KiB: more than a gigabyte for two thousand clients that do not read.
INITIAL_READ_BYTES = 16 * 1024  # then none until the client has read them
MAX_READ_BYTES = 64 * 1024  # for a fast client, plus as much in the buffer
INITIAL_BUFFER_BYTES = INITIAL_READ_BYTES // 2  # reading pauses above this
RAMP_UP_AFTER_BYTES = 128 * 1024  # that the client read, each chunk within FAST_READER_SECONDS
FAST_READER_SECONDS = 0.2
_DRAIN_BYTES = 256 * 1024


class UpstreamConnection(ResponseHandler):
    """Upstream connection.

    `requests` counts the requests sent on it. `received_any` is true if a byte was received after the last one. In statistics, the
    connection counts for the route that opened it, and its bytes for the route of the current request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(loop)
        self.requests = 0
        self.received_any = False
        self._is_idle = False
        self._read_size = 0  # bytes
        self._delivered = 0  # bytes that the client read fast
        self._delivered_at = 0.0
        self._opened_for: RouteStatistics | None = None
        self.statistics: RouteStatistics | None = None

    def start_request(self, statistics: RouteStatistics | None) -> None:
        """Start a request of a route."""
        if statistics is not None and self.requests == 0:
            self._opened_for = statistics
            statistics.record_connection_opened()
        self.statistics = statistics
        self.requests += 1
        self.received_any = self._is_idle = False

    def finish_request(self) -> None:
        """Finish a request whose response is complete.

        Bytes that arrive before the next request close the connection, because they would become part of the next response.
        """
        self._is_idle = True

    def mark_closed(self) -> None:
        """Stop counting the connection as open."""
        if self._opened_for is not None:
            self._opened_for.record_connection_closed()
            self._opened_for = None

    def start_response(self) -> None:
        self._read_size = self._delivered = 0
        self._read_up_to(INITIAL_READ_BYTES)

    def on_delivered(self, size: int) -> None:
        """Record that `size` bytes of an incomplete response were passed on to the client."""
        self._delivered += size
        self._delivered_at = self._loop.time()

    def adapt_read_size(self) -> None:
        """Adapt the read size, because the client has read all delivered bytes."""
        if self._loop.time() - self._delivered_at > FAST_READER_SECONDS:
            self._delivered = 0
            self._read_up_to(INITIAL_READ_BYTES)
        elif self._delivered >= RAMP_UP_AFTER_BYTES:
            self._read_up_to(MAX_READ_BYTES)

    def _read_up_to(self, size: int) -> None:
        if size == self._read_size or self.transport is None:  # without a transport, nothing more arrives
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
            self.statistics.upstream_bytes_received += len(data)
        super().data_received(data)

    def connection_lost(self, error: BaseException | None) -> None:
        self.mark_closed()
        if self._parser is not None and not self._upgraded:
            self._drain_socket()
        super().connection_lost(error)

    def _drain_socket(self) -> None:
        """Read the response of an upstream that responded and reset the connection before it had read the request.

        The failed write is reported first, while the response is still in the kernel, and aiohttp's parser (3.14) discards what it
        buffered for a slow reader. The kernel's buffer limits the size, because the connection is closed.
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
                self._payload._high_water_chunks = sys.maxsize  # the number of small chunks is limited too
            self.resume_reading()


def set_read_size(transport: asyncio.BaseTransport, size: int) -> None:
    """Limit a single read, in bytes. asyncio's transports have this attribute; TLS transports ignore it."""
    cast(Any, transport).max_size = size
