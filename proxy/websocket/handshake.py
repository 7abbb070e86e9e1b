"""WebSocket handshake (RFC 6455 4): validates the client's request and the upstream's response."""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foundation.errors import UpstreamError
from foundation.web.asgi_types import Header
from proxy.upgrades import HandshakeRefused, Upgrade, group_by_name, list_elements
from proxy.websocket.relay import Relay

_ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_VERSION = b"13"
_KEY = re.compile(rb"[A-Za-z0-9+/]{21}[AQgw]==")  # 16 bytes in base64
SEC_WEBSOCKET = b"sec-websocket-"


@dataclass(frozen=True)
class Handshake(Upgrade):
    """Client's handshake.  `headers` are its Sec-WebSocket-* headers, unchanged."""

    protocol = b"websocket"
    prefix = (SEC_WEBSOCKET,)

    key: bytes
    protocols: frozenset[bytes]
    extensions: frozenset[bytes]
    headers: tuple[Header, ...]

    def for_upstream(self, cleaned: Iterable[Header]) -> list[Header]:
        """Return the headers of the upstream request, with the same handshake."""
        return [*super().for_upstream(pair for pair in cleaned if not pair[0].lower().startswith(SEC_WEBSOCKET)), *self.headers]

    def _negotiated_headers(self, by_name: dict[bytes, list[bytes]]) -> list[Header]:
        """Return the response's handshake headers, validated as in RFC 6455 4.1."""
        protocol = by_name.get(b"sec-websocket-protocol", [])
        extensions = by_name.get(b"sec-websocket-extensions", [])
        if by_name.get(b"sec-websocket-accept") != [accept_key(self.key)]:
            raise UpstreamError("the upstream's Sec-WebSocket-Accept does not match this handshake")
        if len(protocol) > 1 or not self.protocols.issuperset(protocol):
            raise UpstreamError("the upstream chose a subprotocol that was not offered")
        if not self.extensions.issuperset(_extensions(extensions)):
            raise UpstreamError("the upstream chose an extension that was not offered")
        return [(name, value) for name, values in by_name.items() if name.startswith(SEC_WEBSOCKET) for value in values]

    def tunnel(self, accepted: Sequence[Header]) -> Relay:
        return Relay(allows_rsv=any(name == b"sec-websocket-extensions" for name, _ in accepted))


# enforcement-point: Requests: WebSocket handshake and Origin
def parse_handshake(method: str, headers: Iterable[Header], route_origin: str, allowed_origins: Sequence[str]) -> Handshake:
    """Parse the handshake of a request.  Raises HandshakeRefused if it is invalid or its origin is not allowed."""
    by_name = group_by_name(headers)
    keys = by_name.get(b"sec-websocket-key", [])
    if method != "GET" or b"transfer-encoding" in by_name or by_name.get(b"content-length", [b"0"]) != [b"0"]:
        raise HandshakeRefused(400, "a websocket begins with a GET request without a body")
    if [value.lower() for value in by_name.get(b"upgrade", [])] != [b"websocket"]:
        raise HandshakeRefused(400, "Upgrade must name websocket alone")
    if by_name.get(b"sec-websocket-version", []) != [_VERSION]:
        reason = "the websocket version must be 13"
        raise HandshakeRefused(426, reason, ((b"sec-websocket-version", _VERSION), (b"upgrade", b"websocket")))
    if len(keys) != 1 or not _KEY.fullmatch(keys[0]):
        raise HandshakeRefused(400, "Sec-WebSocket-Key must be 16 bytes in base64, once")
    require_allowed_origin(by_name.get(b"origin", []), route_origin, allowed_origins)
    return Handshake(
        key=keys[0],
        protocols=frozenset(list_elements(by_name.get(b"sec-websocket-protocol", []))),
        extensions=_extensions(by_name.get(b"sec-websocket-extensions", [])),
        headers=tuple((name, value) for name, values in by_name.items() if name.startswith(SEC_WEBSOCKET) for value in values),
    )


def require_allowed_origin(request_origins: Iterable[bytes], route_origin: str, allowed_origins: Sequence[str]) -> None:
    """Raise HandshakeRefused if the origin is not allowed.

    This is the only protection against cross-site WebSockets, because browsers send cookies with them and let the page read them.
    """
    allowed = {origin.encode() for origin in (route_origin, *allowed_origins)}
    if any(origin.lower() not in allowed for origin in request_origins):
        raise HandshakeRefused(403, "pages of another origin may not open this websocket")


def _extensions(values: Iterable[bytes]) -> frozenset[bytes]:
    """Return the names of extensions.  A comma in a quoted parameter adds a false name, which no upstream selects."""
    return frozenset(element.partition(b";")[0].rstrip(b" \t") for element in list_elements(values))


def accept_key(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _ACCEPT_SUFFIX, usedforsecurity=False).digest())
