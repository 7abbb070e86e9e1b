"""SPDY/3.1 as clients of clusters speak it: after both ends have agreed, opaque bytes both ways until somebody ends it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foundation.errors import UpstreamError
from proxy.forwarding.handshake import HandshakeRefused
from proxy.forwarding.http import ForwardResult, Header, ResponseRule, StreamHandle
from proxy.forwarding.tunnel import ByteTunnel, ConnectionTakeover, carry_after_101
from proxy.upstreams.client import UpstreamExchange

SPDY = b"SPDY/3.1"
_FRAMING = (b"content-length", b"transfer-encoding")


def is_offered(headers: Iterable[Header]) -> bool:
    """Whether an upgrade to SPDY, and to nothing else, is asked for."""
    return [value.strip(b" \t").lower() for name, value in headers if name == b"upgrade"] == [SPDY.lower()]


class SpdyOffer:
    """Offer of an upgrade to SPDY that may be carried."""

    def for_upstream(self, cleaned: Iterable[Header]) -> list[Header]:
        """Headers of the request that asks the upstream for the same."""
        return [*cleaned, (b"upgrade", SPDY), (b"connection", b"Upgrade")]


def offer(method: str, headers: Iterable[Header]) -> SpdyOffer:
    """Offer of a request.  Raises HandshakeRefused for one with a body."""
    has_body = any(name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" \t") != b"0") for name, value in headers)
    if method not in ("GET", "POST") or has_body:
        raise HandshakeRefused(400, "SPDY begins with a GET or POST request without a body")
    return SpdyOffer()


@dataclass(frozen=True, slots=True)
class SpdyUpgrade:
    """SPDY upgrade: what `forward` does with a 101: takes both connections over and carries bytes until the end.

    `timeout` is in seconds from now, None for none.
    """

    take_over: ConnectionTakeover
    response_headers: ResponseRule
    timeout: float | None

    async def carry(self, exchange: UpstreamExchange, raw_headers: Sequence[Header], handle: StreamHandle, result: ForwardResult) -> None:
        _require_accepted(raw_headers)
        headers = self.response_headers([pair for pair in raw_headers if not pair[0].lower().startswith(_FRAMING)])
        await carry_after_101(ByteTunnel(), lambda side: self.take_over(headers, side, SPDY), exchange, self.timeout, handle, result)


def _require_accepted(headers: Sequence[Header]) -> None:
    """UpstreamError where the 101 is not the answer to our offer."""
    answer: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        answer.setdefault(name.lower(), []).append(value.strip(b" \t").lower())
    if answer.get(b"upgrade") != [SPDY.lower()]:
        raise UpstreamError("the upstream changed to another protocol than SPDY/3.1")
    if not any(b"upgrade" in [option.strip(b" \t") for option in value.split(b",")] for value in answer.get(b"connection", [])):
        raise UpstreamError("the upstream's 101 has no Connection: Upgrade")
