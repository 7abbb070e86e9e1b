"""File descriptor limit, raised as far as may be, and the log line for a lack of descriptors.  Measured in docs/decisions/libraries.md."""

import fcntl
import os
import resource
import time
from contextlib import suppress

import structlog

from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

MOST_PREPARED = 65_536  # half a megabyte of the kernel's


# The share of the table that no new client may take: each may need an upstream, and files are read and written all the time.
SHARE_KEPT = 4
SAID_EVERY = 10.0  # seconds: an attack must not fill the log
CLIENTS, UPSTREAMS = "clients", "upstreams"
_said: dict[str, float] = {}


def is_short(descriptor: int) -> bool:
    """Whether no new client may come in.  `descriptor` is any open one: its copy gets the lowest number that is free, so all below are
    taken.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowest = os.dup(descriptor)
    except OSError:
        return True
    os.close(lowest)
    return limit != resource.RLIM_INFINITY and lowest >= limit - limit // SHARE_KEPT


def report_shortage(whom: str) -> None:
    """Report a shortage: in the metric each time, in the log now and then; `whom` is CLIENTS or UPSTREAMS."""
    metrics.descriptors_short.labels(whom).inc()
    now = time.monotonic()
    if now - _said.get(whom, -SAID_EVERY) >= SAID_EVERY:
        _said[whom] = now
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        log.error("out of file descriptors", limit=limit, **{"for": whom})


def raise_limit() -> None:
    """Each request and each websocket takes two descriptors, and the usual soft limit is 1,024: the hard one counts.

    The kernel's table of them grows by doubling, and a process of several threads stands still meanwhile, for 10 to 20 ms each time
    (it waits until nobody on any core can still be reading the old one).  So it grows here, once, before anybody waits.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    highest = (MOST_PREPARED if hard == resource.RLIM_INFINITY else min(hard, MOST_PREPARED)) - 1
    low = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # that number and all above it are taken: then the table is as large
            os.close(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, highest))
    finally:
        os.close(low)
