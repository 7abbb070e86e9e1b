"""The asyncio event loop of Twisted's reactor: setup, run and stop."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from twisted.internet import reactor
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.logger import globalLogBeginner

from foundation.tasks import spawn

log = structlog.get_logger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def reactor_loop() -> asyncio.AbstractEventLoop:
    running: asyncio.AbstractEventLoop = reactor._asyncioEventloop
    return running


def use_event_loop() -> None:
    """Make the reactor's event loop the current one, for asyncio objects that are created before it runs."""
    asyncio.set_event_loop(reactor_loop())


def replace_event_loop() -> None:
    """Give the reactor of a forked process a new event loop: two processes that share one wake each other and lose events."""
    reactor_loop().close()
    AsyncioSelectorReactor.__init__(reactor, asyncio.new_event_loop())


def call_when_running(callback: Callable[[], None]) -> None:
    """Call back once the event loop runs. Twisted's own callback comes earlier, where `asyncio.create_task` fails."""
    reactor.callWhenRunning(lambda: reactor_loop().call_soon(callback))


def run_reactor() -> None:
    """Run the reactor until it has stopped, then ignore further stop signals until the process exits."""
    reactor.run(installSignalHandlers=False)
    for signum in (*STOP_SIGNALS, signal.SIGHUP):
        # asyncio restores the default handlers when the loop closes; another signal would then make a clean exit a failure.
        signal.signal(signum, signal.SIG_IGN)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `main` on the reactor's event loop, for a process without a main listener. Raises what `main` raises."""
    begin_twisted_log()
    tasks: list[asyncio.Task[None]] = []

    async def run_main() -> None:
        try:
            await main()
        finally:
            reactor.stop()

    call_when_running(lambda: tasks.append(spawn(run_main(), name="main")))
    run_reactor()
    tasks[0].result()


def begin_twisted_log() -> None:
    """Redirect Twisted's log to gate's."""
    globalLogBeginner.beginLoggingTo([_log_twisted_failure], redirectStandardIO=False, discardBuffer=True)


def _log_twisted_failure(event: dict[str, Any]) -> None:
    """Log the exceptions that Twisted has caught, for example in a connection; its other events are dropped."""
    if (failure := event.get("log_failure")) is not None:
        log.error("unhandled error in connection", exc_info=failure.value)
