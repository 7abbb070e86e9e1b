"""Worker supervisor: the process of the command where there are several; it forks them, starts again what died, and serves nobody.

It has one thread and no event loop, so that it can fork at any time.
"""

import gc
import importlib
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import structlog

from config.options import Options
from foundation.backoff import backoff_delay
from foundation.system.fd_limit import raise_limit
from gateproject.worker_process import FIRST, WorkerProcess
from proxy.listener.event_loop import replace_event_loop
from proxy.listener.listeners import bind

log = structlog.get_logger(__name__)

SERVES = signal.SIGUSR1  # the first says so: now the others find what they ask for
STOPS = (signal.SIGTERM, signal.SIGINT)
SIGNALS = (*STOPS, signal.SIGHUP, signal.SIGCHLD, SERVES)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds until one that died is started again
STEADY = 60.0  # who lived so many seconds is no sign that the next one will die
# Requests have ten seconds to end, and what was done by then has to be written down; who is there after this is ended.
STOP_SECONDS = 25.0
# What only the application imports; the rest comes with the runtime.
_OF_THE_APPLICATION = (
    "gateproject.process.workers.worker",
    "channels.routing",
    "django.core.asgi",
    "gateproject.process.third_party_server",
    "gateproject.urls",
)


def listener_of_all(options: Options) -> socket.socket:
    """Listening socket of all processes, with everything imported that they share; ConfigError where the address can't be had."""
    listener = bind(options.address, "address")
    for name in _OF_THE_APPLICATION:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection would write to every page, and pages that are written are not shared
    return listener


class Supervisor:
    """Supervisor of `count` processes, which take requests for `shutdown_delay` seconds after they were told to stop."""

    def __init__(self, count: int, listener: socket.socket, shutdown_delay: float = 0.0):
        self._count = count
        self._stop_seconds = STOP_SECONDS + shutdown_delay
        self._listener = listener
        # Mode 0700.  Paths of sockets are short: 107 bytes.
        self._directory = Path(tempfile.mkdtemp(prefix="gate-"))
        self._secret = secrets.token_bytes(32)
        self._turns = os.memfd_create("turns")
        self._life, self._held = os.pipe()
        self._news, self._tells = os.pipe()
        os.set_blocking(self._tells, False)
        self._running: dict[int, tuple[int, float]] = {}  # process id -> (number, since when)
        self._due: dict[int, float] = {}  # number -> when it is started
        self._deaths: dict[int, int] = {}
        self._status = 0
        self._is_serving = False
        self._stops_until: float | None = None

    def __repr__(self) -> str:
        return f"<Supervisor of {len(self._running)} of {self._count}>"

    def run(self) -> WorkerProcess:
        """Returns in each process that is forked, for as long as they are; SystemExit here."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._due[FIRST] = 0.0
        while self._running or self._due:
            for number in [number for number, when in self._due.items() if when <= time.monotonic()]:
                del self._due[number]
                if (process := self._forked(number)) is not None:
                    return process
            if (heard := signal.sigtimedwait(SIGNALS, self._pause())) is not None:
                self._hear(signal.Signals(heard.si_signo))
            if self._stops_until is not None and time.monotonic() > self._stops_until:
                self._send(signal.SIGKILL)
        shutil.rmtree(self._directory, ignore_errors=True)
        sys.exit(self._status)

    def _pause(self) -> float:
        moments = [*self._due.values(), *([] if self._stops_until is None else [self._stops_until])]
        return max(0.0, min([moment - time.monotonic() for moment in moments], default=3600.0))

    def _hear(self, number: signal.Signals) -> None:
        if number in STOPS:
            self._stop(number)
        elif number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGHUP:
            self._send(number, FIRST)
        elif not self._is_serving and self._stops_until is None:
            self._is_serving = True
            self._due |= dict.fromkeys(range(FIRST + 1, self._count + 1), 0.0)

    def _stop(self, number: signal.Signals) -> None:
        self._due.clear()
        self._stops_until = self._stops_until or time.monotonic() + self._stop_seconds
        self._send(number)

    def _send(self, number: signal.Signals, to: int | None = None) -> None:
        for id, (worker, _) in self._running.items():
            if to in (None, worker):
                with suppress(ProcessLookupError):
                    os.kill(id, number)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                number, since = self._running.pop(ended[0], (0, 0.0))
                status = os.waitstatus_to_exitcode(ended[1])
                if number == 0:  # of process 1 of a container anybody may become a child
                    continue
                if number == FIRST:
                    self._first_ended(status)
                elif self._stops_until is None:
                    self._start_again(number, status, time.monotonic() - since)

    def _first_ended(self, status: int) -> None:
        """The records may have been in its memory, and nobody else knows which configuration is in force: all end with it."""
        if self._stops_until is not None:
            self._status = self._status or (1 if status else 0)
            return
        self._status = 1
        if self._is_serving:
            log.error("primary process exited", **how(status))
        self._stop(signal.SIGTERM)

    def _start_again(self, number: int, status: int, lived: float) -> None:
        self._deaths[number] = 0 if lived > STEADY else self._deaths.get(number, 0)
        pause = backoff_delay(self._deaths[number], FIRST_PAUSE, LONGEST_PAUSE)
        self._deaths[number] += 1
        self._due[number] = time.monotonic() + pause
        with suppress(BlockingIOError):
            os.write(self._tells, json.dumps({"ended": number, **how(status), "again_in": pause}).encode() + b"\n")

    def _forked(self, number: int) -> WorkerProcess | None:
        """The process that was forked, where we are it."""
        if (id := os.fork()) != 0:
            self._running[id] = number, time.monotonic()
            return None
        # Of a terminal each would hear Ctrl-C by itself, and once more from us, which means: at once.
        os.setpgid(0, 0)
        os.close(self._held)
        os.close(self._tells)
        raise_limit()
        replace_event_loop()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return WorkerProcess(number, self._count, self._directory, self._secret, self._listener, self._turns, self._life, self._news)


def how(status: int) -> dict[str, int | str]:
    """How a process ended, for the log: `status` is its exit status, or the negative number of a signal."""
    return {"exit_status": status} if status >= 0 else {"signal": signal.Signals(-status).name}
