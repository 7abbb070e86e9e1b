"""Daphne's server with our connections instead of its own.

Daphne gives the reactor on asyncio's loop, the command line and the process; its HTTP classes start an application only after
the whole body has arrived and know no back-pressure, so the factory it builds connections with is replaced whole.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import daphne.server
import structlog
from twisted.internet import reactor
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IListeningPort, IProtocolFactory, IProtocolNegotiationFactory
from twisted.internet.protocol import Factory
from twisted.internet.tcp import Port
from twisted.internet.unix import Port as UnixPort
from twisted.logger import globalLogBeginner
from zope.interface import implementer

from foundation.system.fd_limit import CLIENTS, is_short, report_shortage
from foundation.tasks import spawn
from foundation.web.asgi_types import Application
from proxy.listener.client_transport import ClientTransport
from proxy.listener.context import Current, Lifecycle, ListenerContext
from proxy.listener.fair_selector import install_fair_selector
from proxy.listener.http1.channel import Channel

log = structlog.get_logger(__name__)

OnStop = Callable[[], Coroutine[Any, Any, None]]

# Running requests have this long to end when the process is told to stop.
STOP_SECONDS = 10.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Who has connected and waits to be taken.
BACKLOG = 1024
# New connections in one turn of the event loop.
ACCEPTS = 8
LOOK_AGAIN = 0.1  # seconds: whether there are file descriptors for new clients again


@implementer(IProtocolNegotiationFactory)
class ChannelFactory(Factory):
    """Factory of our connections.  `on_stop` is awaited after the last of their requests."""

    noisy = False

    def __init__(self, context: ListenerContext, on_stop: OnStop):
        self.context = context
        self._on_stop = on_stop
        # "before": the reactor waits for these alone; a later phase would lose the loop under our feet.
        reactor.addSystemEventTrigger("before", "shutdown", lambda: Deferred.fromFuture(spawn(self._stop(), name="stop")))

    def buildProtocol(self, addr: IAddress) -> Channel:
        return Channel(self.context)

    def acceptableProtocols(self) -> list[bytes]:
        """Protocols that an `ssl:` endpoint may agree on (ALPN, RFC 7301); without any, Twisted (26.4) refuses whoever offers some."""
        return [b"http/1.1"]

    async def _stop(self) -> None:
        await drain(self.context)
        await self._on_stop()


class GateServer(daphne.server.Server):
    """Server of Daphne's with our connections."""

    def __init__(
        self, application: Application, get_state: Current, lifecycle: Lifecycle, endpoints: Sequence[str] = ("socket",), **daphnes: Any
    ):
        """`endpoints`, of which Daphne wants one, and `daphnes` are arguments of Daphne's own."""
        super().__init__(application, endpoints=list(endpoints), **daphnes)
        self.context = ListenerContext(application, get_state, lifecycle.on_request_complete, self.application_close_timeout)
        self._lifecycle = lifecycle
        self._ports: list[IListeningPort] = []
        self._stopping: asyncio.Task[None] | None = None

    def serve(self, open_ports: Callable[[ChannelFactory], list[IListeningPort]], on_open: Callable[[], None] = lambda: None) -> None:
        """Run until SIGTERM or SIGINT, and then as long as the lifecycle drains.  ConfigError, with nothing served, of `open_ports` and of
        `on_open`, which takes other ports."""
        globalLogBeginner.beginLoggingTo([_report], redirectStandardIO=False, discardBuffer=True)
        use_event_loop()
        install_fair_selector(loop())
        on_open()
        self._ports = open_ports(ChannelFactory(self.context, self._lifecycle.stop))
        reactor.addSystemEventTrigger("before", "shutdown", self._stop_accepting)
        when_running(self._lifecycle.on_ready)
        for number in STOP_SIGNALS:
            loop().add_signal_handler(number, self._stop)
        run_reactor()

    def _stop(self) -> None:
        """The first signal lets running requests end, the next one ends them."""
        if self._stopping is None:
            self._stopping = spawn(self._lifecycle.drain(), name="before the stop")
            self._stopping.add_done_callback(lambda _: reactor.stop())
        else:
            self._stopping.cancel()
            for channel in list(self.context.channels):
                channel.transport.abortConnection()

    def _stop_accepting(self) -> None:
        for port in self._ports:
            port.stopListening()


class BoundedAccept(Port):
    """Mixin of listening ports that accept few at once: Twisted (26.4) accepts the more connections in one turn of the loop, the more there
    are.

    Where file descriptors run short new clients wait in the kernel's queue, so that those who are here get their upstreams.
    """

    numberAccepts = property(lambda self: 1, lambda self, wished: None)

    def doRead(self) -> None:
        """Accept.  Looked at before each: Twisted, which meets a full table by itself, closes whoever waits."""
        for _ in range(ACCEPTS):
            if is_short(self.fileno()):
                report_shortage(CLIENTS)
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


def adopted(listener: socket.socket, factory: IProtocolFactory) -> IListeningPort:
    """Port of a socket that listens already, of which this has its own descriptor."""
    if listener.family == socket.AF_UNIX:
        port: IListeningPort = BoundedAcceptUnixPort._fromListeningDescriptor(reactor, listener.fileno(), factory)
        port.startListening()
        return port
    port = BoundedAcceptPort._fromListeningDescriptor(reactor, listener.fileno(), listener.family, factory)
    port.startListening()
    return port


def loop() -> asyncio.AbstractEventLoop:
    running: asyncio.AbstractEventLoop = reactor._asyncioEventloop
    return running


def use_event_loop() -> None:
    """Set the reactor's event loop: what is made from now on without a running loop belongs to it."""
    asyncio.set_event_loop(loop())


def renew_event_loop() -> None:
    """Give the reactor of a process that was forked an event loop of its own: two that share one wake each other, and hear nothing."""
    loop().close()
    AsyncioSelectorReactor.__init__(reactor, asyncio.new_event_loop())


def when_running(callback: Callable[[], None]) -> None:
    """Call once the event loop runs.  (Twisted calls back before: `asyncio.create_task` would fail there.)"""
    reactor.callWhenRunning(lambda: loop().call_soon(callback))


def run_reactor() -> None:
    """Run the reactor until it has stopped.  From then on the process only ends, and nobody can hurry it."""
    reactor.run(installSignalHandlers=False)
    for number in (*STOP_SIGNALS, signal.SIGHUP):
        # Python puts the default back for what it handles, long before it is gone: one more signal would make this end a failure.
        signal.signal(number, signal.SIG_IGN)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run on the event loop that a PlainListener needs, for a process without a main listener; what it raises is raised here."""
    globalLogBeginner.beginLoggingTo([_report], redirectStandardIO=False, discardBuffer=True)
    begun: list[asyncio.Task[None]] = []

    async def until_its_end() -> None:
        try:
            await main()
        finally:
            reactor.stop()

    when_running(lambda: begun.append(spawn(until_its_end(), name="main")))
    run_reactor()
    begun[0].result()


async def drain(context: ListenerContext, seconds: float = STOP_SECONDS) -> None:
    """Let running requests end, for a while; then end them.  A connection without one closes now."""
    context.is_stopping = True
    for channel in list(context.channels):
        channel.finish_soon()
    await _until_empty(context, seconds)
    for exchange in list(context.exchanges):
        exchange.cancel()
    await _until_empty(context, 1.0)


async def _until_empty(context: ListenerContext, seconds: float) -> None:
    context.emptied.clear()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds if context.channels else 0):
            await context.emptied.wait()


def _report(event: dict[str, Any]) -> None:
    """Twisted's own log is silent but for what it caught: an exception in our connections must be seen."""
    if (failure := event.get("log_failure")) is not None:
        log.error("unhandled error in connection", exc_info=failure.value)
