"""Half-close of client connections: one direction may end before the other, over TCP and TLS."""

from typing import TYPE_CHECKING

from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.protocols.tls import BufferingTLSTransport
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from proxy.listener.http1.http1_channel import Channel


def on_client_eof(channel: "Channel") -> bool:
    """Report the client's end of input to its tunnel. Return true if the other direction stays open."""
    return channel.tunnel is not None and bool(channel.tunnel.eof_received())


class PlainHalfClose:
    """Half-close of a TCP connection (IHalfCloseableProtocol). Without it Twisted closes the connection at the client's FIN."""

    def __init__(self, channel: "Channel"):
        self._channel = channel

    def readConnectionLost(self) -> None:
        if not on_client_eof(self._channel):
            self._channel.transport.connectionLost(Failure(ConnectionDone()))

    def writeConnectionLost(self) -> None:
        pass


class _ClientEof(Exception):
    pass


class HalfClosingTLS(BufferingTLSTransport):
    """TLS with half-close (RFC 8446 6.1: each side closes its own direction).

    Twisted (26.4) responds to a client's close_notify immediately with its own, and data that is still to be sent is lost.
    """

    _has_client_eof = False

    def dataReceived(self, data: bytes) -> None:
        # RFC 8446 6.1: data after a close_notify is ignored. OpenSSL would buffer it, because gate no longer reads.
        if not self._has_client_eof:
            super().dataReceived(data)

    def _flushReceiveBIO(self) -> None:
        if self._has_client_eof:
            return
        try:
            super()._flushReceiveBIO()
        except _ClientEof:
            self._has_client_eof = True
            self._flushSendBIO()

    def _shutdownTLS(self) -> None:
        if self._tlsConnection is None:
            # Twisted (26.4) clears it when the connection is lost; a tunnel may be aborted after that.
            return
        is_client_close = bool(self._tlsConnection.get_shutdown() & SSL.RECEIVED_SHUTDOWN) and not self.disconnecting
        if is_client_close and on_client_eof(self.wrappedProtocol):
            raise _ClientEof
        super()._shutdownTLS()
