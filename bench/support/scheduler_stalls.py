"""When did the machine itself stand still?

A virtual machine gets its cores from a host that has others to serve, and is held up for tens of milliseconds without a word.  On each
core a process that nothing here can hold up (SCHED_FIFO) asks to be woken every few milliseconds: where it is woken late, the core was
not there for anybody.  What was measured then says nothing about the program.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

EVERY = 0.005  # seconds
LATE = 0.003  # seconds more


@dataclass
class Stalls:
    """`periods`, once the watch has ended: (from, until) of time.monotonic.  `known` is False where this machine lets nobody watch."""

    known: bool = True
    periods: list[tuple[float, float]] = field(default_factory=list)

    def met(self, begin: float, end: float) -> bool:
        """Did the machine stand still between the two, or just before, so that the work of that time was still waiting?"""
        return any(since < end and begin < until + (until - since) for since, until in self.periods)


@contextmanager
def watched() -> Iterator[Stalls]:
    stalls = Stalls()
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
            said, _ = watcher.communicate()
            stalls.periods += [(float(since), float(until)) for since, _, until in (line.partition(" ") for line in said.splitlines())]


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
