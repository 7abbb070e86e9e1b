"""Non-blocking output: a thread writes to standard output; what waits for it is bounded, and the rest counted.

A full pipe makes each write wait until somebody reads: on the event loop every request, `/ping` and SIGTERM would wait with it.
"""

import atexit
import fcntl
import io
import json
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from queue import SimpleQueue

from foundation.telemetry import logs, metrics

MOST_LINES, MOST_BYTES = 10_000, 4 * 1024 * 1024  # that wait to be read
# Lines that come together are written together: under load one call of the kernel for hundreds.
TOGETHER = 0.005  # seconds
AT_ONCE = 64 * 1024  # bytes, as much as a pipe takes
LAST_WORDS = 2.0  # seconds: so long may what was said last take at the end of the process
DROPPED = "log lines dropped"


class Turn:
    """Turn of one of several processes at the output that all of them have: what it writes meanwhile stands together.

    `descriptor` is that of a file which they have inherited; the kernel gives back the turn of a process that ends.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._lock = threading.Lock()  # the kernel's is the process's, whichever thread took it

    def __enter__(self) -> None:
        self._lock.acquire()
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        self._lock.release()


class NonBlockingOutput(io.TextIOBase):
    """A text stream to a file descriptor whose `write` never waits.

    Lines keep their order; those that find no room are dropped until half of it is free again, and where they would have been stands
    how many they were.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        told: Callable[[int], str],
        most_lines: int = MOST_LINES,
        most_bytes: int = MOST_BYTES,
        turn: "Turn | None" = None,
    ):
        """`turn` is that of the processes that write to the same descriptor."""
        self._descriptor = descriptor
        self._turn: AbstractContextManager[None] = turn or nullcontext()
        self._told = told
        self._most_lines, self._most_bytes = most_lines, most_bytes
        self._waiting: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._is_awake = False
        # Reentrant, and the queue is by its nature: a finalizer may log while its own thread holds the one or the other.
        self._lock = threading.RLock()
        self._wake: SimpleQueue[None] = SimpleQueue()
        threading.Thread(target=self._run, name=f"output {descriptor}", daemon=True).start()

    def __repr__(self) -> str:
        return f"<NonBlockingOutput {self._descriptor}: {len(self._waiting)} waiting, {self._dropped} dropped>"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        with self._lock:
            if self._has_room(len(text)):
                if self._dropped:
                    self._tell_dropped()
                self._put(text)
            else:
                self._dropped += 1
                metrics.log_lines_dropped.inc()
        return len(text)

    def flush(self) -> None:
        """Nothing to do, and nobody to wait for."""

    def finish(self, seconds: float = LAST_WORDS) -> bool:
        """Wait until all is written, for so many seconds; whether it is."""
        deadline = time.monotonic() + seconds
        while self._is_awake and time.monotonic() < deadline:
            _pause(TOGETHER)  # no event of threading: a finalizer that logs while it is set would wait for itself
        return not self._is_awake

    def _has_room(self, size: int) -> bool:
        # Who has begun to drop goes on until there is room for more than one: else each second line would tell of the one before.
        part = 2 if self._dropped else 1
        return len(self._waiting) < self._most_lines // part and self._size + size <= self._most_bytes // part

    def _put(self, text: str) -> None:
        self._waiting.append(text)
        self._size += len(text)
        if not self._is_awake:
            self._is_awake = True
            self._wake.put(None)

    def _tell_dropped(self) -> None:
        number, self._dropped = self._dropped, 0
        self._put(self._told(number))

    def _take(self) -> str:
        """The text to write next; empty where nothing waits, and then whoever comes must wake us."""
        with self._lock:
            if not self._waiting and self._dropped:
                self._tell_dropped()
            taken: list[str] = []
            size = 0
            while self._waiting and size < AT_ONCE:
                text = self._waiting.popleft()
                taken.append(text)
                size += len(text)
            self._size -= size
            if not taken:
                self._is_awake = False
            return "".join(taken)

    def _run(self) -> None:
        while True:
            self._wake.get()
            _pause(TOGETHER)
            while text := self._take():
                data = text.encode("utf-8", "backslashreplace")
                with self._turn:
                    self._write_all(data)

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # somebody else has made it so: the other ends of a terminal share one state
                select.select([], [self._descriptor], [])
            except OSError:  # nobody will ever read this
                metrics.log_lines_dropped.inc(bytes(left).count(b"\n"))
                return


def _pause(seconds: float) -> None:
    """Sleep by `select`: `time.sleep` waits until a time of day under some tools that pretend another one."""
    select.select([], [], [], seconds)


def told_as_json(number: int) -> str:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.dumps({"event": DROPPED, "level": "warning", "time": now, **logs.worker, "lines": number}) + "\n"


def make_output_non_blocking(turns: int | None = None) -> None:
    """Replace standard output and error of this process; at its end what was said last is written, within a bound.

    Nothing happens where somebody has replaced them already.  `turns` is the file of `Turn`, where other processes write there, too.
    """
    turn = None if turns is None else Turn(turns)
    for name in ("stdout", "stderr"):
        before = getattr(sys, name)
        if isinstance(before, NonBlockingOutput) or before is None or before is not getattr(sys, f"__{name}__"):
            continue
        with suppress(OSError, ValueError):
            before.flush()
            output = NonBlockingOutput(before.fileno(), told=told_as_json, turn=turn)
            setattr(sys, name, output)
            atexit.register(output.finish)


def finish_output(seconds: float = LAST_WORDS) -> None:
    """Wait until what was said is written, for so many seconds; for a process that somebody may end by a signal, past `atexit`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, NonBlockingOutput):
            stream.finish(seconds)
