"""Child processes of tests: clean environment, free ports, bounded waits for output, no orphans."""

import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.eventually import PATIENCE

ROOT = Path(__file__).parents[2]
POLL = 0.02  # seconds


# Below the kernel's ephemeral ports: an outgoing connection could take such a port before its server binds it.
PORTS = range(15_000, 32_768)
_random = random.SystemRandom()  # a separate generator, because that of the tests is reseeded for each test
# An abstract socket per allocated port, which reserves it among all test processes until its server listens,
# and for some time in this process.
_reserved: deque[socket.socket] = deque()


@atexit.register
def _release() -> None:
    """Close the reservations, because leaked sockets are reported at the end."""
    for name in _reserved:
        name.close()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    while True:
        port = _random.choice(PORTS)
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            name.bind(f"\0gate tests {port}")
            _reserved.append(name)
            if len(_reserved) > 200:
                _reserved.popleft().close()
            return port
        name.close()


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without gate's settings."""
    inherited = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE")
    return {name: os.environ[name] for name in inherited if name in os.environ} | {"PYTHONUNBUFFERED": "1"} | more


def wait_until(condition: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:.0f} s: {what}")
        time.sleep(POLL)


def _started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


class Child:
    """A child process under test. `lines` are its standard output and error, while `is_read` is set."""

    def __init__(
        self,
        *command: str | Path,
        environment: dict[str, str] | None = None,
        start: Callable[[list[str], dict[str, str]], Any] = _started,
    ):
        self._lines: list[str] = []
        self._events: list[dict] = []
        self._lines_read = 0
        self._reading_events = threading.Lock()
        self.is_read = threading.Event()
        self.is_read.set()
        self._has_ended = False
        self.process = start([str(part) for part in command], environment or clean_environment())
        self._reader = threading.Thread(target=self._read, name=f"output of {command}", daemon=True)
        self._reader.start()

    @classmethod
    def python(cls, *arguments: str | Path, **options) -> "Child":
        return cls(sys.executable, *arguments, **options)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.is_read.wait()
            self._lines.append(line.rstrip("\n"))

    @property
    def lines(self) -> list[str]:
        if not self._has_ended and self.process.poll() is not None:
            self._has_ended = True
            self._reader.join(1)  # the last output may not be read yet
        return self._lines

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def events(self) -> list[dict]:
        """Return the lines that are JSON objects, which is gate's log."""
        with self._reading_events:  # each line is parsed once, however often a waiting test reads them
            new = self.lines[self._lines_read :]
            self._events += [json.loads(line) for line in new if line.startswith("{")]
            self._lines_read += len(new)
            return list(self._events)

    def wait_for(self, condition: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        """As wait_until, but fail with the child's output if it exits."""
        is_met = False

        def is_over() -> bool:
            nonlocal is_met
            is_met = condition()
            return is_met or self.process.poll() is not None

        try:
            wait_until(is_over, what, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; it said:\n{self.output}") from None
        if is_met:
            return
        self._reader.join(5)  # what it said last may not be read yet
        if not condition():
            raise AssertionError(f"ended with status {self.process.returncode} before {what}; it said:\n{self.output}")

    def wait_for_line(self, text: str, timeout: float = PATIENCE) -> str:
        self.wait_for(lambda: any(text in line for line in self.lines), f"a line with {text!r}", timeout)
        return next(line for line in self.lines if text in line)

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout: float = 30) -> int:
        """Stop the child and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.ended(timeout)

    def ended(self, timeout: float = 30) -> int:
        """Return the exit status of a child that was already signalled, because a second signal may kill a process that is exiting."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running {timeout:.0f} s after the signal to stop. Output:\n{self.output}") from None
        finally:
            self.is_read.set()
            self._reader.join(5)
            if self.process.stdout is not None:
                self.process.stdout.close()
        return status

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None or self._reader.is_alive():
            self.stop()
        elif self.process.stdout is not None:
            self.process.stdout.close()
