"""PROXY protocol wrapper: connections must begin with its header, which says who the client is; nothing reaches anybody before it."""

from collections.abc import Callable

import structlog
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress, IProtocolFactory

from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.preamble import FirstBytesFactory, FirstBytesProtocol
from proxy.listener.proxy_protocol.proxy_header import MalformedProxyHeader, find

log = structlog.get_logger(__name__)

MOST_SECONDS = 10.0  # a balancer sends its header with its first packet


# enforcement-point: Requests: Connections that must begin with a PROXY protocol header
class ProxyProtocolFactory(FirstBytesFactory):
    """Factory behind a balancer.  TLS is part of the connections themselves: the header comes before the handshake."""

    def __init__(self, factory: IProtocolFactory, limits: Callable[[], ListenerLimits]):
        super().__init__(factory)
        self.limits = limits

    def buildProtocol(self, addr: IAddress) -> "ProxyHeaderReader":
        return ProxyHeaderReader(self)


class ProxyHeaderReader(FirstBytesProtocol):
    def __init__(self, behind: ProxyProtocolFactory):
        super().__init__(min(behind.limits().read_timeout, MOST_SECONDS))
        self._behind = behind

    def look(self) -> None:
        try:
            header = find(self.received)
        except MalformedProxyHeader as error:
            self._refuse(str(error))
            return
        if header is not None:
            if header.source is not None:
                peer = _address(*header.source)
                self.transport.getPeer = lambda: peer
            self.hand_over(self._behind.factory, self.received[header.length :])

    def too_late(self) -> None:
        self._refuse("no PROXY header came in time")

    def _refuse(self, reason: str) -> None:
        log.info("connection refused", reason=reason, peer=getattr(self.transport.getPeer(), "host", ""))
        self.abort()


def _address(host: str, port: int) -> IAddress:
    if not host:
        return UNIXAddress(None)
    return IPv6Address("TCP", host, port) if ":" in host else IPv4Address("TCP", host, port)
