"""Service manager: what systemd is told of this process (sd_notify(3)), where it asked to be."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf

NOTIFY_INTERVAL = 2.0  # seconds between two words: as old may be what `systemctl status` shows


class SystemdNotifier:
    """Manager of this process, to which each word comes with what `status` says in one line."""

    def __init__(self, status: Callable[[], str]):
        self._status = status
        self._is_up = False

    @property
    def is_enabled(self) -> bool:
        return "NOTIFY_SOCKET" in os.environ  # noqa: TID251 - the manager's, no setting

    def ready(self) -> None:
        self._is_up = True
        self._notify("READY=1")

    def reloading(self) -> None:
        """What `reloaded` is the end of; the time is that of CLOCK_MONOTONIC, in microseconds.

        READY also ends a start: a reload says neither before the ports are open nor when they close.
        """
        if self._is_up:
            self._notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def reloaded(self) -> None:
        if self._is_up:
            self._notify("READY=1")

    def stopping(self) -> None:
        self._is_up = False
        self._notify("STOPPING=1")

    async def send_watchdog_pings(self) -> None:
        """Beat from the event loop for as long as it runs: where that stands still, nobody is served."""
        pause = min((watchdog_seconds() or inf) / 3, NOTIFY_INTERVAL)
        while True:
            self._notify("WATCHDOG=1")
            await asyncio.sleep(pause)

    def _notify(self, *said: str) -> None:
        """Tell it; nothing where nobody listens: that is no reason to fail."""
        address = os.environ.get("NOTIFY_SOCKET", "")  # noqa: TID251 - the manager's, no setting
        if not address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
            # "@" stands for the NUL of an abstract name.
            manager.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            manager.send("\n".join((*said, f"STATUS={self._status()}")).encode())


def watchdog_seconds() -> float | None:
    """Time within which it must hear of us, or of the one who forked us; None where it watches neither."""
    watched, pid = (os.environ.get(f"WATCHDOG_{name}", "") for name in ("USEC", "PID"))  # noqa: TID251 - the manager's, no setting
    return int(watched) / 1e6 if watched.isdecimal() and pid in ("", str(os.getpid()), str(os.getppid())) else None
