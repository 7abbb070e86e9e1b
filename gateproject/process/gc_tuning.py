"""Garbage collector tuning for large objects that are built while requests are served. Measurements: docs/decisions/libraries.md."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Switch interval for threads that compute; Python's default of 5 ms adds up over the steps of a request.
SWITCH_INTERVAL_SECONDS = 0.0005

# Allocations minus deallocations before a collection of generation 0, and the factors of generations 1 and 2. The defaults (700, 10, 10)
# scan everything several times while 2,000 clients connect. With these, a collection of generation 1 scans 4,000 objects (1.5 ms) instead
# of 20,000.
GC_THRESHOLDS = (1000, 4, 120)


def freeze_startup_heap() -> None:
    """Freeze all objects of the start, so that no collection scans them. A scan would stop every request for 100 ms.

    Objects that are created later (below) must not depend on the collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@contextmanager
def background_build() -> Iterator[None]:
    """Build objects on a separate thread and freeze them, so that the collector never scans them.

    A full collection stops every thread, for half a second with ten thousand routes, and building would trigger one. Frozen objects are
    freed by reference counting only. A configuration must therefore not contain reference cycles, nor be reachable from one that requests
    leave behind.
    """
    turn, was_enabled = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.collect(1)  # otherwise garbage that libraries leave behind would be frozen as well
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        sys.setswitchinterval(turn)
        if was_enabled:
            gc.enable()
