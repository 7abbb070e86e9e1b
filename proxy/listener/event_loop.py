"""Event loop of Twisted's reactor, which is asyncio's."""

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
    """Set the reactor's event loop: what is made from now on without a running loop belongs to it."""
    asyncio.set_event_loop(reactor_loop())


def replace_event_loop() -> None:
    """Give the reactor of a process that was forked an event loop of its own: two that share one wake each other, and hear nothing."""
    reactor_loop().close()
    AsyncioSelectorReactor.__init__(reactor, asyncio.new_event_loop())


def when_running(callback: Callable[[], None]) -> None:
    """Call once the event loop runs.  (Twisted calls back before: `asyncio.create_task` would fail there.)"""
    reactor.callWhenRunning(lambda: reactor_loop().call_soon(callback))


def run_reactor() -> None:
    """Run the reactor until it has stopped.  From then on the process only ends, and nobody can hurry it."""
    reactor.run(installSignalHandlers=False)
    for number in (*STOP_SIGNALS, signal.SIGHUP):
        # Python puts the default back for what it handles, long before it is gone: one more signal would make this end a failure.
        signal.signal(number, signal.SIG_IGN)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run on the event loop that a PlainHttpListener needs, for a process without a main listener; what it raises is raised here."""
    begin_twisted_log()
    begun: list[asyncio.Task[None]] = []

    async def until_its_end() -> None:
        try:
            await main()
        finally:
            reactor.stop()

    when_running(lambda: begun.append(spawn(until_its_end(), name="main")))
    run_reactor()
    begun[0].result()


def begin_twisted_log() -> None:
    """Pass Twisted's log on to the log of gate."""
    globalLogBeginner.beginLoggingTo([_report], redirectStandardIO=False, discardBuffer=True)


def _report(event: dict[str, Any]) -> None:
    """Twisted's own log is silent but for what it caught: an exception in our connections must be seen."""
    if (failure := event.get("log_failure")) is not None:
        log.error("unhandled error in connection", exc_info=failure.value)
