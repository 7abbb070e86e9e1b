"""Client socket: what is asked of Twisted, and of the kernel, for a client's connection, with TLS or without."""

import socket
from typing import Any

from twisted.internet.interfaces import ISSLTransport, ITCPTransport

from proxy.listener import listener_limits


class ClientSocket:
    """Client socket.  `descriptor` is None where it has none (a transport for tests)."""

    __slots__ = ("_plain", "_transport", "descriptor", "is_tls")

    def __init__(self, transport: Any):
        self.is_tls = bool(ISSLTransport.providedBy(transport))
        self._transport = transport
        plain = self._plain = transport.transport if self.is_tls else transport
        self.descriptor: int | None = plain.fileno() if hasattr(plain, "fileno") else None
        # Twisted's Unix sockets say that they are TCP, too; of those of the internal listener behind Envoy neither option is known.
        if ITCPTransport.providedBy(plain) and plain.getHandle().family != socket.AF_UNIX:
            # An event stream's small writes must not wait for the acknowledgement of the one before.
            plain.setTcpNoDelay(True)
            plain.getHandle().setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, listener_limits.NOTSENT_LOWAT_BYTES)

    def end_writing(self) -> None:
        """Half-close, after all that was written; the client may speak on."""
        # With a producer registered Twisted would wait for it instead.
        self._transport.unregisterProducer()
        if self.is_tls:
            # close_notify ends our side only; Twisted goes on reading, with no deadline of its own.
            self._transport.loseConnection()
        else:
            self._transport.loseWriteConnection()

    def close(self) -> None:
        """Close both directions; what is in the send buffer goes out first."""
        self._plain.loseConnection()
