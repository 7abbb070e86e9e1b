"""Service manager: what systemd is told of this process (sd_notify(3)), where it asked to be."""

import os
import socket
from contextlib import suppress

READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


def is_asking() -> bool:
    return "NOTIFY_SOCKET" in os.environ  # noqa: TID251 - the manager's, no setting


def watchdog_seconds() -> float | None:
    """Time within which it must hear that we are alive; None where it does not watch us."""
    watched, pid = (os.environ.get(f"WATCHDOG_{name}", "") for name in ("USEC", "PID"))  # noqa: TID251 - the manager's, no setting
    return int(watched) / 1e6 if watched.isdecimal() and pid in ("", str(os.getpid())) else None


def tell(*said: str) -> None:
    """Tell it; nothing where nobody listens: that is no reason to fail."""
    address = os.environ.get("NOTIFY_SOCKET", "")  # noqa: TID251 - the manager's, no setting
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
        # "@" stands for the NUL of an abstract name.
        manager.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        manager.send("\n".join(said).encode())
