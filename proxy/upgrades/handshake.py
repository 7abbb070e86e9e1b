"""Websocket handshake (RFC 6455 4): whether a request is one, and whether an answer accepts it."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from foundation.errors import BadRequest, UpstreamError
from foundation.web.asgi import Header

_ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_VERSION = b"13"
_KEY = re.compile(rb"[A-Za-z0-9+/]{21}[AQgw]==")  # 16 bytes in base64
PREFIX = b"sec-websocket-"


class HandshakeRefused(BadRequest):
    """Refusal of the client's handshake, before anybody else hears of it."""

    def __init__(self, status: int, reason: str, headers: tuple[Header, ...] = ()):
        super().__init__(reason)
        self.status = status
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Handshake:
    """Handshake as the client offered it; `headers` are its Sec-WebSocket-* as they came."""

    key: bytes
    protocols: frozenset[bytes]
    extensions: frozenset[bytes]
    headers: tuple[Header, ...]

    def for_upstream(self, cleaned: Iterable[Header]) -> list[Header]:
        """Headers of the request that asks the upstream for the same."""
        kept = [pair for pair in cleaned if not pair[0].lower().startswith(PREFIX)]
        return [*kept, (b"upgrade", b"websocket"), (b"connection", b"Upgrade"), *self.headers]

    def accepted(self, headers: Sequence[Header]) -> list[Header]:
        """Sec-WebSocket-* headers of a 101.  Raises UpstreamError where it is not the answer to this handshake (RFC 6455 4.1)."""
        answer = _by_name(headers)
        protocol = answer.get(b"sec-websocket-protocol", [])
        extensions = answer.get(b"sec-websocket-extensions", [])
        if [value.lower() for value in answer.get(b"upgrade", [])] != [b"websocket"]:
            raise UpstreamError("the upstream switched to another protocol than websocket")
        if b"upgrade" not in [option.lower() for option in _elements(answer.get(b"connection", []))]:
            raise UpstreamError("the upstream's 101 has no Connection: Upgrade")
        if answer.get(b"sec-websocket-accept") != [accept_key(self.key)]:
            raise UpstreamError("the upstream's Sec-WebSocket-Accept does not match this handshake")
        if len(protocol) > 1 or not self.protocols.issuperset(protocol):
            raise UpstreamError("the upstream chose a subprotocol that was not offered")
        if not self.extensions.issuperset(_extensions(extensions)):
            raise UpstreamError("the upstream chose an extension that was not offered")
        return [(name, value) for name, values in answer.items() if name.startswith(PREFIX) for value in values]


def handshake(method: str, headers: Iterable[Header], own_origin: str, origins: Sequence[str]) -> Handshake:
    """Handshake of a request.  Raises HandshakeRefused for what is none, or comes from a page of a foreign origin."""
    given = _by_name(headers)
    keys = given.get(b"sec-websocket-key", [])
    if method != "GET" or b"transfer-encoding" in given or given.get(b"content-length", [b"0"]) != [b"0"]:
        raise HandshakeRefused(400, "a websocket begins with a GET request without a body")
    if [value.lower() for value in given.get(b"upgrade", [])] != [b"websocket"]:
        raise HandshakeRefused(400, "Upgrade must name websocket alone")
    if given.get(b"sec-websocket-version", []) != [_VERSION]:
        reason = "the websocket version must be 13"
        raise HandshakeRefused(426, reason, ((b"sec-websocket-version", _VERSION), (b"upgrade", b"websocket")))
    if len(keys) != 1 or not _KEY.fullmatch(keys[0]):
        raise HandshakeRefused(400, "Sec-WebSocket-Key must be 16 bytes in base64, once")
    require_known_origin(given.get(b"origin", []), own_origin, origins)
    return Handshake(
        key=keys[0],
        protocols=frozenset(_elements(given.get(b"sec-websocket-protocol", []))),
        extensions=_extensions(given.get(b"sec-websocket-extensions", [])),
        headers=tuple((name, value) for name, values in given.items() if name.startswith(PREFIX) for value in values),
    )


def require_known_origin(given: Iterable[bytes], own_origin: str, origins: Sequence[str]) -> None:
    """Origin check.  Browsers send cookies with a websocket that any page opens, and let the page read it: this is the only door."""
    allowed = {origin.encode() for origin in (own_origin, *origins)}
    if any(origin.lower() not in allowed for origin in given):
        raise HandshakeRefused(403, "pages of another origin may not open this websocket")


def _by_name(headers: Iterable[Header]) -> dict[bytes, list[bytes]]:
    given: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        given.setdefault(name.lower(), []).append(value.strip(b" \t"))
    return given


def _elements(values: Iterable[bytes]) -> Iterator[bytes]:
    return (element.strip(b" \t") for value in values for element in value.split(b","))


def _extensions(values: Iterable[bytes]) -> frozenset[bytes]:
    """The names alone; a comma within a quoted parameter gives a name too many, which no answer needs."""
    return frozenset(element.partition(b";")[0].rstrip(b" \t") for element in _elements(values))


def accept_key(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _ACCEPT_SUFFIX, usedforsecurity=False).digest())
