"""Protocol detection: connections whose first bytes say which protocol gets them."""

import asyncio
from typing import Any

from twisted.internet.interfaces import IProtocolFactory
from twisted.internet.protocol import Factory, Protocol


class FirstBytesFactory(Factory):
    """Factory around the factory of the connections themselves."""

    noisy = False

    def __init__(self, factory: IProtocolFactory):
        self.factory = factory

    def doStart(self) -> None:
        self.factory.doStart()
        super().doStart()

    def doStop(self) -> None:
        self.factory.doStop()
        super().doStop()


class FirstBytesProtocol(Protocol):
    """Protocol that keeps what comes in `received`, until it gives the connection to another protocol and is gone."""

    def __init__(self, seconds: float):
        self.received = b""
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def connectionMade(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self.too_late)

    def dataReceived(self, data: bytes) -> None:
        self.received += data
        self.look()

    def connectionLost(self, reason: object = None) -> None:
        self._stop_waiting()

    def look(self) -> None:
        """Look at what came; hand over or abort, or wait for more."""
        raise NotImplementedError

    def too_late(self) -> None:
        self.abort()

    def hand_over(self, factory: IProtocolFactory, first: bytes) -> None:
        self._stop_waiting()
        transport: Any = self.transport
        protocol: Any = factory.buildProtocol(transport.getPeer())
        transport.protocol = protocol
        protocol.makeConnection(transport)
        if first:
            protocol.dataReceived(first)

    def abort(self) -> None:
        self._stop_waiting()
        self.transport.abortConnection()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
