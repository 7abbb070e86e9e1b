"""Listener for Envoy's authorization requests: the subset of HTTP/1.1 (RFC 9112) that Envoy uses, one request at a time."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

import structlog

from foundation.system.fd_limit import CLIENTS, is_exhausted, report_exhaustion
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

# Head and body of one request.
MAX_REQUEST_BYTES = 256 * 1024
_FD_RETRY_SECONDS = 0.1  # until it checks for spare file descriptors again
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length: "
_ERROR_RESPONSE = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

# Returns the response to a head, without its empty line, and a body.
Respond = Callable[[bytes, bytes], Awaitable[bytes]]


class ExtAuthzListener:
    """Listener of the authorization socket. If file descriptors run short, Envoy waits, and active requests keep the remaining ones."""

    def __init__(self, listener: socket.socket, respond: Respond):
        self._listener = listener
        self._respond = respond
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(listener, self._accept)

    def _accept(self) -> None:
        if is_exhausted(self._listener.fileno()):
            report_exhaustion(CLIENTS)
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_FD_RETRY_SECONDS, self._resume_accepting)
            return
        with suppress(OSError):  # the client has disconnected, or there is no descriptor left
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            adopting = self._loop.connect_accepted_socket(lambda: ExtAuthzConnection(self._respond), connection)
            spawn(adopting, name="ext_authz connection")

    def _resume_accepting(self) -> None:
        if self._listener.fileno() != -1:
            self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()


class ExtAuthzConnection(asyncio.Protocol):
    """One connection. After any error it responds 500 and closes, so that Envoy denies the request."""

    _transport: asyncio.Transport

    def __init__(self, respond: Respond):
        self._respond = respond
        self._received = b""
        self._data_received: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._task = spawn(self._run(), name="ext_authz requests")

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._data_received is not None and not self._data_received.done():
            self._data_received.set_result(None)
        if len(self._received) > MAX_REQUEST_BYTES:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                while (request := self._next_request()) is None:
                    self._data_received = loop.create_future()
                    await self._data_received
                self._transport.write(await self._respond(*request))
        except Exception:  # fail closed
            log.exception("ext_authz check failed")
            self._transport.write(_ERROR_RESPONSE)
            self._transport.close()

    def _next_request(self) -> tuple[bytes, bytes] | None:
        """Return the head and body of the next request, or None while it is incomplete."""
        end = self._received.find(_HEAD_END)
        if end == -1:
            return None
        length_start = self._received.find(_LENGTH, 0, end)
        length = (
            0 if length_start == -1 else int(self._received[length_start + len(_LENGTH) : self._received.index(b"\r", length_start + 2)])
        )
        body_start = end + len(_HEAD_END)
        if len(self._received) < body_start + length:
            return None
        head, body = self._received[: end + 2], self._received[body_start : body_start + length]
        self._received = self._received[body_start + length :]
        return head, body
