"""Bytes both ways between two connections, read no faster than the other end takes them."""

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

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
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Side(asyncio.Protocol):
    """What comes from one connection; `peer` is where it goes.  `inspect` sees all bytes and gives back those that may pass."""

    __slots__ = ("_holds", "_on_lost", "_stalled", "connection", "inspect", "passed", "peer")

    connection: Connection
    peer: "Side"

    def __init__(self, inspect: Callable[["Side", bytes], bytes], on_lost: Callable[["Side"], None]):
        self.inspect = inspect
        self.passed = 0
        self._on_lost = on_lost
        self._holds = 0
        self._stalled: asyncio.TimerHandle | None = None

    @property
    def is_congested(self) -> bool:
        """Whether this end does not read what it is sent."""
        return self._stalled is not None

    def data_received(self, data: bytes) -> None:
        if data := self.inspect(self, data):
            self.passed += len(data)
            self.peer.connection.write(data)

    def pause_writing(self) -> None:
        self._stalled = asyncio.get_running_loop().call_later(STALL_SECONDS, self.connection.abort)
        self.peer.hold(CONGESTED)

    def resume_writing(self) -> None:
        self.stop_waiting()
        self.peer.release(CONGESTED)

    def connection_lost(self, error: Exception | None) -> None:
        self.stop_waiting()
        self._on_lost(self)

    def stop_waiting(self) -> None:
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


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel find a peer that is gone while nothing is said."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
