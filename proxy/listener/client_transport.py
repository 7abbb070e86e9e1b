"""Twisted's transport of a client connection, with fewer steps between it and the event loop."""

import asyncio
from errno import ENOBUFS
from typing import Any

from twisted.internet.main import CONNECTION_LOST
from twisted.internet.tcp import Server

from proxy.listener.fair_selector import FairSelector


class ClientTransport(Server):
    """TCP connection of a client.

    Twisted (26.4) polls the socket for each write, and reads and writes in a logging context. That costs two system calls and one
    loop turn more per response (bench/peers.py). Here the writes of one loop turn are sent at its end. A low-priority connection
    (fair_selector.py) is polled as Twisted does it, because it must wait for its turn.
    """

    _is_writing = _flush_scheduled = _is_watched = False

    def startReading(self) -> None:
        super().startReading()
        # The same registration, with a shorter callback.
        self._loop.add_reader(self.fileno(), self.reactor._readOrWrite, self, True)

    def startWriting(self) -> None:
        self._is_writing = True
        if self._is_watched or self._flush_scheduled:
            return
        if self._is_low_priority():
            self._poll_writable()
        else:
            self._flush_scheduled = True
            self._loop.call_soon(self._send)

    def stopWriting(self) -> None:
        self._is_writing = False
        if self._is_watched:
            self._is_watched = False
            super().stopWriting()

    def writeSomeData(self, data: bytes) -> int | Exception:
        """Send and return the number of bytes that the kernel accepted, or CONNECTION_LOST if the client has disconnected."""
        try:
            return self.socket.send(data if len(data) <= self.SEND_LIMIT else memoryview(data)[: self.SEND_LIMIT])
        except BlockingIOError:
            return 0
        except OSError as error:
            return 0 if error.errno == ENOBUFS else CONNECTION_LOST

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = self.reactor._asyncioEventloop
        return loop

    def _is_low_priority(self) -> bool:
        selector: Any = getattr(self._loop, "_selector", None)
        return isinstance(selector, FairSelector) and selector.is_demoted(self.fileno())

    def _send(self) -> None:
        self._flush_scheduled = False
        if self._is_writing:
            self.reactor._readOrWrite(self, False)
        if self._is_writing and self.connected:
            self._poll_writable()

    def _poll_writable(self) -> None:
        self._is_watched = True
        super().startWriting()
