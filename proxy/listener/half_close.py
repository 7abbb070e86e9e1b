"""Half-close of client connections: one direction may end before the other, over TCP and TLS."""

from typing import TYPE_CHECKING

from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.protocols.tls import BufferingTLSTransport
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from proxy.listener.http1.http1_channel import Channel


def end_of_input(channel: "Channel") -> bool:
    """End of the client's side.  True where it is to be spoken to still."""
    return channel.tunnel is not None and bool(channel.tunnel.eof_received())


class PlainHalfClose:
    """Half-close of a TCP connection, Twisted's IHalfCloseableProtocol; without one it ends the connection with the client's FIN."""

    def __init__(self, channel: "Channel"):
        self._channel = channel

    def readConnectionLost(self) -> None:
        if not end_of_input(self._channel):
            self._channel.transport.connectionLost(Failure(ConnectionDone()))

    def writeConnectionLost(self) -> None:
        pass


class _InputEnded(Exception):
    pass


class HalfClosingTLS(BufferingTLSTransport):
    """TLS with half-close.  Twisted (26.4) answers a client's close_notify at once with its own, and what was still to be said is lost.
    (RFC 8446 6.1: each side ends its own direction.)"""

    _has_input_ended = False

    def dataReceived(self, data: bytes) -> None:
        # RFC 8446 6.1: what comes after a close_notify is ignored.  OpenSSL would keep it until somebody reads, which nobody does.
        if not self._has_input_ended:
            super().dataReceived(data)

    def _flushReceiveBIO(self) -> None:
        if self._has_input_ended:
            return
        try:
            super()._flushReceiveBIO()
        except _InputEnded:
            self._has_input_ended = True
            self._flushSendBIO()

    def _shutdownTLS(self) -> None:
        if self._tlsConnection is None:
            # Twisted (26.4) forgets it when the connection is lost; whoever aborts a tunnel a moment later is late, not wrong.
            return
        is_clients = bool(self._tlsConnection.get_shutdown() & SSL.RECEIVED_SHUTDOWN) and not self.disconnecting
        if is_clients and end_of_input(self.wrappedProtocol):
            raise _InputEnded
        super()._shutdownTLS()
