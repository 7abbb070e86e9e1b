"""Websocket relay after both ends have agreed (RFC 6455): frames both ways until somebody ends it.

After the 101 no byte is read as HTTP any more, and no payload is read at all: only frames' headers are, so that they stay within
bounds and a Close of ours can be put between two of them.
"""

import asyncio

from proxy.forwarding.http_forwarding import Ending
from proxy.forwarding.tunnel import RATE, Tunnel, TunnelSide
from proxy.websocket.frames import GOING_AWAY, POLICY, FrameWalker, close_frame

# Frames of one direction, on average; a faster sender is read more slowly.
FRAMES_PER_SECOND = 5000
_FRAMES_COUNTED = 500
# Both ends have this long to finish the frame they are in, and the upstream to hang up, once we end a websocket.
GOODBYE_SECONDS = 0.8
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
        self._has_closed = False
        self._is_told = False

    def revoke(self) -> None:
        self.end(POLICY, "access has ended", Ending.REVOKED)

    def time_is_up(self) -> None:
        self.end(GOING_AWAY, "connection lifetime exceeded", Ending.TIMED_OUT)

    def end(self, code: int, reason: str, ending: Ending) -> None:
        """End: put a Close into both directions, each at the end of the frame that is passing, and wait a while for the answers."""
        if self._is_told:
            return
        self._is_told = True
        self.ending = ending
        self._restart(GOODBYE_SECONDS, self._give_up)
        for side in (self.client, self.upstream):
            side.say_goodbye(close_frame(code, reason, is_masked=side is self.client))
        self.hang_up()

    def hang_up(self) -> None:
        """Hang up on those that were told and have answered, or are gone."""
        for side in (self.client, self.upstream):
            if side.has_answered and side.peer.is_done:
                side.connection.close()
                side.is_over = True
        if self.client.is_over and self.upstream.is_over:
            self._finish()

    def close_passed(self) -> None:
        if not self._has_closed:
            self._has_closed = True
            self._restart(CLOSE_SECONDS, self._give_up)

    def lost(self, side: "_FramesSide") -> None:
        if self._is_told:
            self.hang_up()
            return
        if self.ended.done():
            return
        if not self._has_closed:
            self.ending = Ending.CLIENT_LEFT if side is self.client else Ending.BROKE_OFF
        side.peer.connection.close()
        if side is self.client and self.upstream.is_congested:
            # It gets what was sent to it, if it takes it in time.
            self._is_told = side.is_done = True
            self._restart(CLOSE_SECONDS, self._give_up)
        else:
            self._finish()

    def _give_up(self) -> None:
        for side in (self.client, self.upstream):
            if not side.is_over and (side.is_congested or not side.peer.is_done):
                side.connection.abort()
        self._finish()


class _FramesSide(TunnelSide):
    """Side whose bytes are frames.  `is_done`: nothing more of it may pass; `is_over`: nothing more is expected of it."""

    __slots__ = ("_counted_from", "_goodbye", "_loop", "_relay", "_timer", "_walker", "is_done", "is_over")

    peer: "_FramesSide"

    def __init__(self, relay: Relay, *, is_masked: bool, allows_rsv: bool):
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._relay = relay
        self._walker = FrameWalker(is_masked=is_masked, allows_rsv=allows_rsv)
        self._counted_from = self._loop.time()
        self._goodbye: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_done = False
        self.is_over = False

    @property
    def has_answered(self) -> bool:
        return self._walker.has_closed

    def data_received(self, data: bytes) -> None:
        # For every read of every websocket: no call that is not needed.
        walker = self._walker
        if self._goodbye is not None:
            self._finish_frame(data)
            return
        if passed := walker.feed(data):
            self.passed += len(passed)
            self.peer.connection.write(passed)
        if walker.has_closed:
            self.is_done = walker.is_between_frames
            self._relay.close_passed()
        if walker.fault is not None:
            self._relay.end(walker.fault.code, walker.fault.reason, Ending.BAD_FRAME)
        elif walker.frames >= _FRAMES_COUNTED:
            self._limit_rate()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.is_over = True
        self._relay.lost(self)

    def stopped(self) -> None:
        """Shutdown of the listener."""
        self._relay.end(GOING_AWAY, "the server is going away", Ending.STOPPED)

    def say_goodbye(self, close: bytes) -> None:
        self._goodbye = b"" if self._walker.has_closed else close
        self._finish_frame(b"")

    def stop(self) -> None:
        super().stop()
        if self._timer is not None:
            self._timer.cancel()

    def _finish_frame(self, data: bytes) -> None:
        """After `say_goodbye`: only the rest of the current frame passes; what follows is walked, to notice the answer."""
        if self.is_done:
            self._walker.feed(data)
        else:
            passed = self._walker.finish_frame(data)
            self.passed += len(passed)
            self.is_done = self._walker.is_between_frames or len(passed) < len(data)
            self.peer.connection.write(passed + (self._goodbye or b"") if self.is_done else passed)
        self._relay.hang_up()

    def _limit_rate(self) -> None:
        now = self._loop.time()
        wait = self._walker.frames / FRAMES_PER_SECOND - (now - self._counted_from)
        self._walker.frames, self._counted_from = 0, now
        if wait > 0:
            self._counted_from += wait
            self.hold(RATE)
            if self._timer is not None:  # with TLS more comes after reading has stopped
                self._timer.cancel()
            self._timer = self._loop.call_later(wait, self.release, RATE)
