"""Garbage collector tuning: something large is made, and kept, while others are being served.  Measured in docs/decisions/libraries.md."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# How long the event loop waits for its turn while another thread computes; Python's own 5 ms add up over the steps of a request.
TURN_SECONDS = 0.0005

# Container objects made but not gone, before a collection; collections of the young before one of the middle; of the middle before all.
# Python's own (700, 10, 10) look through everything several times while two thousand clients come, and of those who stay, a collection
# of the middle looks at 4,000 objects (1.5 ms), not at 20,000.
COLLECT_AFTER = (1000, 4, 120)


def settle() -> None:
    """Freeze what the start has made: no collection looks at it again.  Each would stop every request for a tenth of a second.

    As for what is made later (below), none of it may need the collector to go.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


@contextmanager
def made_beside_requests() -> Iterator[None]:
    """On a thread of its own.  What was made stays, so the garbage collector never looks at it again.

    A full collection stops every thread, with ten thousand routes for half a second; and what is made here would bring one about.
    What is frozen must go without the collector when its time has come: no world may refer to itself in a circle, and nothing that
    requests leave behind in one may lead to a world.
    """
    turn, was_enabled = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(TURN_SECONDS)
    gc.collect(1)  # what libraries leave behind of requests would be frozen, too
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        sys.setswitchinterval(turn)
        if was_enabled:
            gc.enable()
