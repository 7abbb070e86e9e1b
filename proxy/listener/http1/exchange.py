"""HTTP/1.1 exchange: one request and its answer, what the ASGI application sees, and what it may say.

Besides ASGI's own messages, `{"type": "gate.response.abort"}` ends the connection without ending the body, so that the
client sees a broken answer as broken.  Raising after the answer has begun, and stopping before its end, do the same.
A handshake, or CONNECT, offers the extension "gate.tunnel": its `take_over` answers 101, or 200, and gives the connection away;
`half_closes` says whether the client may end its direction before the upstream does.
`send()` waits while the client does not read, and raises `ClientGone` once it has left.
"""

import asyncio
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import structlog

from foundation.telemetry.http_metrics import CLIENT_CLOSED
from foundation.web.asgi_types import AsgiMessage, Header
from proxy.listener.http1.request_head import RequestHead, RequestRejected
from proxy.listener.http1.response_head import CONTINUE, LAST_CHUNK, ResponseHead, connect_response, switching_protocols
from proxy.listener.listener_context import TunnelProtocol
from proxy.listener.tls.server_certificates import tls_info
from proxy.listener.tunnel_transport import TunnelTransport

if TYPE_CHECKING:
    from proxy.listener.http1.http1_channel import Channel

log = structlog.get_logger(__name__)

ABORT = "gate.response.abort"
TUNNEL_EXTENSION = "gate.tunnel"
TLS_EXTENSION = "gate.tls"  # the extension that says what `tls_facts` does
_ASGI = {"version": "3.0", "spec_version": "2.4"}


class ClientGone(ConnectionError):
    """Disconnect: the client closed the connection before it had the whole answer."""


class Exchange:
    """ASGI exchange.  `is_started`: the response head is written; `is_answered`: all of the response is."""

    __slots__ = (
        "_began", "_channel", "_chunks", "_grace", "_is_complete", "_is_delivered", "_is_lost", "_is_tunnel", "_late", "_loop", "_readers",
        "_received", "_response", "_sent", "_status", "_task", "_writers", "buffered", "head", "is_answered",
    )  # fmt: skip

    def __init__(self, channel: "Channel", head: RequestHead):
        self.head = head
        self.buffered = 0
        self.is_answered = False
        self._channel = channel
        self._loop = channel.loop
        self._began = channel.loop.time()
        self._received = self._status = 0
        self._chunks: list[bytes] = []
        self._is_complete = False
        self._is_delivered = False
        self._is_lost = False
        self._is_tunnel = False
        self._response: ResponseHead | None = None
        self._sent = 0
        self._readers: list[asyncio.Future[None]] = []
        self._writers: list[asyncio.Future[None]] = []
        self._grace: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_started(self) -> bool:
        return self._response is not None or self._is_tunnel

    # What the channel says.

    def start(self) -> None:
        context = self._channel.context
        if (most := context.get_state().limits.write_timeout) != math.inf:
            self._late = self._loop.call_later(most, self._too_late)
        # They hold it, and its task, until it has ended; what fails is told by `_run`.
        context.exchanges.add(self)
        self._task = self._loop.create_task(self._run(), name="request")

    def take(self, content: bytes, *, is_complete: bool) -> None:
        if content:
            self._chunks.append(content)
            self.buffered += len(content)
            self._received += len(content)
        self._is_complete = is_complete
        _wake(self._readers)

    def lose(self) -> None:
        """Disconnect: the connection is gone or going, the application gets `http.disconnect`, and then a bounded time."""
        if self._is_lost:
            return
        self._is_lost = True
        self._chunks.clear()
        _wake(self._readers)
        _wake(self._writers)
        if self._task is not None and not self._task.done():
            self._grace = self._loop.call_later(self._channel.context.grace_seconds, self._task.cancel)

    def record_rejection(self, status: int) -> None:
        """Note that the listener answers in the application's place."""
        self._status = status

    def cancel(self) -> None:
        """Cancel the application: the listener stops, and has waited long enough."""
        if not self.is_answered and not self._is_lost:
            self._channel.refuse(RequestRejected(503, "The server is stopping."))
        if self._task is not None:
            self._task.cancel()

    # What the application says.

    async def receive(self) -> AsgiMessage:
        while True:
            if self._is_lost or self.is_answered:
                return {"type": "http.disconnect"}
            if self._chunks or (self._is_complete and not self._is_delivered):
                return self._body_message()
            if not self._is_complete:
                self._channel.wait_for_body(self)
            await self._wait_in(self._readers)

    async def send(self, message: AsgiMessage) -> None:
        if self._is_lost:
            raise ClientGone("the client has gone")
        kind = message["type"]
        if kind == ABORT:
            self._channel.close()
            return
        if self.is_answered:
            raise RuntimeError(f"{kind} after the end of the response")
        if kind == "http.response.body":
            self._send_body(message.get("body", b""), is_last=not message.get("more_body", False))
        elif kind == "http.response.start":
            self._send_head(ResponseHead(self.head.method, message["status"], message.get("headers", ())))
        else:
            raise ValueError(f"unknown message type {kind!r}")
        while self._channel.is_write_paused and not self.is_answered:
            await self._wait_in(self._writers)
            if self._is_lost:
                raise ClientGone("the client has gone")

    def take_over(
        self, headers: Iterable[Header], protocol: TunnelProtocol, upgrade: bytes = b"websocket"
    ) -> tuple[TunnelTransport, bytes]:
        """Answer 101, or CONNECT with 200; returns the connection, used like an asyncio transport, and what the client sent ahead.

        The connection ends with the application at the latest.  Raises ValueError for malformed headers, with nothing written.
        """
        if self._is_lost:
            raise ClientGone("the client has gone")
        if self.is_started:
            raise RuntimeError("the response has begun already")
        is_connect = self.head.method == b"CONNECT"
        self._channel.write(connect_response(headers) if is_connect else switching_protocols(headers, upgrade))
        self._is_tunnel = self.is_answered = True
        self._tell(200 if is_connect else 101)
        if self._late is not None:
            self._late.cancel()
        return self._channel.begin_tunnel(protocol)

    def writable(self) -> None:
        _wake(self._writers)

    async def _run(self) -> None:
        try:
            await self._channel.context.application(self._scope(), self.receive, self.send)
            if not self.is_answered and not self._is_lost:
                log.error("application returned an incomplete response", path=self.head.raw_path.decode())
        except Exception as error:  # the ASGI edge
            if not self._is_lost:
                log.error("application failed", path=self.head.raw_path.decode(), exc_info=error)
        finally:
            self._end()

    def _end(self) -> None:
        self._channel.context.exchanges.discard(self)
        if self._is_tunnel:
            self._channel.close()
        elif not self.is_answered and not self._is_lost:
            self._channel.refuse(RequestRejected(500, "The request could not be handled."))
        if not self._is_tunnel:
            self._tell(self._status or CLIENT_CLOSED)
        if self._late is not None:
            self._late.cancel()
        if self._grace is not None:
            self._grace.cancel()

    def _tell(self, status: int) -> None:
        head = self.head
        self._channel.context.on_request_complete(
            head.host, head.method, status, self._loop.time() - self._began, self._received, self._sent
        )

    def _too_late(self) -> None:
        if not self.is_answered and not self._is_lost:
            self._channel.refuse(RequestRejected(503, "The answer took too long."))

    def _body_message(self) -> AsgiMessage:
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self.buffered = 0
        self._is_delivered = self._is_complete
        if not self._is_complete:
            self._channel.resume_reading()
        return {"type": "http.request", "body": body, "more_body": not self._is_complete}

    def _send_head(self, response: ResponseHead) -> None:
        if self._response is not None:
            raise RuntimeError("the response has begun already")
        self._response = response
        self._status = response.status
        close = self._channel.closes_after(self.head, response)
        self._channel.write(response.to_bytes(close=close))

    def _send_body(self, data: bytes, *, is_last: bool) -> None:
        response = self._response
        if response is None:
            raise RuntimeError("a response body before its head")
        self._sent += len(data) if response.has_body else 0
        if not response.has_body:
            pass
        elif response.content_length is None:
            if data:
                self._channel.transport.writeSequence((b"%x\r\n" % len(data), data, b"\r\n"))
            if is_last:
                self._channel.write(LAST_CHUNK)
        else:
            if self._sent > response.content_length or (is_last and self._sent < response.content_length):
                raise RuntimeError("the response body is not as long as its Content-Length")
            if data:
                self._channel.write(data)
        if is_last:
            self.is_answered = True
            _wake(self._readers)
            self._channel.answered()

    def send_continue(self) -> None:
        if self.head.expects_continue and not self.is_started:
            self._channel.write(CONTINUE)
        self.head.expects_continue = False

    async def _wait_in(self, waiters: list[asyncio.Future[None]]) -> None:
        waiter = self._loop.create_future()
        waiters.append(waiter)
        try:
            await waiter
        finally:
            waiters.remove(waiter)
            if not self._readers:
                self._channel.body_unwanted(self)

    def _scope(self) -> dict[str, Any]:
        head, channel = self.head, self._channel
        path = head.raw_path.decode()
        extensions: dict[str, Any] = {ABORT: {}}
        if channel.scheme == "https":
            extensions[TLS_EXTENSION] = tls_info(channel.transport.getHandle())
        if head.ends_http:
            extensions[TUNNEL_EXTENSION] = {"take_over": self.take_over, "half_closes": True}
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": "1.1",
            "method": head.method.decode(),
            "scheme": channel.scheme,
            "path": path if "%" not in path else unquote(path),
            "raw_path": head.raw_path,
            "query_string": head.query_string,
            "root_path": "",
            "headers": head.headers,
            "client": channel.client,
            "server": channel.server,
            "extensions": extensions,
        }
        if head.has_empty_query:
            # ASGI can't say it, and some applications tell `/a?` from `/a`.
            scope["gate.bare_query"] = True
        if head.ignored_header_names:
            # They go no further through us; a front proxy that only asks us may still forward them.
            scope["gate.ignored_headers"] = head.ignored_header_names
        return scope


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
