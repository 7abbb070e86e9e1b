"""Upstream client: one request to one upstream, streaming both ways.  With connection.py the only user of aiohttp.

aiohttp's connector (pool, TLS, happy eyeballs) and its response parser are used directly, without ClientSession: that repeats
requests by itself after a drop, normalises the target, and costs more than the rest of the forwarding together (measured on 3.14).
"""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_writer import StreamWriter
from aiohttp.streams import EMPTY_PAYLOAD, EofStream

from foundation.connection_errors import ConnectFailure, classify_failure
from foundation.errors import UpstreamError
from foundation.web.asgi_types import Header
from proxy.rewriting.connection_auth import ConnectionUse, authenticates_connection
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream, request_head
from proxy.upstreams.upstream_connection import INITIAL_BUFFER_BYTES, MAX_READ_BYTES, UpstreamConnection, set_read_size
from proxy.upstreams.upstream_errors import UpstreamErrors, bad_status

CONNECT_TIMEOUT = 10.0  # seconds
# Node and uvicorn close idle connections after 5 s; a request sent at that very moment would be lost.
KEEPALIVE_TIMEOUT = 4.0  # seconds
MAX_RESPONSE_HEADERS = 64 * 1024  # bytes, all together
MAX_RESPONSE_HEADER_COUNT = 512
MAX_INTERIM_RESPONSES = 16  # 100 Continue, 102 Processing, 103 Early Hints: no application needs more before it answers

FAMILIES = {"AUTO": socket.AF_UNSPEC, "V4_ONLY": socket.AF_INET, "V6_ONLY": socket.AF_INET6}
_BODILESS = (204, 304)
_CONNECTION_ERRORS = (aiohttp.ClientError, HttpProcessingError, EofStream, OSError, ValueError)


class StaleConnection(UpstreamError):
    """Error of an idle connection that was closed before a byte of the answer came: the upstream may never have seen the request."""


class UpstreamClient:
    """Client with the connections to all upstreams.  Pools are kept apart by address, TLS rules and server name."""

    def __init__(self) -> None:
        self.family = socket.AF_UNSPEC
        self._connector: aiohttp.TCPConnector | None = None
        self._idle = IdleConnections()
        self._timeout = aiohttp.ClientTimeout(connect=CONNECT_TIMEOUT)
        self.upstream_errors = UpstreamErrors()

    def reconfigure(self, dns_lookup_family: str) -> None:
        """Switch to other settings, from the next connection on."""
        self.family = FAMILIES[dns_lookup_family]
        if self._connector is not None:
            self._connector._family = self.family
            self._connector.clear_dns_cache()

    async def open(self, request: OutgoingRequest, *, force_new: bool = False) -> "UpstreamExchange":
        """Exchange with its head sent, on a connection that is new if `is_fresh`.  Raises UpstreamError.

        An upgrade has a new one, too: it keeps it anyway, and where one that was idle is lost it could not ask again.  So has a request
        that may authenticate its connection.
        """
        force_new = force_new or request.is_upgrade or request.connection_use is ConnectionUse.EXCLUSIVE
        while True:
            head = request_head(request)
            try:
                connection = None if force_new else self._idle.acquire(request.upstream.connection_key)
                if connection is None:
                    connection = await self._connect(request.upstream)
                exchange = UpstreamExchange(connection, request, self.upstream_errors, self._idle)
            except _CONNECTION_ERRORS as error:
                endpoint, failure = request.upstream.endpoint, classify_failure(error)
                if request.statistics is not None:
                    request.statistics.connect_failures += 1
                # Where we lack a descriptor no other upstream could be asked either.
                selection = None if failure is ConnectFailure.FD_EXHAUSTED else request.selection
                if selection is None or not selection.retry_next_member(request):
                    # In no variable: its traceback leads here, and a circle that a reload freezes would keep a whole configuration.
                    raise self.upstream_errors.connect_error(endpoint, error) from error
                self.upstream_errors.connect_error(endpoint, error)
                if request.statistics is not None:
                    request.statistics.retries += 1
            else:
                exchange.send_head(head)
                return exchange

    async def _connect(self, upstream: Upstream) -> Connection:
        if self._connector is None:  # needs the running loop
            self._connector = aiohttp.TCPConnector(limit=0, family=self.family)
            factory = partial(UpstreamConnection, asyncio.get_running_loop())
            self._connector._factory = cast("partial[ResponseHandler]", factory)
        return await self._connector.connect(cast(aiohttp.ClientRequest, upstream), [], self._timeout)

    async def close(self) -> None:
        self._idle.close()
        if self._connector is not None:
            await self._connector.close()
            self._connector = None


class IdleConnections:
    """Pool of connections that wait for a request, by upstream; the one that waits longest is used first.

    (aiohttp's own takes several times as long, and hands out connections on which unasked bytes have arrived.)
    """

    def __init__(self) -> None:
        self._waiting: dict[ConnectionKey, deque[tuple[Connection, float]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<IdleConnections {sum(map(len, self._waiting.values()))} of {len(self._waiting)} upstreams>"

    def acquire(self, key: ConnectionKey) -> Connection | None:
        """Connection that can be used, None where none waits."""
        waiting, now = self._waiting.get(key), time.monotonic()
        while waiting:
            connection, released_at = waiting.popleft()
            is_usable = now - released_at <= KEEPALIVE_TIMEOUT and not connection.closed
            if is_usable and not cast(UpstreamConnection, connection.protocol).should_close:
                return connection
            connection.close()
        return None

    def release(self, key: ConnectionKey, connection: Connection) -> None:
        self._waiting.setdefault(key, deque()).append((connection, time.monotonic()))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_TIMEOUT, self._close_expired)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiting in self._waiting.values():
            for connection, _ in waiting:
                connection.close()
        self._waiting.clear()

    def _close_expired(self) -> None:
        cutoff = time.monotonic() - KEEPALIVE_TIMEOUT
        for key, waiting in list(self._waiting.items()):
            while waiting and (waiting[0][1] <= cutoff or waiting[0][0].closed):
                waiting.popleft()[0].close()
            if not waiting:
                del self._waiting[key]
        self._timer = asyncio.get_running_loop().call_later(KEEPALIVE_TIMEOUT / 4, self._close_expired) if self._waiting else None


class UpstreamExchange:
    """Exchange with an upstream: one request on its way over one connection, and its response."""

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
        if is_for_head or not self._protocol.requests:  # else the parser of the request before is used again
            self._protocol.set_response_params(
                skip_payload=is_for_head,
                read_until_eof=True,
                auto_decompress=False,
                read_bufsize=INITIAL_BUFFER_BYTES // 2,  # it stops at twice as much
                max_line_size=MAX_RESPONSE_HEADERS,
                max_field_size=MAX_RESPONSE_HEADERS,
                max_headers=MAX_RESPONSE_HEADER_COUNT,
            )
        self._protocol.start_request(self._request.statistics)
        self._protocol.start_response()
        self._write(head)

    def write(self, chunk: bytes) -> None:
        """Send part of the request body.  Raises UpstreamError when the upstream has closed, or the body is longer than announced."""
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
        """End the request body.  Raises UpstreamError when it was shorter than announced: the connection can't be used any more."""
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
        except _CONNECTION_ERRORS as error:
            raise UpstreamError("the upstream closed the connection while the request was sent") from error

    async def response(self) -> tuple[int, Sequence[Header]]:
        """Status, and headers as they came.  Interim responses are skipped (RFC 9110 15.2) but for a 101 that was asked for."""
        for _ in range(MAX_INTERIM_RESPONSES + 1):
            try:
                message, payload = await self._protocol.read()
            except _CONNECTION_ERRORS as error:
                is_stale = self._protocol.requests > 1 and not self._protocol.received_any
                raise self._errors.response_error(
                    self._request.upstream.endpoint, error, StaleConnection if is_stale else UpstreamError
                ) from error
            if 200 <= message.code <= 599:
                break
            if problem := bad_status(message.code, is_upgrade=self._request.is_upgrade):
                raise self._errors.protocol_error(self._request.upstream.endpoint, problem)
            if message.code == 101:
                break
        else:
            raise self._errors.protocol_error(self._request.upstream.endpoint, f"sent more than {MAX_INTERIM_RESPONSES} interim responses")
        headers = message.raw_headers
        if sum(map(len, map(b"".join, headers))) > MAX_RESPONSE_HEADERS:
            raise self._errors.protocol_error(self._request.upstream.endpoint, "sent more than 64 KiB of headers")
        if self._errors.has_any:
            self._errors.record_success(self._request.upstream.endpoint)
        self._payload = payload
        # An upstream may believe in an upgrade that it did not confirm, or take all that comes on a connection for one user's.
        use = self._request.connection_use
        is_private = (use or message.code == 401) and (use is ConnectionUse.EXCLUSIVE or authenticates_connection(headers))
        # A body where there is none (RFC 9112 6.3), sent late, would be the answer to the next request.
        is_bodiless = self._request.method == "HEAD" or message.code in _BODILESS
        self._is_reusable = not (self._request.is_upgrade or is_private or is_bodiless)
        return message.code, headers

    def take_over(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection to a protocol after a 101: its bytes are the protocol's from now on; returns those that have come already.

        Raises UpstreamError where the connection is gone.  `close` ends it still.
        """
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise UpstreamError("the upstream closed the connection during the handshake")
        set_read_size(transport, MAX_READ_BYTES)
        transport.set_protocol(protocol)
        transport.resume_reading()
        self._is_taken_over = True
        if self._request.statistics is not None:  # who takes over counts these
            self._request.statistics.received_bytes -= len(self._protocol._tail)
        return transport, self._protocol._tail

    async def read(self) -> tuple[bytes, bool]:
        """Body that has arrived, and whether there is more.  Raises UpstreamError when it broke off before its end, and all that came
        before was read."""
        self._protocol.on_read_wanted()
        try:
            chunk = await self._payload.readany()
        except _CONNECTION_ERRORS as error:
            if not self._payload._buffer:
                raise UpstreamError("the upstream closed the connection during its response") from error
            chunk = self._payload._read_nowait(-1)  # aiohttp (3.14) would forget it
        self._protocol.on_delivered(len(chunk))
        return chunk, not self._payload.at_eof()

    def close(self) -> None:
        """Close, which tells the upstream to stop; where both messages have ended, give the connection back to the pool instead."""
        if self._request_ended and self._is_reusable and self._payload.at_eof():
            self._protocol.finish_request()
            self._idle.release(self._request.upstream.connection_key, self._connection)
        else:
            transport = self._protocol.transport
            if transport is not None and not self._is_taken_over and transport.get_write_buffer_size():
                transport.abort()  # who hangs would keep the connection, closed as it is, until all was sent: for ever
            self._connection.close()
            if self._is_taken_over:  # the protocol that has it is told of its end
                self._protocol.mark_closed()

    def _write(self, data: bytes) -> None:
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise UpstreamError("the upstream has closed the connection")
        if self._request.statistics is not None:
            self._request.statistics.sent_bytes += len(data)
        transport.write(data)
