"""Daphne's server with our connections instead of its own.

Daphne gives the reactor on asyncio's loop, the command line and the process; its HTTP classes start an application only after
the whole body has arrived and know no back-pressure, so the factory it builds connections with is replaced whole.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import daphne.server
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IListeningPort, IProtocolNegotiationFactory
from twisted.internet.protocol import Factory
from zope.interface import implementer

from foundation.tasks import spawn
from foundation.web.asgi_types import Application
from proxy.listener.event_loop import STOP_SIGNALS, begin_twisted_log, reactor_loop, run_reactor, use_event_loop, when_running
from proxy.listener.fair_selector import install_fair_selector
from proxy.listener.http1.http1_channel import Channel
from proxy.listener.listener_context import GetState, Lifecycle, ListenerContext

OnStop = Callable[[], Coroutine[Any, Any, None]]

# Running requests have this long to end when the process is told to stop.
STOP_SECONDS = 10.0


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
        self, application: Application, get_state: GetState, lifecycle: Lifecycle, endpoints: Sequence[str] = ("socket",), **daphnes: Any
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
        begin_twisted_log()
        use_event_loop()
        install_fair_selector(reactor_loop())
        on_open()
        self._ports = open_ports(ChannelFactory(self.context, self._lifecycle.stop))
        reactor.addSystemEventTrigger("before", "shutdown", self._stop_accepting)
        when_running(self._lifecycle.on_ready)
        for number in STOP_SIGNALS:
            reactor_loop().add_signal_handler(number, self._stop)
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
    context.all_closed.clear()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds if context.channels else 0):
            await context.all_closed.wait()
