"""Websocket relay after both ends have agreed (RFC 6455): frames both ways until somebody ends it.

After the 101 no byte is read as HTTP any more, and no payload is read at all: only frames' headers are, so that they stay within
bounds and a Close of ours can be put between two of them.
"""

import asyncio

from proxy.forwarding.http_forwarding import TerminationReason
from proxy.forwarding.tunnel import RATE, Tunnel, TunnelSide
from proxy.websocket.frames import GOING_AWAY, POLICY_VIOLATION, FrameScanner, close_frame

# Frames of one direction, on average; a faster sender is read more slowly.
MAX_FRAMES_PER_SECOND = 5000
_FRAMES_COUNTED = 500
# Both ends have this long to finish the frame they are in, and the upstream to hang up, once we end a websocket.
CLOSE_HANDSHAKE_SECONDS = 0.8
# One Close has passed: the other one, and the end of the connection, follow within these.
CLOSE_SECONDS = 10.0


class Relay(Tunnel):
    """Relay of frames: two sides with a walker each."""

    client: "_FramesSide"
    upstream: "_FramesSide"

    def __init__(self, *, allows_rsv: bool):
        super().__init__(
            _FramesSide(self, is_masked=True, allows_rsv=allows_rsv), _FramesSide(self, is_masked=False, allows_rsv=allows_rsv)
        )
        self._close_seen = False
        self._closing = False

    def revoke(self) -> None:
        self.close(POLICY_VIOLATION, "access has ended", TerminationReason.ACCESS_ENDED)

    def on_timeout(self) -> None:
        self.close(GOING_AWAY, "connection lifetime exceeded", TerminationReason.TIMEOUT)

    def close(self, code: int, reason: str, termination: TerminationReason) -> None:
        """End: put a Close into both directions, each at the end of the frame that is passing, and wait a while for the answers."""
        if self._closing:
            return
        self._closing = True
        self.termination = termination
        self._restart(CLOSE_HANDSHAKE_SECONDS, self._abort)
        for side in (self.client, self.upstream):
            side.send_close(close_frame(code, reason, is_masked=side is self.client))
        self.close_finished_sides()

    def close_finished_sides(self) -> None:
        """Hang up on those that were told and have answered, or are gone."""
        for side in (self.client, self.upstream):
            if side.close_received and side.peer.forwarding_done:
                side.connection.close()
                side.is_closed = True
        if self.client.is_closed and self.upstream.is_closed:
            self._finish()

    def on_close_frame(self) -> None:
        if not self._close_seen:
            self._close_seen = True
            self._restart(CLOSE_SECONDS, self._abort)

    def on_connection_lost(self, side: "_FramesSide") -> None:
        if self._closing:
            self.close_finished_sides()
            return
        if self.closed.done():
            return
        if not self._close_seen:
            self.termination = TerminationReason.CLIENT_DISCONNECTED if side is self.client else TerminationReason.UPSTREAM_RESET
        side.peer.connection.close()
        if side is self.client and self.upstream.is_congested:
            # It gets what was sent to it, if it takes it in time.
            self._closing = side.forwarding_done = True
            self._restart(CLOSE_SECONDS, self._abort)
        else:
            self._finish()

    def _abort(self) -> None:
        for side in (self.client, self.upstream):
            if not side.is_closed and (side.is_congested or not side.peer.forwarding_done):
                side.connection.abort()
        self._finish()


class _FramesSide(TunnelSide):
    """Side whose bytes are frames.  `is_done`: nothing more of it may pass; `is_over`: nothing more is expected of it."""

    __slots__ = ("_close_frame", "_counted_from", "_loop", "_relay", "_scanner", "_timer", "forwarding_done", "is_closed")

    peer: "_FramesSide"

    def __init__(self, relay: Relay, *, is_masked: bool, allows_rsv: bool):
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._relay = relay
        self._scanner = FrameScanner(is_masked=is_masked, allows_rsv=allows_rsv)
        self._counted_from = self._loop.time()
        self._close_frame: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.forwarding_done = False
        self.is_closed = False

    @property
    def close_received(self) -> bool:
        return self._scanner.close_seen

    def data_received(self, data: bytes) -> None:
        # For every read of every websocket: no call that is not needed.
        scanner = self._scanner
        if self._close_frame is not None:
            self._finish_frame(data)
            return
        if passed := scanner.feed(data):
            self.bytes_read += len(passed)
            self.peer.connection.write(passed)
        if scanner.close_seen:
            self.forwarding_done = scanner.is_at_frame_boundary
            self._relay.on_close_frame()
        if scanner.error is not None:
            self._relay.close(scanner.error.code, scanner.error.reason, TerminationReason.PROTOCOL_ERROR)
        elif scanner.frames >= _FRAMES_COUNTED:
            self._limit_rate()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.is_closed = True
        self._relay.on_connection_lost(self)

    def stopped(self) -> None:
        """Shutdown of the listener."""
        self._relay.close(GOING_AWAY, "the server is going away", TerminationReason.SHUTDOWN)

    def send_close(self, close: bytes) -> None:
        self._close_frame = b"" if self._scanner.close_seen else close
        self._finish_frame(b"")

    def stop(self) -> None:
        super().stop()
        if self._timer is not None:
            self._timer.cancel()

    def _finish_frame(self, data: bytes) -> None:
        """After `say_goodbye`: only the rest of the current frame passes; what follows is walked, to notice the answer."""
        if self.forwarding_done:
            self._scanner.feed(data)
        else:
            passed = self._scanner.drain_frame(data)
            self.bytes_read += len(passed)
            self.forwarding_done = self._scanner.is_at_frame_boundary or len(passed) < len(data)
            self.peer.connection.write(passed + (self._close_frame or b"") if self.forwarding_done else passed)
        self._relay.close_finished_sides()

    def _limit_rate(self) -> None:
        now = self._loop.time()
        wait = self._scanner.frames / MAX_FRAMES_PER_SECOND - (now - self._counted_from)
        self._scanner.frames, self._counted_from = 0, now
        if wait > 0:
            self._counted_from += wait
            self.pause(RATE)
            if self._timer is not None:  # with TLS more comes after reading has stopped
                self._timer.cancel()
            self._timer = self._loop.call_later(wait, self.resume, RATE)
