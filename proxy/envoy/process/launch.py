"""Launcher of a program that ends with its parent, however that ends: `python launch.py PARENT PROGRAM ARGUMENTS...`.

Run as a script, in a process of its own: what is set here must be set before the program begins, and nothing may be done between
the fork and the exec of a process with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with_parent(parent: int) -> None:
    """Parent-death signal of prctl(2), Linux only; elsewhere a SIGKILL of gate ends the program, too.  Exits where the parent is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("its parent has ended")


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell
