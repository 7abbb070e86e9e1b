"""Bytes both ways between two connections, read no faster than the other end takes them."""

import asyncio
import socket
from typing import Any, Protocol

# An end that takes nothing for so long is gone, whatever its kernel says.
STALL_SECONDS = 300.0
# A peer that vanished without a word is found after about two minutes.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))

CONGESTED, RATE = 1, 2


class Connection(Protocol):
    """What is used of asyncio's transports; the listener's connections have it too."""

    def write(self, data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None:
        """After everything that was written."""

    def abort(self) -> None: ...
    def get_extra_info(self, name: str) -> Any: ...


class Side(asyncio.Protocol):
    """What comes from one connection; `peer` is where it goes.  An asyncio protocol that is also told when the listener stops."""

    __slots__ = ("_holds", "_stalled", "connection", "passed", "peer")

    connection: Connection
    peer: "Side"

    def __init__(self) -> None:
        self.passed = 0
        self._holds = 0
        self._stalled: asyncio.TimerHandle | None = None

    @property
    def is_congested(self) -> bool:
        """Whether this end does not read what it is sent."""
        return self._stalled is not None

    def pause_writing(self) -> None:
        self._stalled = asyncio.get_running_loop().call_later(STALL_SECONDS, self.connection.abort)
        self.peer.hold(CONGESTED)

    def resume_writing(self) -> None:
        self._take_heart()
        self.peer.release(CONGESTED)

    def connection_lost(self, error: Exception | None) -> None:
        self._take_heart()

    def stop(self) -> None:
        self._take_heart()
        self.connection.close()

    def _take_heart(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def hold(self, reason: int) -> None:
        """Stop reading, until every reason for it is released."""
        self._holds |= reason
        self.connection.pause_reading()

    def release(self, reason: int) -> None:
        self._holds &= ~reason
        if not self._holds:
            self.connection.resume_reading()


def pair(first: Side, second: Side) -> None:
    first.peer, second.peer = second, first


def keep_alive(connection: Connection) -> None:
    """Let the kernel find a peer that is gone while nothing is said."""
    sock = connection.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
