"""Taken-over connection as its new owner uses it: like a transport of asyncio, one direction of which may end first."""

from typing import TYPE_CHECKING, Any

from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import ITCPTransport
from twisted.protocols.tls import BufferingTLSTransport
from twisted.python.failure import Failure

from proxy.listener.client_socket import ClientSocket

if TYPE_CHECKING:
    from proxy.listener.http1.channel import Channel


class TunnelEnd:
    __slots__ = ("_channel", "_is_plain", "_socket", "_transport")

    def __init__(self, channel: "Channel", client: ClientSocket):
        self._channel = channel
        self._transport = channel.transport
        self._socket = client
        self._is_plain = not client.is_tls and ITCPTransport.providedBy(channel.transport)

    def write(self, data: bytes) -> None:
        transport = self._transport
        if self._is_plain and transport.connected and not transport.dataBuffer and not transport._tempDataBuffer:
            # Twisted itself sends on the loop's next turn and watches the socket for it: half of what an echo costs.
            sent = transport.writeSomeData(data)
            # An error is found again by Twisted, which knows what to do.
            data = data[sent:] if isinstance(sent, int) else data
        transport.write(data)

    def pause_reading(self) -> None:
        self._channel.pause_reading()

    def resume_reading(self) -> None:
        self._channel.resume_reading()

    def write_eof(self) -> None:
        self._socket.end_writing()

    def close(self) -> None:
        self._channel.close()

    def abort(self) -> None:
        self._transport.abortConnection()

    def get_extra_info(self, name: str) -> Any:
        """Extra info of a transport; knows `socket` alone."""
        transport: Any = self._transport if self._is_plain else getattr(self._transport, "transport", None)
        return transport.getHandle() if name == "socket" and ITCPTransport.providedBy(transport) else None


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
