"""Listening ports that accept a bounded number of connections in one turn of the event loop."""

import socket

from twisted.internet import reactor
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.tcp import Port
from twisted.internet.unix import Port as UnixPort

from foundation.system.fd_limit import CLIENTS, is_exhausted, report_exhaustion
from proxy.listener.client_transport import ClientTransport

# Who has connected and waits to be taken.
BACKLOG = 1024
# New connections in one turn of the event loop.
ACCEPTS = 8
LOOK_AGAIN = 0.1  # seconds: whether there are file descriptors for new clients again


class BoundedAccept(Port):
    """Mixin of listening ports that accept few at once: Twisted (26.4) accepts the more connections in one turn of the loop, the more there
    are.

    Where file descriptors run short new clients wait in the kernel's queue, so that those who are here get their upstreams.
    """

    numberAccepts = property(lambda self: 1, lambda self, wished: None)

    def doRead(self) -> None:
        """Accept.  Looked at before each: Twisted, which meets a full table by itself, closes whoever waits."""
        for _ in range(ACCEPTS):
            if is_exhausted(self.fileno()):
                report_exhaustion(CLIENTS)
                self.stopReading()
                reactor.callLater(LOOK_AGAIN, self._go_on)
                return
            before = self.sessionno
            super().doRead()
            if self.sessionno == before:  # nobody waits
                return

    def _go_on(self) -> None:
        if self.connected:  # else it was closed meanwhile
            self.startReading()


class BoundedAcceptPort(BoundedAccept):
    transport = ClientTransport


class BoundedAcceptUnixPort(BoundedAccept, UnixPort):
    """The same of a Unix socket."""


def port_from_socket(listener: socket.socket, factory: IProtocolFactory) -> IListeningPort:
    """Port of a socket that listens already, of which this has its own descriptor."""
    if listener.family == socket.AF_UNIX:
        port: IListeningPort = BoundedAcceptUnixPort._fromListeningDescriptor(reactor, listener.fileno(), factory)
        port.startListening()
        return port
    port = BoundedAcceptPort._fromListeningDescriptor(reactor, listener.fileno(), listener.family, factory)
    port.startListening()
    return port
