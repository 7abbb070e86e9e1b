"""TLS ClientHello (RFC 8446 4.1.2): which host and which protocols a client asks for.  Pure: bytes in, a ClientHello out."""

from dataclasses import dataclass

MOST_BYTES = 16 * 1024  # of a message that is looked at; OpenSSL judges all others
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ALPN = 0, 16


@dataclass(frozen=True, slots=True)
class ClientHello:
    """ClientHello.  `server_name` is as it was sent, None for none; `protocols` are those of ALPN (RFC 7301)."""

    server_name: bytes | None
    protocols: tuple[bytes, ...]


class UnreadableClientHello(ValueError):
    """Error of a message that is no ClientHello that we can read."""


class ClientHelloParser:
    """ClientHello parser at the beginning of a connection (RFC 8446 4.1.2), in one record or several.

    Each byte is looked at once, in however small parts it is sent.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._header = b""  # of the record that begins
        self._left = 0  # bytes of the record that has begun
        self._message = bytearray()

    def take(self, data: bytes) -> ClientHello | None:
        """Feed the next bytes; None where more must come.  After an answer, or UnreadableClientHello, there is nothing more to take."""
        at = 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                self._message += part
            else:
                part = data[at : at + 5 - len(self._header)]
                self._begin(self._header + part)
            at += len(part)
            if self._message and (whole := self._whole()) is not None:
                return _parse(_HelloFields(whole))
        self._taken += len(data)
        if self._taken > 2 * MOST_BYTES:
            raise UnreadableClientHello("in too many records")
        return None

    def _begin(self, header: bytes) -> None:
        if header[0] != _HANDSHAKE:
            raise UnreadableClientHello("not a handshake record")
        self._header = header
        if len(header) == 5:
            self._header, self._left = b"", int.from_bytes(header[3:], "big")
            if self._left == 0:
                raise UnreadableClientHello("a record of nothing")

    def _whole(self) -> bytes | None:
        if self._message[0] != _CLIENT_HELLO:
            raise UnreadableClientHello("not a ClientHello")
        whole = 4 + int.from_bytes(self._message[1:4], "big") if len(self._message) >= 4 else MOST_BYTES
        if whole > MOST_BYTES:
            raise UnreadableClientHello("longer than any client's")
        return bytes(self._message[4:whole]) if len(self._message) >= whole else None


class _HelloFields:
    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise UnreadableClientHello("ends too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> "_HelloFields":
        """Vector of TLS, whose length is a number of `width` bytes."""
        return _HelloFields(self.take(self.number(width)))

    @property
    def rest(self) -> bytes:
        return self._data[self._at :]


def _parse(hello: _HelloFields) -> ClientHello:
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session
    hello.vector(2)  # cipher suites
    hello.vector(1)  # compression
    server_name: bytes | None = None
    protocols: tuple[bytes, ...] = ()
    extensions = hello.vector(2) if hello.rest else _HelloFields(b"")
    while extensions.rest:
        kind, content = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            names = content.vector(2)
            if names.number(1) == 0:
                server_name = names.vector(2).rest
        elif kind == _ALPN:
            protocols = _protocols(content.vector(2))
    return ClientHello(server_name, protocols)


def _protocols(listed: _HelloFields) -> tuple[bytes, ...]:
    found = []
    while listed.rest:
        found.append(listed.vector(1).rest)
    return tuple(found)
