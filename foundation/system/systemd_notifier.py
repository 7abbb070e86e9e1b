"""Notifications to systemd (sd_notify(3)), if it started this process with NOTIFY_SOCKET."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf

NOTIFY_INTERVAL = 2.0  # seconds; the maximum age of the status line in `systemctl status`


class SystemdNotifier:
    """Sender of notifications; each includes the one-line `status`."""

    def __init__(self, status: Callable[[], str]):
        self._status = status
        self._is_up = False

    @property
    def is_enabled(self) -> bool:
        return "NOTIFY_SOCKET" in os.environ  # noqa: TID251 - set by systemd, not a setting of gate

    def notify_ready(self) -> None:
        self._is_up = True
        self._notify("READY=1")

    def notify_reloading(self) -> None:
        """Announce the start of a reload, with CLOCK_MONOTONIC in microseconds; `notify_reloaded` announces its end.

        READY also ends the start-up, so neither is sent before the ports are open or after they close.
        """
        if self._is_up:
            self._notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def notify_reloaded(self) -> None:
        if self._is_up:
            self._notify("READY=1")

    def notify_stopping(self) -> None:
        self._is_up = False
        self._notify("STOPPING=1")

    async def send_watchdog_pings(self) -> None:
        """Send watchdog pings from the event loop, so that systemd restarts the process if the loop hangs."""
        pause = min((watchdog_seconds() or inf) / 3, NOTIFY_INTERVAL)
        while True:
            self._notify("WATCHDOG=1")
            await asyncio.sleep(pause)

    def _notify(self, *assignments: str) -> None:
        """Send a notification; errors are ignored, because gate works without systemd."""
        address = os.environ.get("NOTIFY_SOCKET", "")  # noqa: TID251 - set by systemd, not a setting of gate
        if not address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
            # "@" represents the NUL of an abstract socket name.
            manager.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            manager.send("\n".join((*assignments, f"STATUS={self._status()}")).encode())


def watchdog_seconds() -> float | None:
    """Return the watchdog timeout if systemd watches this process or its parent, else None."""
    watched, pid = (os.environ.get(f"WATCHDOG_{name}", "") for name in ("USEC", "PID"))  # noqa: TID251 - set by systemd, not a setting of gate
    return int(watched) / 1e6 if watched.isdecimal() and pid in ("", str(os.getpid()), str(os.getppid())) else None
