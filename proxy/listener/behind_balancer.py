"""Connections that must begin with a PROXY header: nothing reaches anybody before it, and it says who the client is."""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress, IProtocolFactory
from twisted.internet.protocol import Factory, Protocol

from proxy.listener.limits import ListenerLimits
from proxy.listener.proxy_header import Malformed, find

log = structlog.get_logger(__name__)

MOST_SECONDS = 10.0  # a balancer sends its header with its first packet


class BehindBalancer(Factory):
    """Around the factory of the connections themselves, TLS included: the header comes before the handshake."""

    noisy = False

    def __init__(self, factory: IProtocolFactory, limits: Callable[[], ListenerLimits]):
        self.factory = factory
        self.limits = limits

    def doStart(self) -> None:
        self.factory.doStart()
        super().doStart()

    def doStop(self) -> None:
        self.factory.doStop()
        super().doStop()

    def buildProtocol(self, addr: IAddress) -> "AwaitedHeader":
        return AwaitedHeader(self)


class AwaitedHeader(Protocol):
    """Reads the header, then gives the connection to its own protocol and is gone."""

    def __init__(self, behind: BehindBalancer):
        self._behind = behind
        self._received = b""
        self._timer: asyncio.TimerHandle | None = None

    def connectionMade(self) -> None:
        seconds = min(self._behind.limits().read, MOST_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._refuse, "no PROXY header came in time")

    def dataReceived(self, data: bytes) -> None:
        self._received += data
        try:
            header = find(self._received)
        except Malformed as error:
            self._refuse(str(error))
            return
        if header is not None:
            self._hand_over(header.source, self._received[header.length :])

    def connectionLost(self, reason: object = None) -> None:
        self._stop_waiting()

    def _hand_over(self, source: tuple[str, int] | None, rest: bytes) -> None:
        self._stop_waiting()
        transport: Any = self.transport
        if source is not None:
            peer = _address(*source)
            transport.getPeer = lambda: peer
        protocol: Any = self._behind.factory.buildProtocol(transport.getPeer())
        transport.protocol = protocol
        protocol.makeConnection(transport)
        if rest:
            protocol.dataReceived(rest)

    def _refuse(self, reason: str) -> None:
        self._stop_waiting()
        log.info("connection refused", reason=reason, peer=getattr(self.transport.getPeer(), "host", ""))
        self.transport.abortConnection()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _address(host: str, port: int) -> IAddress:
    if not host:
        return UNIXAddress(None)
    return IPv6Address("TCP", host, port) if ":" in host else IPv4Address("TCP", host, port)
