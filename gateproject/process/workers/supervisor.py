"""Supervisor of several workers: forks and restarts them, and serves no requests.

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
from gateproject.worker_process import PRIMARY, WorkerProcess
from proxy.listener.event_loop import replace_event_loop
from proxy.listener.listeners import bind

log = structlog.get_logger(__name__)

READY_SIGNAL = signal.SIGUSR1  # sent by the primary, after which the other workers can connect to it
STOPS = (signal.SIGTERM, signal.SIGINT)
SIGNALS = (*STOPS, signal.SIGHUP, signal.SIGCHLD, READY_SIGNAL)
FIRST_PAUSE, MAX_PAUSE = 0.1, 10.0  # seconds before a restart
STABLE_AFTER = 60.0  # an exit after this many seconds resets the backoff
# Requests get ten seconds to end, plus time to write the decision log; then workers are killed.
STOP_SECONDS = 25.0
# Modules that only the ASGI application imports; all others are imported with the runtime.
_OF_THE_APPLICATION = (
    "gateproject.process.workers.worker",
    "channels.routing",
    "django.core.asgi",
    "gateproject.process.third_party_server",
    "gateproject.urls",
)


def open_shared_listener(options: Options) -> socket.socket:
    """Return the shared listening socket, after importing all shared modules. Raise ConfigError if the address is unavailable."""
    listener = bind(options.address, "address")
    for name in _OF_THE_APPLICATION:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection would write to all pages, and written pages are not shared
    return listener


class Supervisor:
    """Supervisor of `count` processes, which accept requests for `shutdown_delay` seconds after SIGTERM."""

    def __init__(self, count: int, listener: socket.socket, shutdown_delay: float = 0.0):
        self._count = count
        self._stop_seconds = STOP_SECONDS + shutdown_delay
        self._listener = listener
        # Mode 0700. Socket paths are limited to 107 bytes.
        self._directory = Path(tempfile.mkdtemp(prefix="gate-"))
        self._secret = secrets.token_bytes(32)
        self._output_lock = os.memfd_create("turns")
        self._alive_reader, self._alive_writer = os.pipe()
        self._exits_reader, self._exits_writer = os.pipe()
        os.set_blocking(self._exits_writer, False)
        self._running: dict[int, tuple[int, float]] = {}  # process id -> (number, start time)
        self._due: dict[int, float] = {}  # number -> time of the restart
        self._crashes: dict[int, int] = {}
        self._status = 0
        self._is_serving = False
        self._stop_deadline: float | None = None

    def __repr__(self) -> str:
        return f"<Supervisor of {len(self._running)} of {self._count}>"

    def run(self) -> WorkerProcess:
        """Return in each forked process; in the supervisor, run until all have exited and raise SystemExit."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._due[PRIMARY] = 0.0
        while self._running or self._due:
            for number in [number for number, when in self._due.items() if when <= time.monotonic()]:
                del self._due[number]
                if (process := self._fork(number)) is not None:
                    return process
            if (received := signal.sigtimedwait(SIGNALS, self._pause())) is not None:
                self._handle(signal.Signals(received.si_signo))
            if self._stop_deadline is not None and time.monotonic() > self._stop_deadline:
                self._send(signal.SIGKILL)
        shutil.rmtree(self._directory, ignore_errors=True)
        sys.exit(self._status)

    def _pause(self) -> float:
        moments = [*self._due.values(), *([] if self._stop_deadline is None else [self._stop_deadline])]
        return max(0.0, min([moment - time.monotonic() for moment in moments], default=3600.0))

    def _handle(self, number: signal.Signals) -> None:
        if number in STOPS:
            self._stop(number)
        elif number == signal.SIGCHLD:
            self._reap()
        elif number == signal.SIGHUP:
            self._send(number, PRIMARY)
        elif not self._is_serving and self._stop_deadline is None:
            self._is_serving = True
            self._due |= dict.fromkeys(range(PRIMARY + 1, self._count + 1), 0.0)

    def _stop(self, number: signal.Signals) -> None:
        self._due.clear()
        self._stop_deadline = self._stop_deadline or time.monotonic() + self._stop_seconds
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
                if number == 0:  # process 1 of a container adopts orphans
                    continue
                if number == PRIMARY:
                    self._on_primary_exit(status)
                elif self._stop_deadline is None:
                    self._start_again(number, status, time.monotonic() - since)

    def _on_primary_exit(self, status: int) -> None:
        """End all workers after the primary, which held the records in memory and the active configuration."""
        if self._stop_deadline is not None:
            self._status = self._status or (1 if status else 0)
            return
        self._status = 1
        if self._is_serving:
            log.error("primary process exited", **how(status))
        self._stop(signal.SIGTERM)

    def _start_again(self, number: int, status: int, lived: float) -> None:
        self._crashes[number] = 0 if lived > STABLE_AFTER else self._crashes.get(number, 0)
        pause = backoff_delay(self._crashes[number], FIRST_PAUSE, MAX_PAUSE)
        self._crashes[number] += 1
        self._due[number] = time.monotonic() + pause
        with suppress(BlockingIOError):
            os.write(self._exits_writer, json.dumps({"worker_number": number, **how(status), "restart_seconds": pause}).encode() + b"\n")

    def _fork(self, number: int) -> WorkerProcess | None:
        """Return the worker in the forked process."""
        if (id := os.fork()) != 0:
            self._running[id] = number, time.monotonic()
            return None
        # On a terminal each process would get SIGINT itself and SIGTERM from the supervisor, which means an immediate stop.
        os.setpgid(0, 0)
        os.close(self._alive_writer)
        os.close(self._exits_writer)
        raise_limit()
        replace_event_loop()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return WorkerProcess(
            number, self._count, self._directory, self._secret, self._listener, self._output_lock, self._alive_reader, self._exits_reader
        )


def how(status: int) -> dict[str, int | str]:
    """Describe an exit for the log; `status` is the exit status, or the negative number of a signal."""
    return {"exit_status": status} if status >= 0 else {"signal": signal.Signals(-status).name}
