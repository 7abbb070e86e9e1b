"""Protocol that reads the PROXY protocol header, which every connection must start with, before any other byte is processed."""

from collections.abc import Callable

import structlog
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.interfaces import IAddress, IProtocolFactory

from proxy.listener.connection_preamble import PreambleFactory, PreambleProtocol
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.proxy_protocol.proxy_header import MalformedProxyHeader, parse_header

log = structlog.get_logger(__name__)

HEADER_TIMEOUT_SECONDS = 10.0  # a balancer sends the header in its first packet


# enforcement-point: Requests: Connections that must begin with a PROXY protocol header
class ProxyProtocolFactory(PreambleFactory):
    """Factory of connections behind a load balancer. The header precedes the TLS handshake, which is part of the wrapped factory."""

    def __init__(self, factory: IProtocolFactory, limits: Callable[[], ListenerLimits]):
        super().__init__(factory)
        self.limits = limits

    def buildProtocol(self, addr: IAddress) -> "ProxyHeaderReader":
        return ProxyHeaderReader(self)


class ProxyHeaderReader(PreambleProtocol):
    def __init__(self, factory: ProxyProtocolFactory):
        super().__init__(min(factory.limits().read_timeout, HEADER_TIMEOUT_SECONDS))
        self._factory = factory

    def inspect(self) -> None:
        try:
            header = parse_header(self.received)
        except MalformedProxyHeader as error:
            self._reject(str(error))
            return
        if header is not None:
            if header.source is not None:
                peer = _address(*header.source)
                self.transport.getPeer = lambda: peer
            self.switch_to(self._factory.factory, self.received[header.length :])

    def on_timeout(self) -> None:
        self._reject("no PROXY header came in time")

    def _reject(self, reason: str) -> None:
        log.info("connection refused", reason=reason, peer=getattr(self.transport.getPeer(), "host", ""))
        self.abort()


def _address(host: str, port: int) -> IAddress:
    if not host:
        return UNIXAddress(None)
    return IPv6Address("TCP", host, port) if ":" in host else IPv4Address("TCP", host, port)
