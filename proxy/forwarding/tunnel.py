"""Tunnel: relays bytes between two connections in both directions, with back-pressure, until one of them closes."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from foundation.web.asgi_types import Header
from proxy.forwarding.forward_result import ForwardResult, StreamHandle, TerminationReason
from proxy.forwarding.idle_timer import IdleTimer
from proxy.tcp_keepalive import enable_tcp_keepalive

STALL_TIMEOUT = 300.0  # seconds; a side that reads nothing for this long is aborted
CLOSE_TIMEOUT = 10.0  # seconds for an upstream to read the remaining bytes after its tunnel has closed
DRAIN_TIMEOUT = 5.0  # seconds that TCP tunnels may continue during a shutdown

CONGESTED, RATE, CONNECTING = 1, 2, 4


class TunnelConnection(Protocol):
    """Subset of asyncio's transport interface that tunnels use; the listener's connections implement it too."""

    def write(self, data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def write_eof(self) -> None:
        """Half-close after all written bytes are sent; reading continues."""

    def close(self) -> None:
        """Close after all written bytes are sent."""

    def abort(self) -> None: ...
    def get_extra_info(self, name: str) -> Any: ...


class TunnelSide(asyncio.Protocol):
    """One side of a tunnel: an asyncio protocol that forwards what `connection` receives to `peer`."""

    __slots__ = ("_pause_reasons", "_stall_timer", "bytes_read", "connection", "has_sent_eof", "peer")

    connection: TunnelConnection
    peer: "TunnelSide"

    def __init__(self) -> None:
        self.bytes_read = 0
        self.has_sent_eof = False  # it sends no more, but may still receive
        self._pause_reasons = 0
        self._stall_timer: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        return hasattr(self, "connection")

    @property
    def is_congested(self) -> bool:
        """Return whether this side is not reading the bytes sent to it."""
        return self._stall_timer is not None

    def pause_writing(self) -> None:
        self._stall_timer = asyncio.get_running_loop().call_later(STALL_TIMEOUT, self.connection.abort)
        self.peer.pause(CONGESTED)

    def resume_writing(self) -> None:
        self._cancel_stall_timer()
        self.peer.resume(CONGESTED)

    def connection_lost(self, error: Exception | None) -> None:
        self._cancel_stall_timer()

    def stop(self) -> None:
        self._cancel_stall_timer()
        self.connection.close()

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def pause(self, reason: int) -> None:
        """Pause reading until `resume` has been called for every reason."""
        self._pause_reasons |= reason
        self.connection.pause_reading()

    def resume(self, reason: int) -> None:
        self._pause_reasons &= ~reason
        if not self._pause_reasons:
            self.connection.resume_reading()


class ConnectionTakeover(Protocol):
    """Takeover of the client's connection: the listener's ASGI extension `gate.tunnel`.

    It responds with 101, or with 200 to CONNECT, and the given headers. It connects `protocol` to the connection, and returns the
    connection and the bytes that the client has already sent.
    """

    def __call__(
        self, headers: Iterable[Header], protocol: TunnelSide, upgrade: bytes = b"websocket"
    ) -> tuple[TunnelConnection, bytes]: ...


class Tunnel:
    """Tunnel between two sides. The first cause of its end sets `termination` and completes `closed`."""

    client: TunnelSide
    upstream: TunnelSide

    def __init__(self, client: TunnelSide, upstream: TunnelSide) -> None:
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.termination = TerminationReason.COMPLETE
        self.client, self.upstream = client, upstream
        client.peer, upstream.peer = upstream, client
        self._timer: asyncio.TimerHandle | None = None

    def revoke(self) -> None:
        """Close because access has been revoked."""
        raise NotImplementedError

    def on_timeout(self) -> None:
        raise NotImplementedError

    def start(self, from_client: bytes, from_upstream: bytes, timeout: float | None) -> None:
        for connection in (self.client.connection, self.upstream.connection):
            enable_tcp_keepalive(connection.get_extra_info("socket"))
        if timeout is not None:
            self._restart(timeout, self.on_timeout)
        for side, data in ((self.client, from_client), (self.upstream, from_upstream)):
            if data:
                side.data_received(data)

    def stop(self) -> None:
        """Close both connections, whatever their state."""
        if self._timer is not None:
            self._timer.cancel()
        self.client.stop()
        self.upstream.stop()
        # An upstream that reads nothing would keep its closed connection open; the listener has its own deadlines for clients.
        self._loop.call_later(CLOSE_TIMEOUT, self.upstream.connection.abort)

    def _finish(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def _restart(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, callback)


class ByteTunnel(Tunnel):
    """Tunnel of opaque bytes.

    With `half_closes`, one direction may close before the other, as in TCP; the client's only with `client_half_closes`. `idle_timeout`
    is in seconds, None for unlimited.
    """

    def __init__(self, *, half_closes: bool = False, client_half_closes: bool = True, idle_timeout: float | None = None) -> None:
        super().__init__(
            _BytesSide(self, allow_half_close=half_closes and client_half_closes), _BytesSide(self, allow_half_close=half_closes)
        )
        self.half_closes = half_closes
        self.is_started = False
        self.idle_timer = IdleTimer(idle_timeout, self._is_blocked, partial(self.abort, TerminationReason.IDLE_TIMEOUT))

    def revoke(self) -> None:
        self.abort(TerminationReason.ACCESS_ENDED)

    def on_timeout(self) -> None:
        self.abort(TerminationReason.TIMEOUT)

    def start(self, from_client: bytes, from_upstream: bytes, timeout: float | None) -> None:
        self.is_started = True
        super().start(from_client, from_upstream, timeout)
        self.upstream.resume(CONNECTING)
        self.idle_timer.start()

    def stop(self) -> None:
        self.idle_timer.stop()
        super().stop()

    def _is_blocked(self) -> bool:
        """Return whether back-pressure keeps a side from sending. STALL_TIMEOUT limits that instead of the idle timeout."""
        return self.client.is_congested or self.upstream.is_congested

    def drain(self) -> None:
        if self.half_closes:
            self._restart(DRAIN_TIMEOUT, lambda: self.abort(TerminationReason.SHUTDOWN))
        else:
            self.abort(TerminationReason.SHUTDOWN)

    def abort(self, reason: TerminationReason) -> None:
        """Abort both connections immediately; no further bytes are relayed."""
        self._end(reason)
        for side in (self.client, self.upstream):
            side.connection.abort()

    def on_connection_lost(self, side: TunnelSide, error: Exception | None) -> None:
        """Close the other side after it has received the remaining bytes; after a reset of a TCP tunnel, abort it too."""
        self._end(
            TerminationReason.CLIENT_DISCONNECTED
            if side is self.client
            else TerminationReason.UPSTREAM_RESET
            if error
            else TerminationReason.COMPLETE
        )
        if error is not None and self.half_closes:
            side.peer.connection.abort()
        else:
            side.peer.connection.close()

    def on_half_close(self) -> None:
        if self.client.has_sent_eof and self.upstream.has_sent_eof:
            self._end(TerminationReason.COMPLETE)

    def _end(self, reason: TerminationReason) -> None:
        if not self.closed.done():
            self.termination = reason
            self._finish()


class _BytesSide(TunnelSide):
    __slots__ = ("_allow_half_close", "_tunnel")

    def __init__(self, tunnel: ByteTunnel, *, allow_half_close: bool):
        super().__init__()
        self._tunnel = tunnel
        self._allow_half_close = allow_half_close

    def connection_made(self, transport: Any) -> None:
        """Store a dialed connection, and do not read from it before the tunnel starts."""
        self.connection = transport
        self.pause(CONNECTING)

    def data_received(self, data: bytes) -> None:
        if not self._tunnel.closed.done():
            self.bytes_read += len(data)
            self._tunnel.idle_timer.touch()
            self.peer.connection.write(data)

    def eof_received(self) -> bool:
        """Handle the end of this side's data. Return whether the connection stays open for sending."""
        if not self._allow_half_close or self._tunnel.closed.done():
            return False
        self.has_sent_eof = True
        if not self.peer.is_congested:
            self.peer.connection.write_eof()
        self._tunnel.on_half_close()
        return not self._tunnel.closed.done()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.peer.has_sent_eof and not self._tunnel.closed.done():
            self.connection.write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._tunnel.is_started:
            self._tunnel.on_connection_lost(self, error)

    def on_shutdown(self) -> None:
        """Handle the shutdown of the listener."""
        self._tunnel.drain()


async def run_tunnel(
    tunnel: Tunnel, client_prefix: bytes, upstream_prefix: bytes, timeout: float | None, handle: StreamHandle, result: ForwardResult
) -> None:
    """Run a tunnel until it is closed or the handle revokes it, and record its outcome in `result`.

    `client_prefix` and `upstream_prefix` are bytes that were received before the tunnel started. `timeout` is in seconds from now, None
    for none.
    """
    handle.revoke = tunnel.revoke
    try:
        tunnel.start(client_prefix, upstream_prefix, timeout)
        await tunnel.closed
    finally:
        tunnel.stop()
        result.termination = tunnel.termination
        result.downstream_bytes_sent, result.downstream_bytes_received = tunnel.upstream.bytes_read, tunnel.client.bytes_read
