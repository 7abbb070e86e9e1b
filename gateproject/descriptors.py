"""How many connections may there be, and does a new one cost the same, however many there are?"""

import fcntl
import os
import resource
from contextlib import suppress

MOST_PREPARED = 65_536  # half a megabyte of the kernel's


def make_room() -> None:
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
