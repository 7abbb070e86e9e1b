"""SPDY/3.1 as clients of clusters speak it: after both ends have agreed, opaque bytes both ways until somebody ends it."""

from collections.abc import Sequence
from dataclasses import dataclass

from foundation.errors import UpstreamError
from foundation.web.asgi import Header
from proxy.forwarding.http import ForwardResult, ResponseRule, StreamHandle
from proxy.forwarding.tunnel import ByteTunnel, ConnectionTakeover, carry_after_101
from proxy.upgrades.spdy import SPDY
from proxy.upstreams.client import UpstreamExchange

_FRAMING = (b"content-length", b"transfer-encoding")


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
        raise UpstreamError("the upstream switched to another protocol than SPDY/3.1")
    if not any(b"upgrade" in [option.strip(b" \t") for option in value.split(b",")] for value in answer.get(b"connection", [])):
        raise UpstreamError("the upstream's 101 has no Connection: Upgrade")
