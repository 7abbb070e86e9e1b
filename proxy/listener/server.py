"""Daphne's server with gate's connections.

Daphne provides the reactor on asyncio's event loop, the command line and the process. Its HTTP classes start an application only
after the complete body has arrived, and have no back-pressure, so gate replaces the connection factory.
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
from proxy.listener.event_loop import STOP_SIGNALS, begin_twisted_log, call_when_running, reactor_loop, run_reactor, use_event_loop
from proxy.listener.fair_selector import install_fair_selector
from proxy.listener.http1.http1_channel import Channel
from proxy.listener.listener_context import GetListenerSettings, Lifecycle, ListenerContext

OnStop = Callable[[], Coroutine[Any, Any, None]]

# Running requests have this long to complete after a stop signal.
STOP_SECONDS = 10.0


@implementer(IProtocolNegotiationFactory)
class ChannelFactory(Factory):
    """Factory of HTTP connections. `on_stop` is awaited after their last request."""

    noisy = False

    def __init__(self, context: ListenerContext, on_stop: OnStop):
        self.context = context
        self._on_stop = on_stop
        # The reactor waits only for "before" triggers; in a later phase the event loop may already have stopped.
        reactor.addSystemEventTrigger("before", "shutdown", lambda: Deferred.fromFuture(spawn(self._stop(), name="stop")))

    def buildProtocol(self, addr: IAddress) -> Channel:
        return Channel(self.context)

    def acceptableProtocols(self) -> list[bytes]:
        """Return the protocols that an `ssl:` endpoint negotiates (ALPN, RFC 7301).

        Without any, Twisted (26.4) rejects clients that offer some.
        """
        return [b"http/1.1"]

    async def _stop(self) -> None:
        await drain(self.context)
        await self._on_stop()


class GateServer(daphne.server.Server):
    """Daphne's server with gate's connections."""

    def __init__(
        self,
        application: Application,
        get_settings: GetListenerSettings,
        lifecycle: Lifecycle,
        endpoints: Sequence[str] = ("socket",),
        **daphne_kwargs: Any,
    ):
        """Take `endpoints`, of which Daphne requires one, and `daphne_kwargs` for Daphne's constructor."""
        super().__init__(application, endpoints=list(endpoints), **daphne_kwargs)
        self.context = ListenerContext(application, get_settings, lifecycle.on_request_complete, self.application_close_timeout)
        self._lifecycle = lifecycle
        self._ports: list[IListeningPort] = []
        self._stopping: asyncio.Task[None] | None = None

    def serve(self, open_ports: Callable[[ChannelFactory], list[IListeningPort]], on_open: Callable[[], None] = lambda: None) -> None:
        """Run until SIGTERM or SIGINT, and then until the lifecycle has drained.

        `on_open` opens other ports. Raises the ConfigError of `open_ports` and `on_open`, with nothing served.
        """
        begin_twisted_log()
        use_event_loop()
        install_fair_selector(reactor_loop())
        on_open()
        self._ports = open_ports(ChannelFactory(self.context, self._lifecycle.stop))
        reactor.addSystemEventTrigger("before", "shutdown", self._stop_accepting)
        call_when_running(self._lifecycle.on_ready)
        for signum in STOP_SIGNALS:
            reactor_loop().add_signal_handler(signum, self._stop)
        run_reactor()

    def _stop(self) -> None:
        """Drain at the first signal; abort the connections at the next one."""
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
    """Wait up to `seconds` for running requests, then cancel them. Idle connections close immediately."""
    context.is_stopping = True
    for channel in list(context.channels):
        channel.shut_down()
    await _wait_until_empty(context, seconds)
    for exchange in list(context.exchanges):
        exchange.cancel()
    await _wait_until_empty(context, 1.0)


async def _wait_until_empty(context: ListenerContext, seconds: float) -> None:
    context.all_closed.clear()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds if context.channels else 0):
            await context.all_closed.wait()
