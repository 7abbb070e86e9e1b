"""File descriptor limit, raised as far as may be, and the log line for a lack of descriptors.  Measured in docs/decisions/libraries.md."""

import fcntl
import os
import resource
import time
from contextlib import suppress

import structlog

from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

MAX_PREALLOCATED = 65_536  # half a megabyte of the kernel's


# The share of the table that no new client may take: each may need an upstream, and files are read and written all the time.
RESERVED_SHARE = 4
LOG_INTERVAL = 10.0  # seconds: an attack must not fill the log
CLIENTS, UPSTREAMS = "clients", "upstreams"
_logged_at: dict[str, float] = {}


def is_exhausted(descriptor: int) -> bool:
    """Whether no new client may come in.  `descriptor` is any open one: its copy gets the lowest number that is free, so all below are
    taken.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowest = os.dup(descriptor)
    except OSError:
        return True
    os.close(lowest)
    return limit != resource.RLIM_INFINITY and lowest >= limit - limit // RESERVED_SHARE


def report_exhaustion(whom: str) -> None:
    """Report a shortage: in the metric each time, in the log now and then; `whom` is CLIENTS or UPSTREAMS."""
    metrics.fd_exhausted.labels(whom).inc()
    now = time.monotonic()
    if now - _logged_at.get(whom, -LOG_INTERVAL) >= LOG_INTERVAL:
        _logged_at[whom] = now
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
    highest = (MAX_PREALLOCATED if hard == resource.RLIM_INFINITY else min(hard, MAX_PREALLOCATED)) - 1
    low = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # that number and all above it are taken: then the table is as large
            os.close(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, highest))
    finally:
        os.close(low)
