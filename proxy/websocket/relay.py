"""WebSocket relay after the handshake (RFC 6455): forwards frames in both directions until one end closes.

After the 101 no byte is parsed as HTTP, and payloads are not read.  Frame headers are scanned to enforce limits, and to send gate's
own Close between two frames.
"""

import asyncio

from proxy.forwarding.forward_result import TerminationReason
from proxy.forwarding.tunnel import RATE, Tunnel, TunnelSide
from proxy.websocket.frames import GOING_AWAY, POLICY_VIOLATION, FrameScanner, close_frame

# On average in one direction; gate reads from a faster sender more slowly.
MAX_FRAMES_PER_SECOND = 5000
_FRAMES_COUNTED = 500
# After gate ends a WebSocket: time for both ends to finish their current frame, and for the upstream to disconnect.
CLOSE_HANDSHAKE_SECONDS = 0.8
# After the first Close: time for the other Close and the end of the connection.
CLOSE_SECONDS = 10.0


class Relay(Tunnel):
    """Relay of frames between two sides, each with a scanner."""

    client: "_FramesSide"
    upstream: "_FramesSide"

    def __init__(self, *, allows_rsv: bool):
        super().__init__(
            _FramesSide(self, is_masked=True, allows_rsv=allows_rsv), _FramesSide(self, is_masked=False, allows_rsv=allows_rsv)
        )
        self._close_received = False
        self._is_closing = False

    def revoke(self) -> None:
        self.close(POLICY_VIOLATION, "access has ended", TerminationReason.ACCESS_ENDED)

    def on_timeout(self) -> None:
        self.close(GOING_AWAY, "connection lifetime exceeded", TerminationReason.TIMEOUT)

    def close(self, code: int, reason: str, termination: TerminationReason) -> None:
        """Send a Close in both directions, each after the current frame, and wait for the responses."""
        if self._is_closing:
            return
        self._is_closing = True
        self.termination = termination
        self._restart(CLOSE_HANDSHAKE_SECONDS, self._abort)
        for side in (self.client, self.upstream):
            side.send_close(close_frame(code, reason, is_masked=side is self.client))
        self.close_finished_sides()

    def close_finished_sides(self) -> None:
        """Close each side that has sent a Close and to which a complete Close was forwarded; finish once both sides are closed."""
        for side in (self.client, self.upstream):
            if side.sent_close and side.peer.output_done:
                side.connection.close()
                side.is_closed = True
        if self.client.is_closed and self.upstream.is_closed:
            self._finish()

    def on_close_frame(self) -> None:
        if not self._close_received:
            self._close_received = True
            self._restart(CLOSE_SECONDS, self._abort)

    def on_connection_lost(self, side: "_FramesSide") -> None:
        if self._is_closing:
            self.close_finished_sides()
            return
        if self.closed.done():
            return
        if not self._close_received:
            self.termination = TerminationReason.CLIENT_DISCONNECTED if side is self.client else TerminationReason.UPSTREAM_RESET
        side.peer.connection.close()
        if side is self.client and self.upstream.is_congested:
            # Let the upstream receive the buffered bytes before the timeout.
            self._is_closing = side.output_done = True
            self._restart(CLOSE_SECONDS, self._abort)
        else:
            self._finish()

    def _abort(self) -> None:
        for side in (self.client, self.upstream):
            if not side.is_closed and (side.is_congested or not side.peer.output_done):
                side.connection.abort()
        self._finish()


class _FramesSide(TunnelSide):
    """Side of the relay.  `output_done`: no more of its bytes may pass.  `is_closed`: no more bytes are expected from it."""

    __slots__ = ("_close_frame", "_counted_from", "_loop", "_relay", "_scanner", "_timer", "is_closed", "output_done")

    peer: "_FramesSide"

    def __init__(self, relay: Relay, *, is_masked: bool, allows_rsv: bool):
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._relay = relay
        self._scanner = FrameScanner(is_masked=is_masked, allows_rsv=allows_rsv)
        self._counted_from = self._loop.time()
        self._close_frame: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.output_done = False
        self.is_closed = False

    @property
    def sent_close(self) -> bool:
        return self._scanner.close_seen

    def data_received(self, data: bytes) -> None:
        # Runs for every read of every WebSocket, so it avoids calls.
        scanner = self._scanner
        if self._close_frame is not None:
            self._finish_frame(data)
            return
        if passed := scanner.feed(data):
            self.bytes_read += len(passed)
            self.peer.connection.write(passed)
        if scanner.close_seen:
            self.output_done = scanner.is_at_frame_boundary
            self._relay.on_close_frame()
        if scanner.error is not None:
            self._relay.close(scanner.error.code, scanner.error.reason, TerminationReason.PROTOCOL_ERROR)
        elif scanner.frames >= _FRAMES_COUNTED:
            self._limit_rate()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.is_closed = True
        self._relay.on_connection_lost(self)

    def on_shutdown(self) -> None:
        """Close because the listener shuts down."""
        self._relay.close(GOING_AWAY, "the server is going away", TerminationReason.SHUTDOWN)

    def send_close(self, close: bytes) -> None:
        self._close_frame = b"" if self._scanner.close_seen else close
        self._finish_frame(b"")

    def stop(self) -> None:
        super().stop()
        if self._timer is not None:
            self._timer.cancel()

    def _finish_frame(self, data: bytes) -> None:
        """After `send_close`, forward only the rest of the current frame.  Scan later frames for the other end's Close."""
        if self.output_done:
            self._scanner.feed(data)
        else:
            passed = self._scanner.drain_frame(data)
            self.bytes_read += len(passed)
            self.output_done = self._scanner.is_at_frame_boundary or len(passed) < len(data)
            self.peer.connection.write(passed + (self._close_frame or b"") if self.output_done else passed)
        self._relay.close_finished_sides()

    def _limit_rate(self) -> None:
        now = self._loop.time()
        wait = self._scanner.frames / MAX_FRAMES_PER_SECOND - (now - self._counted_from)
        self._scanner.frames, self._counted_from = 0, now
        if wait > 0:
            self._counted_from += wait
            self.pause(RATE)
            if self._timer is not None:  # because TLS may deliver more data after reading has stopped
                self._timer.cancel()
            self._timer = self._loop.call_later(wait, self.resume, RATE)
