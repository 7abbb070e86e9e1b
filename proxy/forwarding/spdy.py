"""SPDY/3.1 as clients of clusters speak it: after both ends have agreed, opaque bytes both ways until somebody ends it."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateproject.errors import UpstreamError
from proxy.forwarding.handshake import HandshakeRefused
from proxy.forwarding.http import Ending, ForwardResult, Header, Leash, ResponseRule
from proxy.forwarding.tunnel import Connection, Side, keep_alive, pair
from proxy.upstreams.client import Exchange

SPDY = b"SPDY/3.1"
# Of an upstream whose client has gone, to take what was sent to it.
CLOSE_SECONDS = 10.0
_FRAMING = (b"content-length", b"transfer-encoding")


class TakeOver(Protocol):
    """The listener's: answers 101 with these headers, gives the connection to the side, and returns it with what was sent ahead."""

    def __call__(self, headers: Iterable[Header], protocol: Side, upgrade: bytes) -> tuple[Connection, bytes]: ...


def is_offered(headers: Iterable[Header]) -> bool:
    """Is an upgrade to SPDY, and to nothing else, asked for?"""
    return [value.strip(b" \t").lower() for name, value in headers if name == b"upgrade"] == [SPDY.lower()]


def for_upstream(method: str, headers: Iterable[Header], cleaned: Iterable[Header]) -> list[Header]:
    """The headers of the request that asks the upstream for the same.  Raises HandshakeRefused for one with a body."""
    given = list(headers)
    has_body = any(name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" \t") != b"0") for name, value in given)
    if method not in ("GET", "POST") or has_body:
        raise HandshakeRefused(400, "SPDY begins with a GET or POST request without a body")
    return [*cleaned, (b"upgrade", SPDY), (b"connection", b"Upgrade")]


@dataclass(frozen=True, slots=True)
class SpdyUpgrade:
    """What `forward` does with a 101: takes both connections over and carries bytes until the end.

    `timeout` is in seconds from now, None for none.
    """

    take_over: TakeOver
    response_headers: ResponseRule
    timeout: float | None

    async def carry(self, exchange: Exchange, raw_headers: Sequence[Header], leash: Leash, result: ForwardResult) -> None:
        _require_accepted(raw_headers)
        others = [pair for pair in raw_headers if not pair[0].lower().startswith(_FRAMING)]
        tunnel = _Tunnel()
        try:
            tunnel.client.connection, sent_ahead = self.take_over(self.response_headers(101, others), tunnel.client, SPDY)
        except ValueError as error:
            raise UpstreamError("the upstream sent headers that can't be passed on") from error
        result.status = 101
        tunnel.upstream.connection, answered_ahead = exchange.take_over(tunnel.upstream)
        leash.end = tunnel.revoke
        try:
            tunnel.begin(sent_ahead, answered_ahead, self.timeout)
            await tunnel.ended
        finally:
            tunnel.stop()
            result.ending = tunnel.ending
            result.bytes_sent, result.bytes_received = tunnel.upstream.passed, tunnel.client.passed


class _Tunnel:
    """`ending` becomes what it is by whatever comes first."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.ending = Ending.COMPLETE
        self.client, self.upstream = _BytesSide(self), _BytesSide(self)
        pair(self.client, self.upstream)
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, from_client: bytes, from_upstream: bytes, timeout: float | None) -> None:
        for connection in (self.client.connection, self.upstream.connection):
            keep_alive(connection)
        if timeout is not None:
            self._timer = self._loop.call_later(timeout, self.cut, Ending.TIMED_OUT)
        for side, data in ((self.client, from_client), (self.upstream, from_upstream)):
            if data:
                side.data_received(data)

    def revoke(self) -> None:
        self.cut(Ending.REVOKED)

    def cut(self, ending: Ending) -> None:
        """At once: no byte passes any more."""
        self._finish(ending)
        for side in (self.client, self.upstream):
            side.connection.abort()

    def lost(self, side: "_BytesSide") -> None:
        """What one end has sent still reaches the other, if that takes it in time."""
        self._finish(Ending.CLIENT_LEFT if side is self.client else Ending.COMPLETE)
        side.peer.connection.close()
        if side is self.client:  # the listener has deadlines of its own
            self._loop.call_later(CLOSE_SECONDS, self.upstream.connection.abort)

    def stop(self) -> None:
        """Both connections end, whatever has become of them."""
        if self._timer is not None:
            self._timer.cancel()
        self.client.stop()
        self.upstream.stop()

    def _finish(self, ending: Ending) -> None:
        if not self.ended.done():
            self.ending = ending
            self.ended.set_result(None)


class _BytesSide(Side):
    __slots__ = ("_tunnel",)

    def __init__(self, tunnel: _Tunnel):
        super().__init__()
        self._tunnel = tunnel

    def data_received(self, data: bytes) -> None:
        if not self._tunnel.ended.done():
            self.passed += len(data)
            self.peer.connection.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._tunnel.lost(self)

    def stopped(self) -> None:
        """The listener stops."""
        self._tunnel.cut(Ending.STOPPED)


def _require_accepted(headers: Sequence[Header]) -> None:
    """UpstreamError where the 101 is not the answer to our offer."""
    answer: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        answer.setdefault(name.lower(), []).append(value.strip(b" \t").lower())
    if answer.get(b"upgrade") != [SPDY.lower()]:
        raise UpstreamError("the upstream changed to another protocol than SPDY/3.1")
    if not any(b"upgrade" in [option.strip(b" \t") for option in value.split(b",")] for value in answer.get(b"connection", [])):
        raise UpstreamError("the upstream's 101 has no Connection: Upgrade")
