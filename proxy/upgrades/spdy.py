"""SPDY/3.1 offers of clients of clusters (kubectl): whether a request is one, and may be carried."""

from collections.abc import Iterable

from foundation.web.asgi import Header
from proxy.upgrades.handshake import HandshakeRefused

SPDY = b"SPDY/3.1"


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
