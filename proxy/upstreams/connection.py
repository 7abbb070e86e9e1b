"""One connection to an upstream, as aiohttp reads it: what has arrived of an answer is not lost with its connection."""

import asyncio
import sys

from aiohttp.client_proto import ResponseHandler

_READ_AT_ONCE = 256 * 1024  # bytes


class UpstreamConnection(ResponseHandler):
    """`requests` counts those that were sent on it; `has_spoken` tells whether a byte came since the last of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(loop)
        self.requests = 0
        self.has_spoken = False

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
            while sock is not None and (data := sock.recv(_READ_AT_ONCE)):
                self.data_received(data)
                self._read_on()
        except OSError:
            return

    def _read_on(self) -> None:
        if self._reading_paused:
            if self._payload is not None:
                self._payload.set_read_chunk_size(sys.maxsize)
            self.resume_reading()
