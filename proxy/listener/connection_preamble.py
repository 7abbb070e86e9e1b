"""Base classes for connections whose first bytes are inspected before their protocol is chosen."""

import asyncio
from typing import Any

from twisted.internet.interfaces import IProtocolFactory
from twisted.internet.protocol import Factory, Protocol


class PreambleFactory(Factory):
    """Factory that wraps the factory of the connections' own protocol."""

    noisy = False

    def __init__(self, factory: IProtocolFactory):
        self.factory = factory

    def doStart(self) -> None:
        self.factory.doStart()
        super().doStart()

    def doStop(self) -> None:
        self.factory.doStop()
        super().doStop()


class PreambleProtocol(Protocol):
    """Protocol that buffers input in `received` until it switches the connection to another protocol, or aborts it."""

    def __init__(self, seconds: float):
        self.received = b""
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def connectionMade(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self.on_timeout)

    def dataReceived(self, data: bytes) -> None:
        self.received += data
        self.inspect()

    def connectionLost(self, reason: object = None) -> None:
        self._cancel_timer()

    def inspect(self) -> None:
        """Inspect `received`, then switch the protocol, abort, or return to wait for more."""
        raise NotImplementedError

    def on_timeout(self) -> None:
        self.abort()

    def switch_to(self, factory: IProtocolFactory, first: bytes) -> None:
        self._cancel_timer()
        transport: Any = self.transport
        protocol: Any = factory.buildProtocol(transport.getPeer())
        transport.protocol = protocol
        protocol.makeConnection(transport)
        if first:
            protocol.dataReceived(first)

    def abort(self) -> None:
        self._cancel_timer()
        self.transport.abortConnection()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
