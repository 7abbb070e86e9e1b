"""Exchange with an upstream: one request and its response on one connection, streaming both ways."""

import asyncio
from collections.abc import Sequence
from typing import cast

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_writer import StreamWriter
from aiohttp.streams import EMPTY_PAYLOAD, EofStream

from foundation.errors import UpstreamError
from foundation.web.asgi_types import Header
from proxy.rewriting.connection_auth import ConnectionUse, authenticates_connection
from proxy.upstreams.idle_connections import IdleConnections
from proxy.upstreams.outgoing_request import OutgoingRequest
from proxy.upstreams.upstream_connection import INITIAL_BUFFER_BYTES, MAX_READ_BYTES, UpstreamConnection, set_read_size
from proxy.upstreams.upstream_errors import UpstreamErrors, bad_status

MAX_RESPONSE_HEADERS = 64 * 1024  # bytes, all together
MAX_RESPONSE_HEADER_COUNT = 512
MAX_INTERIM_RESPONSES = 16  # 100 Continue, 102 Processing, 103 Early Hints: no application sends more before its response

_BODILESS = (204, 304)
CONNECTION_ERRORS = (aiohttp.ClientError, HttpProcessingError, EofStream, OSError, ValueError)


class StaleConnection(UpstreamError):
    """Error of a reused connection that closed before any byte of the response: the upstream may not have received the request."""


class UpstreamExchange:
    """Exchange with an upstream: one request and its response on one connection."""

    __slots__ = (
        "_connection",
        "_errors",
        "_idle",
        "_is_reusable",
        "_is_taken_over",
        "_payload",
        "_protocol",
        "_request",
        "_request_ended",
        "_unsent",
    )  # fmt: skip

    def __init__(self, connection: Connection, request: OutgoingRequest, upstream_errors: UpstreamErrors, idle: IdleConnections):
        self._errors = upstream_errors
        self._idle = idle
        self._connection = connection
        self._protocol = cast(UpstreamConnection, connection.protocol)
        self._request = request
        self._unsent = request.content_length
        self._request_ended = not request.has_body
        self._payload: aiohttp.StreamReader = EMPTY_PAYLOAD
        self._is_reusable = self._is_taken_over = False

    def send_head(self, head: bytes) -> None:
        is_for_head = self._request.method == "HEAD"
        if is_for_head or not self._protocol.requests:  # else the previous request's parser is reused
            self._protocol.set_response_params(
                skip_payload=is_for_head,
                read_until_eof=True,
                auto_decompress=False,
                read_bufsize=INITIAL_BUFFER_BYTES // 2,  # aiohttp pauses at twice this size
                max_line_size=MAX_RESPONSE_HEADERS,
                max_field_size=MAX_RESPONSE_HEADERS,
                max_headers=MAX_RESPONSE_HEADER_COUNT,
            )
        self._protocol.start_request(self._request.statistics)
        self._protocol.start_response()
        self._write(head)

    def write(self, chunk: bytes) -> None:
        """Send part of the request body.

        Raises UpstreamError if the upstream has closed the connection or the body exceeds its Content-Length.
        """
        if not chunk:
            return
        if self._unsent is None:
            self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            return
        self._unsent -= len(chunk)
        if self._unsent < 0:
            raise UpstreamError("the request body is longer than its Content-Length")
        self._write(chunk)

    def end_body(self) -> None:
        """End the request body. Raises UpstreamError if it is shorter than its Content-Length."""
        if self._unsent:
            raise UpstreamError("the request body is shorter than its Content-Length")
        if self._unsent is None:
            self._write(b"0\r\n\r\n")
        self._request_ended = True

    @property
    def is_congested(self) -> bool:
        return self._protocol.writing_paused

    async def drain(self) -> None:
        try:
            await StreamWriter(self._protocol, asyncio.get_running_loop()).drain()
        except CONNECTION_ERRORS as error:
            raise UpstreamError("the upstream closed the connection while the request was sent") from error

    async def read_response(self) -> tuple[int, Sequence[Header]]:
        """Return the status and the headers as received.

        Interim responses are skipped (RFC 9110 15.2), except a requested 101. Raises UpstreamError, or StaleConnection if a reused
        connection closed before any byte of the response.
        """
        for _ in range(MAX_INTERIM_RESPONSES + 1):
            try:
                message, payload = await self._protocol.read()
            except CONNECTION_ERRORS as error:
                is_stale = self._protocol.requests > 1 and not self._protocol.received_any
                raise self._errors.record_response_error(
                    self._request.upstream.endpoint, error, StaleConnection if is_stale else UpstreamError
                ) from error
            if 200 <= message.code <= 599:
                break
            if problem := bad_status(message.code, is_upgrade=self._request.is_upgrade):
                raise self._errors.record_protocol_error(self._request.upstream.endpoint, problem)
            if message.code == 101:
                break
        else:
            raise self._errors.record_protocol_error(
                self._request.upstream.endpoint, f"sent more than {MAX_INTERIM_RESPONSES} interim responses"
            )
        headers = message.raw_headers
        if sum(map(len, map(b"".join, headers))) > MAX_RESPONSE_HEADERS:
            raise self._errors.record_protocol_error(self._request.upstream.endpoint, "sent more than 64 KiB of headers")
        if self._errors.has_any:
            self._errors.record_success(self._request.upstream.endpoint)
        self._payload = payload
        # An upstream may have switched protocols without confirming it, or may have authenticated the connection for one user.
        use = self._request.connection_use
        is_private = (use is not ConnectionUse.SHARED or message.code == 401) and (
            use is ConnectionUse.EXCLUSIVE or authenticates_connection(headers)
        )
        # A late body after a response that has none (RFC 9112 6.3) would become the response to the next request.
        is_bodiless = self._request.method == "HEAD" or message.code in _BODILESS
        self._is_reusable = not (self._request.is_upgrade or is_private or is_bodiless)
        return message.code, headers

    def take_over(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection to a protocol after a 101, and return it with the bytes already received.

        `close` still closes the connection. Raises UpstreamError if it is already closed.
        """
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise UpstreamError("the upstream closed the connection during the handshake")
        set_read_size(transport, MAX_READ_BYTES)
        transport.set_protocol(protocol)
        transport.resume_reading()
        self._is_taken_over = True
        if self._request.statistics is not None:  # the new protocol counts these
            self._request.statistics.upstream_bytes_received -= len(self._protocol._tail)
        return transport, self._protocol._tail

    async def read(self) -> tuple[bytes, bool]:
        """Return the received part of the response body, and whether more follows.

        Raises UpstreamError if the connection closed before the end of the body, once all received bytes have been returned.
        """
        self._protocol.adapt_read_size()
        try:
            chunk = await self._payload.readany()
        except CONNECTION_ERRORS as error:
            if not self._payload._buffer:
                raise UpstreamError("the upstream closed the connection during its response") from error
            chunk = self._payload._read_nowait(-1)  # aiohttp (3.14) would discard it
        self._protocol.on_delivered(len(chunk))
        return chunk, not self._payload.at_eof()

    def close(self) -> None:
        """Return the connection to the pool if both messages are complete; else close it, so that the upstream stops."""
        if self._request_ended and self._is_reusable and self._payload.at_eof():
            self._protocol.finish_request()
            self._idle.release(self._request.upstream.connection_key, self._connection)
        else:
            transport = self._protocol.transport
            if transport is not None and not self._is_taken_over and transport.get_write_buffer_size():
                transport.abort()  # an upstream that reads nothing would keep a closed connection forever
            self._connection.close()
            if self._is_taken_over:  # only the new protocol gets connection_lost
                self._protocol.mark_closed()

    def _write(self, data: bytes) -> None:
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise UpstreamError("the upstream has closed the connection")
        if self._request.statistics is not None:
            self._request.statistics.upstream_bytes_sent += len(data)
        transport.write(data)
