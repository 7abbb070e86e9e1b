"""HTTP/1.1 client that sends exactly the given bytes, and reads responses by their framing."""

import socket
import ssl
from dataclasses import dataclass
from typing import Self

WAIT = 10.0  # seconds; only a failing test waits that long


class Broken(Exception):
    """The connection ended within a response; `received` is the part that arrived."""

    def __init__(self, received: bytes):
        super().__init__(f"ended after {received[-200:]!r}")
        self.received = received


@dataclass(frozen=True, slots=True)
class RawResponse:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def announces_close(self) -> bool:
        return "close" in (self.header("connection") or "").lower()


class RawClient:
    """Client of one connection. `response()` raises Broken if the server closes before the end of the response."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, server_name: str | None = None):
        self.socket: socket.socket = self.connected(host, port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            plain = self.socket
            try:
                self.socket = tls.wrap_socket(plain, server_hostname=server_name)
            except BaseException:
                plain.close()
                raise
        self._buffer = b""

    def connected(self, host: str, port: int) -> socket.socket:
        return socket.create_connection((host, port), WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> Self:
        self.socket.sendall(data)
        return self

    def offer(self, data: bytes, limit: int, *, patience: float = 0.5) -> int:
        """Send `data` repeatedly until the server accepts no more; return the number of accepted bytes."""
        self.socket.settimeout(patience)
        taken = 0
        try:
            while taken < limit:
                taken += self.socket.send(data)
        except TimeoutError:
            pass
        finally:
            self.socket.settimeout(WAIT)
        return taken

    def response(self, method: str = "GET") -> RawResponse:
        """Return the next final response to a request of this method."""
        while True:
            response = self.one_response(method)
            if response.status >= 200:
                return response

    def one_response(self, method: str = "GET") -> RawResponse:
        """Return the next response, which may be informational (status 1xx)."""
        head = self._until(b"\r\n\r\n").decode("latin-1")
        status_line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = [(name, value.strip(" \t")) for name, _, value in (line.partition(":") for line in lines)]
        status = int(status_line.split(" ")[1])
        response = RawResponse(status, headers, b"")
        if method == "HEAD" or status < 200 or status in (204, 304):
            return response
        if response.header("transfer-encoding") == "chunked":
            return RawResponse(status, headers, b"".join(iter(self.chunk, b"")))
        return RawResponse(status, headers, self.exactly(int(response.header("content-length") or 0)))

    def chunk(self) -> bytes:
        """Return the data of the next chunk, empty at the end of the body."""
        size = int(self._until(b"\r\n"), 16)
        return self.exactly(size + 2)[:-2]

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._receive()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def rest(self) -> bytes:
        """Return everything until the server closes."""
        try:
            while True:
                self._receive()
        except Broken:
            taken, self._buffer = self._buffer, b""
            return taken

    def is_closed(self, within: float = WAIT) -> bool:
        """Return whether the server closes within these seconds without sending more."""
        if self._buffer:
            return False
        self.socket.settimeout(within)
        try:
            return self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True
        finally:
            self.socket.settimeout(WAIT)

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._receive()
        taken, _, self._buffer = self._buffer.partition(end)
        return taken + end

    def _receive(self) -> None:
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            raise Broken(self._buffer)
        self._buffer += data


def exchange(port: int, data: bytes, method: str = "GET") -> tuple[RawResponse, bool]:
    """Send on a new connection; return the response, and whether the server closed after it."""
    with RawClient(port) as client:
        response = client.send(data).response(method)
        return response, response.announces_close and client.is_closed()


class SlowReader(RawClient):
    """Client with a small window: its receive buffer is 4 KiB."""

    def connected(self, host: str, port: int) -> socket.socket:
        client = socket.socket()
        client.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 4096
        )  # before it connects, because the buffer determines the announced window
        client.settimeout(WAIT)
        client.connect((host, port))
        return client
