"""HTTP/1.1 exchange: one request and its response, with the ASGI application's `receive` and `send`.

In addition to ASGI's messages, `{"type": "gate.response.abort"}` closes the connection without completing the body, so that the
client can detect an incomplete response. An application that raises or returns before the end of its response has the same effect.
A handshake and CONNECT have the extension "gate.tunnel". Its `take_over` responds with 101 or 200 and hands the connection over;
`half_closes` is true if the client can close its direction before the upstream does.
`send()` waits while the client does not read, and raises `ClientGone` after it has disconnected.
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

ABORT_EXTENSION = "gate.response.abort"  # also the type of its message, as for extensions of ASGI
TUNNEL_EXTENSION = "gate.tunnel"
TLS_EXTENSION = "gate.tls"  # extension with the result of `tls_info`
_ASGI = {"version": "3.0", "spec_version": "2.4"}


def is_from_gate_listener(scope: dict[str, Any]) -> bool:
    """Return whether gate's own listener made this scope.  Only its requests were parsed strictly."""
    return ABORT_EXTENSION in (scope.get("extensions") or ())


class ClientGone(ConnectionError):
    """The client disconnected before it had received the complete response."""


class Exchange:
    """One ASGI request and response. `is_started`: the response head is written. `is_response_complete`: all of the response is written."""

    __slots__ = (
        "_channel",
        "_chunks",
        "_grace_timer",
        "_is_body_complete",
        "_is_body_delivered",
        "_is_disconnected",
        "_is_tunnel",
        "_loop",
        "_readers",
        "_received",
        "_response",
        "_sent",
        "_started_at",
        "_status",
        "_task",
        "_write_timer",
        "_writers",
        "buffered",
        "head",
        "is_response_complete",
    )  # fmt: skip

    def __init__(self, channel: "Channel", head: RequestHead):
        self.head = head
        self.buffered = 0
        self.is_response_complete = False
        self._channel = channel
        self._loop = channel.loop
        self._started_at = channel.loop.time()
        self._received = self._status = 0
        self._chunks: list[bytes] = []
        self._is_body_complete = False
        self._is_body_delivered = False
        self._is_disconnected = False
        self._is_tunnel = False
        self._response: ResponseHead | None = None
        self._sent = 0
        self._readers: list[asyncio.Future[None]] = []
        self._writers: list[asyncio.Future[None]] = []
        self._grace_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_started(self) -> bool:
        return self._response is not None or self._is_tunnel

    # Called by the channel.

    def start(self) -> None:
        context = self._channel.context
        if (timeout := context.get_settings().limits.write_timeout) != math.inf:
            self._write_timer = self._loop.call_later(timeout, self._on_write_timeout)
        # The set keeps the exchange and its task alive until it is complete; `_run` logs failures.
        context.exchanges.add(self)
        self._task = self._loop.create_task(self._run(), name="request")

    def feed(self, content: bytes, *, is_complete: bool) -> None:
        if content:
            self._chunks.append(content)
            self.buffered += len(content)
            self._received += len(content)
        self._is_body_complete = is_complete
        _wake(self._readers)

    def disconnect(self) -> None:
        """Send the application `http.disconnect`, and cancel it after a grace period."""
        if self._is_disconnected:
            return
        self._is_disconnected = True
        self._chunks.clear()
        _wake(self._readers)
        _wake(self._writers)
        if self._task is not None and not self._task.done():
            self._grace_timer = self._loop.call_later(self._channel.context.grace_seconds, self._task.cancel)

    def set_final_status(self, status: int) -> None:
        """Record the status of a response that the listener sends in the application's place."""
        self._status = status

    def cancel(self) -> None:
        """Cancel the application when the listener's drain time has elapsed."""
        if not self.is_response_complete and not self._is_disconnected:
            self._channel.reject(RequestRejected(503, "The server is stopping."))
        if self._task is not None:
            self._task.cancel()

    # Called by the application.

    async def receive(self) -> AsgiMessage:
        while True:
            if self._is_disconnected or self.is_response_complete:
                return {"type": "http.disconnect"}
            if self._chunks or (self._is_body_complete and not self._is_body_delivered):
                return self._body_message()
            if not self._is_body_complete:
                self._channel.wait_for_body(self)
            await self._wait(self._readers)

    async def send(self, message: AsgiMessage) -> None:
        if self._is_disconnected:
            raise ClientGone("the client has gone")
        kind = message["type"]
        if kind == ABORT_EXTENSION:
            self._channel.close()
            return
        if self.is_response_complete:
            raise RuntimeError(f"{kind} after the end of the response")
        if kind == "http.response.body":
            self._send_body(message.get("body", b""), is_last=not message.get("more_body", False))
        elif kind == "http.response.start":
            self._send_head(ResponseHead(self.head.method, message["status"], message.get("headers", ())))
        else:
            raise ValueError(f"unknown message type {kind!r}")
        while self._channel.is_write_paused and not self.is_response_complete:
            await self._wait(self._writers)
            if self._is_disconnected:
                raise ClientGone("the client has gone")

    def take_over(
        self, headers: Iterable[Header], protocol: TunnelProtocol, upgrade: bytes = b"websocket"
    ) -> tuple[TunnelTransport, bytes]:
        """Respond with 101, or 200 to CONNECT. Return an asyncio-like transport and the bytes that the client sent ahead.

        The connection closes with the application at the latest. Raises ValueError for malformed headers, with nothing written.
        """
        if self._is_disconnected:
            raise ClientGone("the client has gone")
        if self.is_started:
            raise RuntimeError("the response has begun already")
        is_connect = self.head.method == b"CONNECT"
        self._channel.write(connect_response(headers) if is_connect else switching_protocols(headers, upgrade))
        self._is_tunnel = self.is_response_complete = True
        self._report_completion(200 if is_connect else 101)
        if self._write_timer is not None:
            self._write_timer.cancel()
        return self._channel.start_tunnel(protocol)

    def on_writable(self) -> None:
        _wake(self._writers)

    async def _run(self) -> None:
        try:
            await self._channel.context.application(self._scope(), self.receive, self.send)
            if not self.is_response_complete and not self._is_disconnected:
                log.error("application returned an incomplete response", path=self.head.raw_path.decode())
        except Exception as error:  # the ASGI edge
            if not self._is_disconnected:
                log.error("application failed", path=self.head.raw_path.decode(), exc_info=error)
        finally:
            self._end()

    def _end(self) -> None:
        self._channel.context.exchanges.discard(self)
        if self._is_tunnel:
            self._channel.close()
        elif not self.is_response_complete and not self._is_disconnected:
            self._channel.reject(RequestRejected(500, "The request could not be handled."))
        if not self._is_tunnel:
            self._report_completion(self._status or CLIENT_CLOSED)
        if self._write_timer is not None:
            self._write_timer.cancel()
        if self._grace_timer is not None:
            self._grace_timer.cancel()

    def _report_completion(self, status: int) -> None:
        head = self.head
        self._channel.context.on_request_complete(
            head.host, head.method, status, self._loop.time() - self._started_at, self._received, self._sent
        )

    def _on_write_timeout(self) -> None:
        if not self.is_response_complete and not self._is_disconnected:
            self._channel.reject(RequestRejected(503, "The answer took too long."))

    def _body_message(self) -> AsgiMessage:
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self.buffered = 0
        self._is_body_delivered = self._is_body_complete
        if not self._is_body_complete:
            self._channel.resume_reading()
        return {"type": "http.request", "body": body, "more_body": not self._is_body_complete}

    def _send_head(self, response: ResponseHead) -> None:
        if self._response is not None:
            raise RuntimeError("the response has begun already")
        self._response = response
        self._status = response.status
        close = self._channel.should_close(self.head, response)
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
            self.is_response_complete = True
            _wake(self._readers)
            self._channel.on_response_complete()

    def send_continue(self) -> None:
        if self.head.expects_continue and not self.is_started:
            self._channel.write(CONTINUE)
        self.head.expects_continue = False

    async def _wait(self, waiters: list[asyncio.Future[None]]) -> None:
        waiter = self._loop.create_future()
        waiters.append(waiter)
        try:
            await waiter
        finally:
            waiters.remove(waiter)
            if not self._readers:
                self._channel.pause_body_timer(self)

    def _scope(self) -> dict[str, Any]:
        head, channel = self.head, self._channel
        path = head.raw_path.decode()
        extensions: dict[str, Any] = {ABORT_EXTENSION: {}}
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
            # ASGI cannot express it, and some applications distinguish `/a?` from `/a`.
            scope["gate.bare_query"] = True
        if head.ignored_header_names:
            # gate does not forward them, but a front proxy that uses forward auth may.
            scope["gate.ignored_headers"] = head.ignored_header_names
        return scope


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
