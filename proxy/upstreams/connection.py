"""One connection to an upstream, as aiohttp reads it: what has arrived of an answer is not lost with its connection."""

import asyncio
import sys
from typing import Any, cast

from aiohttp.client_proto import ResponseHandler

# asyncio reads 256 KiB at once, and aiohttp (3.14) holds twice as much again: with two thousand slow readers more than a gigabyte.
AT_ONCE = 64 * 1024  # bytes, of an answer whose client has taken all that came before
# With 4 KiB here a fast download costs four times as much.
AHEAD = 32 * 1024  # bytes, of one whose client has not; at most twice as much is held
IN_TUNNEL = 64 * 1024  # bytes
_LAST_WORDS = 256 * 1024  # bytes


class UpstreamConnection(ResponseHandler):
    """`requests` counts those that were sent on it; `has_spoken` tells whether a byte came since the last of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(loop)
        self.requests = 0
        self.has_spoken = False

    def read_on(self) -> None:
        """Somebody waits for what comes."""
        self._read_up_to(AT_ONCE)

    def hold(self) -> None:
        """Nobody does: the client is still to take the last piece."""
        self._read_up_to(AHEAD)

    def _read_up_to(self, size: int) -> None:
        if self.transport is not None:
            read_at_once(self.transport, size)
        if self._payload is not None:
            self._payload._high_water = size

    def data_received(self, data: bytes) -> None:
        self.has_spoken = True
        super().data_received(data)

    def connection_lost(self, error: BaseException | None) -> None:
        if self._parser is not None and not self._upgraded:
            self._take_what_has_arrived()
        super().connection_lost(error)

    def _take_what_has_arrived(self) -> None:
        """An upstream may answer before it has read the request, and reset: the failed write is noticed before the answer is read.

        The kernel still holds it then, and aiohttp's parser (3.14) forgets what it held back for a slow reader.  The connection is
        over, so this is bounded by the kernel's buffer.
        """
        self._read_on()
        sock = getattr(self.transport, "_sock", None)  # asyncio's own attribute; TLS has none
        try:
            while sock is not None and (data := sock.recv(_LAST_WORDS)):
                self.data_received(data)
                self._read_on()
        except OSError:
            return

    def _read_on(self) -> None:
        if self._reading_paused:
            if self._payload is not None:
                self._payload.set_read_chunk_size(sys.maxsize)
            self.resume_reading()


def read_at_once(transport: asyncio.BaseTransport, size: int) -> None:
    """At most so many bytes.  (asyncio's own attribute; a transport of TLS has none, and reads what has been decrypted.)"""
    cast(Any, transport).max_size = size
