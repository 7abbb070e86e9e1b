"""File descriptor limit: raises it to the hard limit, and reports exhaustion. Measurements: docs/decisions/libraries.md."""

import fcntl
import os
import resource
import time
from contextlib import suppress

import structlog

from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

MAX_PREALLOCATED = 65_536  # half a megabyte of kernel memory


# A quarter of the table is reserved: clients also need upstream connections, and gate reads and writes files.
RESERVED_SHARE = 4
LOG_INTERVAL = 10.0  # seconds, so that an attack does not fill the log
CLIENTS, UPSTREAMS = "clients", "upstreams"
_logged_at: dict[str, float] = {}


def is_exhausted(descriptor: int) -> bool:
    """Return whether new clients must wait.

    `descriptor` is any open one. Its duplicate gets the lowest free number, so all lower numbers are in use.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        lowest = os.dup(descriptor)
    except OSError:
        return True
    os.close(lowest)
    return limit != resource.RLIM_INFINITY and lowest >= limit - limit // RESERVED_SHARE


def report_exhaustion(affected: str) -> None:
    """Count an exhaustion and log it at most every `LOG_INTERVAL` seconds; `affected` is CLIENTS or UPSTREAMS."""
    metrics.fd_exhausted.labels(affected).inc()
    now = time.monotonic()
    if now - _logged_at.get(affected, -LOG_INTERVAL) >= LOG_INTERVAL:
        _logged_at[affected] = now
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        log.error("out of file descriptors", limit=limit, affected=affected)


def raise_limit() -> None:
    """Raise the soft limit to the hard one, and preallocate the kernel's table.

    Each request and each websocket uses two descriptors, and the default soft limit is 1,024. The kernel doubles the table as it grows.
    Each time, a process with threads stalls for 10 to 20 ms (an RCU grace period), so the table is grown once, before requests arrive.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    highest = (MAX_PREALLOCATED if hard == resource.RLIM_INFINITY else min(hard, MAX_PREALLOCATED)) - 1
    low = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # fails if this number and all higher ones are in use: then the table is large enough
            os.close(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, highest))
    finally:
        os.close(low)
