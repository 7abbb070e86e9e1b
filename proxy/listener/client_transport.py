"""Client transport: Twisted's connection of a client, with fewer steps between it and the event loop."""

import asyncio
from errno import ENOBUFS
from typing import Any

from twisted.internet.main import CONNECTION_LOST
from twisted.internet.tcp import Server

from proxy.listener.fair_selector import FairSelector


class ClientTransport(Server):
    """TCP connection of a client.

    Twisted (26.4) has the event loop watch the socket for each piece that is written, and reads and writes in a context of its log:
    two system calls and a turn of the loop more for each answer (bench/peers.py).  Here what was written in one turn of the loop is
    sent at its end.  A connection that stands behind others (fair_selector.py) is watched as Twisted does it: it must wait its turn.
    """

    _is_writing = _sends_soon = _is_watched = False

    def startReading(self) -> None:
        super().startReading()
        # The same registration, with a shorter way back.
        self._loop.add_reader(self.fileno(), self.reactor._readOrWrite, self, True)

    def startWriting(self) -> None:
        self._is_writing = True
        if self._is_watched or self._sends_soon:
            return
        if self._stands_behind():
            self._watch()
        else:
            self._sends_soon = True
            self._loop.call_soon(self._send)

    def stopWriting(self) -> None:
        self._is_writing = False
        if self._is_watched:
            self._is_watched = False
            super().stopWriting()

    def writeSomeData(self, data: bytes) -> int | Exception:
        """Number of bytes that the kernel took; ConnectionLost where the client has gone."""
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

    def _stands_behind(self) -> bool:
        selector: Any = getattr(self._loop, "_selector", None)
        return isinstance(selector, FairSelector) and selector.is_demoted(self.fileno())

    def _send(self) -> None:
        self._sends_soon = False
        if self._is_writing:
            self.reactor._readOrWrite(self, False)
        if self._is_writing and self.connected:
            self._watch()

    def _watch(self) -> None:
        self._is_watched = True
        super().startWriting()
