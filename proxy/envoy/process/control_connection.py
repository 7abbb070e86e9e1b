"""Control connection to Envoy's listener for cuts: HTTP/1.1, one request after the other, over one connection that stays open."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class ControlConnection(asyncio.Protocol):
    """One connection.  `on_lost` is called once, when it has ended."""

    _transport: asyncio.Transport

    def __init__(self, on_lost: Callable[["ControlConnection"], None]):
        self._on_lost = on_lost
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, path: Path, on_lost: Callable[["ControlConnection"], None]) -> "ControlConnection":
        """Connect to a Unix socket.  OSError."""
        _, connection = await asyncio.get_running_loop().create_unix_connection(lambda: cls(on_lost), str(path))
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(_HEAD_END)
        if not end:
            return
        length = _LENGTH.search(head + b"\r\n")
        if not head.startswith(b"HTTP/1.1 200 ") or length is None:
            self._transport.abort()
        elif len(body) >= int(length[1]) and self._answer is not None and not self._answer.done():
            self._received = b""
            self._answer.set_result(body)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("Envoy closed the control connection or returned an error"))
        self._on_lost(self)

    async def post(self, path: str, body: bytes) -> bytes:
        """Return the body of the answer.  ConnectionError where there is none, or another one than 200; the connection is then closed."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(b"POST %b HTTP/1.1\r\nhost: envoy\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), len(body), body))
        return await self._answer

    def close(self) -> None:
        self._transport.abort()
