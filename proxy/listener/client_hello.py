"""What does a TLS client ask for in its first message: which host, which protocols?  Pure: bytes in, a ClientHello out."""

from dataclasses import dataclass

MOST_BYTES = 16 * 1024  # of a message that is looked at; OpenSSL judges all others
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ALPN = 0, 16


@dataclass(frozen=True, slots=True)
class ClientHello:
    """`server_name` is as it was sent, None for none; `protocols` are those of ALPN (RFC 7301)."""

    server_name: bytes | None
    protocols: tuple[bytes, ...]


class Unreadable(ValueError):
    """No ClientHello that we can read."""


def find(received: bytes) -> ClientHello | None:
    """The whole message at the beginning of `received` (RFC 8446 4.1.2), also one in several records; None where more must come."""
    message, at = b"", 0
    while len(received) - at >= 5:
        length = int.from_bytes(received[at + 3 : at + 5], "big")
        if received[at] != _HANDSHAKE or length == 0:
            raise Unreadable("not a handshake record")
        message += received[at + 5 : at + 5 + length]
        at += 5 + length
        if message and message[0] != _CLIENT_HELLO:
            raise Unreadable("not a ClientHello")
        whole = 4 + int.from_bytes(message[1:4], "big") if len(message) >= 4 else MOST_BYTES
        if whole > MOST_BYTES:
            raise Unreadable("longer than any client's")
        if len(message) >= whole:
            return _parse(_Reader(message[4:whole]))
    if len(received) > 2 * MOST_BYTES:
        raise Unreadable("in too many records")
    if received[:1] not in (b"", bytes([_HANDSHAKE])):
        raise Unreadable("not a handshake record")
    return None


class _Reader:
    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise Unreadable("ends too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> "_Reader":
        """Its length is a number of `width` bytes."""
        return _Reader(self.take(self.number(width)))

    @property
    def rest(self) -> bytes:
        return self._data[self._at :]


def _parse(hello: _Reader) -> ClientHello:
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session
    hello.vector(2)  # cipher suites
    hello.vector(1)  # compression
    server_name: bytes | None = None
    protocols: tuple[bytes, ...] = ()
    extensions = hello.vector(2) if hello.rest else _Reader(b"")
    while extensions.rest:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            names = content.vector(2)
            if names.number(1) == 0:
                server_name = names.vector(2).rest
        elif kind == _ALPN:
            protocols = _protocols(content.vector(2))
    return ClientHello(server_name, protocols)


def _protocols(listed: _Reader) -> tuple[bytes, ...]:
    found = []
    while listed.rest:
        found.append(listed.vector(1).rest)
    return tuple(found)
