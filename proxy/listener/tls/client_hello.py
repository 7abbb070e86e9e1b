"""Parser of the TLS ClientHello (RFC 8446 4.1.2) for server name and ALPN protocols, without I/O."""

from dataclasses import dataclass

MAX_BYTES = 16 * 1024  # of a message that gate parses; longer ones are left to OpenSSL
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ALPN = 0, 16


@dataclass(frozen=True, slots=True)
class ClientHello:
    """ClientHello. `server_name` is as sent, or None; `protocols` are those of ALPN (RFC 7301)."""

    server_name: bytes | None
    protocols: tuple[bytes, ...]


class UnreadableClientHello(ValueError):
    """The message is no ClientHello that gate can parse."""


class ClientHelloParser:
    """Incremental parser of a ClientHello in one record or several, which processes each byte once."""

    def __init__(self) -> None:
        self._fed_bytes = 0
        self._header = b""  # of the incomplete record header
        self._remaining = 0  # bytes left in the current record
        self._message = bytearray()

    def feed(self, data: bytes) -> ClientHello | None:
        """Feed the next bytes. Return the ClientHello, or None while it is incomplete.

        Raises UnreadableClientHello. After a result or an error, nothing more may be fed.
        """
        offset = 0
        while offset < len(data):
            if self._remaining:
                part = data[offset : offset + self._remaining]
                self._remaining -= len(part)
                self._message += part
            else:
                part = data[offset : offset + 5 - len(self._header)]
                self._start_record(self._header + part)
            offset += len(part)
            if self._message and (message := self._complete_message()) is not None:
                return _parse(_HelloFields(message))
        self._fed_bytes += len(data)
        if self._fed_bytes > 2 * MAX_BYTES:
            raise UnreadableClientHello("in too many records")
        return None

    def _start_record(self, header: bytes) -> None:
        if header[0] != _HANDSHAKE:
            raise UnreadableClientHello("not a handshake record")
        self._header = header
        if len(header) == 5:
            self._header, self._remaining = b"", int.from_bytes(header[3:], "big")
            if self._remaining == 0:
                raise UnreadableClientHello("a record of nothing")

    def _complete_message(self) -> bytes | None:
        if self._message[0] != _CLIENT_HELLO:
            raise UnreadableClientHello("not a ClientHello")
        length = 4 + int.from_bytes(self._message[1:4], "big") if len(self._message) >= 4 else MAX_BYTES
        if length > MAX_BYTES:
            raise UnreadableClientHello("longer than any client's")
        return bytes(self._message[4:length]) if len(self._message) >= length else None


class _HelloFields:
    """Reader of the fields of a message. Raises UnreadableClientHello at its end."""

    def __init__(self, data: bytes):
        self._data, self._offset = data, 0

    def take(self, count: int) -> bytes:
        if self._offset + count > len(self._data):
            raise UnreadableClientHello("ends too early")
        self._offset += count
        return self._data[self._offset - count : self._offset]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> "_HelloFields":
        """Return a TLS vector with a length field of `width` bytes."""
        return _HelloFields(self.take(self.number(width)))

    @property
    def rest(self) -> bytes:
        return self._data[self._offset :]


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
    protocols = []
    while listed.rest:
        protocols.append(listed.vector(1).rest)
    return tuple(protocols)
