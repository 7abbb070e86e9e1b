"""Persistent HTTP/1.1 connection to Envoy's control listener, one request at a time."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class ControlConnection(asyncio.Protocol):
    """One connection. `on_lost` is called once, when it is closed."""

    _transport: asyncio.Transport

    def __init__(self, on_lost: Callable[["ControlConnection"], None]):
        self._on_lost = on_lost
        self._received = b""
        self._response: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, path: Path, on_lost: Callable[["ControlConnection"], None]) -> "ControlConnection":
        """Connect to a Unix socket. Raises OSError."""
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
        elif len(body) >= int(length[1]) and self._response is not None and not self._response.done():
            self._received = b""
            self._response.set_result(body)

    def connection_lost(self, error: Exception | None) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionError("Envoy closed the control connection or returned an error"))
        self._on_lost(self)

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a request and return the response body.

        Raises ConnectionError, and closes, if there is no response or its status is not 200.
        """
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(b"POST %b HTTP/1.1\r\nhost: envoy\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), len(body), body))
        return await self._response

    def close(self) -> None:
        self._transport.abort()
