"""Socket options and shutdown of a client connection, with or without TLS."""

import socket
from typing import Any

from twisted.internet.interfaces import ISSLTransport, ITCPTransport

from proxy.listener import listener_limits


class ClientSocket:
    """Socket of a client connection. `descriptor` is None if the transport has none, as in tests."""

    __slots__ = ("_plain", "_transport", "descriptor", "is_tls")

    def __init__(self, transport: Any):
        self.is_tls = bool(ISSLTransport.providedBy(transport))
        self._transport = transport
        plain = self._plain = transport.transport if self.is_tls else transport
        self.descriptor: int | None = plain.fileno() if hasattr(plain, "fileno") else None
        # Twisted's Unix sockets also provide ITCPTransport, but have neither option (the internal listener behind Envoy).
        if ITCPTransport.providedBy(plain) and plain.getHandle().family != socket.AF_UNIX:
            # Small writes of an event stream must not wait for the acknowledgement of the previous one.
            plain.setTcpNoDelay(True)
            plain.getHandle().setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, listener_limits.NOTSENT_LOWAT_BYTES)

    def shutdown_write(self) -> None:
        """Half-close after all buffered data was sent. The client can keep sending."""
        # With a registered producer Twisted would wait for it instead of closing.
        self._transport.unregisterProducer()
        if self.is_tls:
            # close_notify ends only gate's direction; Twisted keeps reading, without a deadline.
            self._transport.loseConnection()
        else:
            self._transport.loseWriteConnection()

    def close(self) -> None:
        """Close both directions after the send buffer was flushed."""
        self._plain.loseConnection()
