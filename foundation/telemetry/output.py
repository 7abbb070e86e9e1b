"""Non-blocking output: a thread writes to standard output from a bounded buffer, and dropped lines are counted.

A write to a full pipe blocks until the reader continues. On the event loop it would block every request, `/ping` and SIGTERM.
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

MAX_LINES, MAX_BYTES = 10_000, 4 * 1024 * 1024  # in the buffer
# Lines are batched, so that under load one system call writes hundreds.
BATCH_DELAY_SECONDS = 0.005
MAX_BATCH_BYTES = 64 * 1024  # the capacity of a pipe
SHUTDOWN_FLUSH_SECONDS = 2.0  # maximum time to write the buffer when the process ends
DROPPED_MESSAGE = "log lines dropped"


class ProcessLock:
    """Lock between processes that share an output, so that their batches do not interleave.

    `descriptor` is an inherited file; the kernel releases the lock of a process that ends.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._lock = threading.Lock()  # fcntl locks belong to the process, not to a thread

    def __enter__(self) -> None:
        self._lock.acquire()
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        self._lock.release()


class NonBlockingOutput(io.TextIOBase):
    """Text stream to a file descriptor whose `write` never blocks.

    Lines keep their order. When the buffer is full, lines are dropped until half of it is free, and a notice in their place has their
    number.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        drop_notice: Callable[[int], str],
        max_lines: int = MAX_LINES,
        max_bytes: int = MAX_BYTES,
        lock: "ProcessLock | None" = None,
    ):
        """`drop_notice` formats the number of dropped lines; `lock` is shared by all processes that write to the descriptor."""
        self._descriptor = descriptor
        self._process_lock: AbstractContextManager[None] = lock or nullcontext()
        self._drop_notice = drop_notice
        self._max_lines, self._max_bytes = max_lines, max_bytes
        self._waiting: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._is_awake = False
        # Reentrant, as is SimpleQueue, because a finalizer may log while its thread holds the lock.
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
                    self._report_dropped()
                self._put(text)
            else:
                self._dropped += 1
                metrics.log_lines_dropped.inc()
        return len(text)

    def flush(self) -> None:
        """Do nothing, because flushing would block."""

    def drain(self, seconds: float = SHUTDOWN_FLUSH_SECONDS) -> bool:
        """Wait up to `seconds` until the buffer is written; return whether it is."""
        deadline = time.monotonic() + seconds
        while self._is_awake and time.monotonic() < deadline:
            _pause(BATCH_DELAY_SECONDS)  # not a threading.Event, because a finalizer that logs inside `set` would deadlock
        return not self._is_awake

    def _has_room(self, size: int) -> bool:
        # Hysteresis: without it, every second line would be a drop notice.
        part = 2 if self._dropped else 1
        return len(self._waiting) < self._max_lines // part and self._size + size <= self._max_bytes // part

    def _put(self, text: str) -> None:
        self._waiting.append(text)
        self._size += len(text)
        if not self._is_awake:
            self._is_awake = True
            self._wake.put(None)

    def _report_dropped(self) -> None:
        number, self._dropped = self._dropped, 0
        self._put(self._drop_notice(number))

    def _next_batch(self) -> str:
        """Return the next batch; if it is empty, the thread sleeps until the next `write`."""
        with self._lock:
            if not self._waiting and self._dropped:
                self._report_dropped()
            batch: list[str] = []
            size = 0
            while self._waiting and size < MAX_BATCH_BYTES:
                text = self._waiting.popleft()
                batch.append(text)
                size += len(text)
            self._size -= size
            if not batch:
                self._is_awake = False
            return "".join(batch)

    def _run(self) -> None:
        while True:
            self._wake.get()
            _pause(BATCH_DELAY_SECONDS)
            while text := self._next_batch():
                data = text.encode("utf-8", "backslashreplace")
                with self._process_lock:
                    self._write_all(data)

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # another process made the shared terminal non-blocking
                select.select([], [self._descriptor], [])
            except OSError:  # the reader is gone
                metrics.log_lines_dropped.inc(bytes(left).count(b"\n"))
                return


def _pause(seconds: float) -> None:
    """Sleep with `select`, because tools that fake the clock also change `time.sleep`."""
    select.select([], [], [], seconds)


def format_drop_notice(number: int) -> str:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.dumps({"event": DROPPED_MESSAGE, "level": "warning", "time": now, **logs.worker, "lines": number}) + "\n"


def install_non_blocking_output(lock_fd: int | None = None) -> None:
    """Replace standard output and error with non-blocking streams, which are drained at exit.

    Streams that were replaced before are left alone. `lock_fd` is the file of the `ProcessLock` of several processes.
    """
    lock = None if lock_fd is None else ProcessLock(lock_fd)
    for name in ("stdout", "stderr"):
        before = getattr(sys, name)
        if isinstance(before, NonBlockingOutput) or before is None or before is not getattr(sys, f"__{name}__"):
            continue
        with suppress(OSError, ValueError):
            before.flush()
            output = NonBlockingOutput(before.fileno(), drop_notice=format_drop_notice, lock=lock)
            setattr(sys, name, output)
            atexit.register(output.drain)


def drain_output(seconds: float = SHUTDOWN_FLUSH_SECONDS) -> None:
    """Wait up to `seconds` until all output is written, for a process that may end by a signal, without `atexit`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, NonBlockingOutput):
            stream.drain(seconds)
