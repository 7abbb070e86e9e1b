"""Listening ports that accept a bounded number of connections in one turn of the event loop."""

import socket

from twisted.internet import reactor
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.tcp import Port
from twisted.internet.unix import Port as UnixPort

from foundation.system.fd_limit import CLIENTS, is_exhausted, report_exhaustion
from proxy.listener.client_transport import ClientTransport

# Connections that wait in the kernel to be accepted.
BACKLOG = 1024
# Connections that a port accepts in one turn of the event loop.
ACCEPTS_PER_TURN = 8
FD_RETRY_SECONDS = 0.1  # until a port without spare file descriptors tries again


class BoundedAccept(Port):
    """Mixin of listening ports that bound the connections accepted in one turn of the event loop.

    Twisted (26.4) accepts more connections per turn the more it has accepted before. If file descriptors run short, new clients wait
    in the kernel's queue, so that connected clients can still reach their upstreams.
    """

    numberAccepts = property(lambda self: 1, lambda self, requested: None)

    def doRead(self) -> None:
        """Accept connections, checking the descriptor table before each: with a full table Twisted closes waiting clients."""
        for _ in range(ACCEPTS_PER_TURN):
            if is_exhausted(self.fileno()):
                report_exhaustion(CLIENTS)
                self.stopReading()
                reactor.callLater(FD_RETRY_SECONDS, self._resume_accepting)
                return
            before = self.sessionno
            super().doRead()
            if self.sessionno == before:  # the queue is empty
                return

    def _resume_accepting(self) -> None:
        if self.connected:  # false if the port was closed in the meantime
            self.startReading()


class BoundedAcceptPort(BoundedAccept):
    transport = ClientTransport


class BoundedAcceptUnixPort(BoundedAccept, UnixPort):
    """Listening port of a Unix socket."""


def port_from_socket(listener: socket.socket, factory: IProtocolFactory) -> IListeningPort:
    """Return a port for a socket that is already listening. The port duplicates the descriptor."""
    if listener.family == socket.AF_UNIX:
        port: IListeningPort = BoundedAcceptUnixPort._fromListeningDescriptor(reactor, listener.fileno(), factory)
        port.startListening()
        return port
    port = BoundedAcceptPort._fromListeningDescriptor(reactor, listener.fileno(), listener.family, factory)
    port.startListening()
    return port
