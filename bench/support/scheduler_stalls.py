"""Detection of scheduler stalls of the machine.

The host of a virtual machine may suspend its cores for tens of milliseconds. On each core, a process with real-time priority (SCHED_FIFO)
wakes every few milliseconds. A late wake-up means that the core was not available to any process. Samples of that time are not
meaningful.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

EVERY = 0.005  # seconds
LATE = 0.003  # seconds of delay


@dataclass
class StallMonitor:
    """Monitored stalls. `periods`, complete at the end: (start, end) of time.monotonic. `known` is False if monitoring is not permitted."""

    known: bool = True
    periods: list[tuple[float, float]] = field(default_factory=list)

    def met(self, begin: float, end: float) -> bool:
        """Return whether the period overlaps a stall, or follows one so closely that delayed work was still queued."""
        return any(since < end and begin < until + (until - since) for since, until in self.periods)


@contextmanager
def watched() -> Iterator[StallMonitor]:
    stalls = StallMonitor()
    watchers = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.support.scheduler_stalls", str(core)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for core in range(os.cpu_count() or 1)
    ]
    try:
        stalls.known = all(watcher.stdout is not None and watcher.stdout.readline() == "watching\n" for watcher in watchers)
        yield stalls
    finally:
        for watcher in watchers:
            watcher.terminate()
            output, _ = watcher.communicate()
            stalls.periods += [(float(since), float(until)) for since, _, until in (line.partition(" ") for line in output.splitlines())]


def watch(core: int) -> None:
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
    print("watching", flush=True)
    before = time.monotonic()
    while True:
        time.sleep(EVERY)
        now = time.monotonic()
        if now - before > EVERY + LATE:
            print(before, now, flush=True)
        before = now


if __name__ == "__main__":
    watch(int(sys.argv[1]))
