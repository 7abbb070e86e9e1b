"""HTTP under a third-party ASGI server: requests and responses are validated as strictly as by gate's listener."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from foundation.telemetry.http_metrics import CLIENT_CLOSED
from foundation.web.asgi_types import Application, AsgiMessage, Receive, Send, respond
from proxy.forwarding.http_forwarding import ABORT_MESSAGE
from proxy.listener.http1.rejection_log import log_listener_rejection
from proxy.listener.http1.request_head import RequestRejected
from proxy.listener.http1.response_head import ResponseHead
from proxy.listener.listener_context import OnRequestComplete
from proxy.third_party_asgi.strict_scope import strict_scope

# Seconds until the first message of a body of undeclared length (HTTP/2).
FIRST_BODY_TIMEOUT = 30.0
# Headers of the connection, which the server manages.
_CONNECTION_HEADERS = frozenset({b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})


async def serve_http(
    application: Application, scope: Mapping[str, Any], receive: Receive, send: Send, on_request_complete: OnRequestComplete
) -> None:
    """Handle one request with `application`, and call `on_request_complete`."""
    started_at = time.monotonic()
    try:
        strict = strict_scope(scope)
    except RequestRejected as rejection:
        log_listener_rejection(rejection, scope.get("client"))
        on_request_complete(b"", b"", rejection.status, 0.0, 0, 0)
        await send_rejection(rejection, send)
        return
    request = _CountingReceive(receive)
    response = _ValidatingSend(strict["method"].encode(), str(scope.get("http_version") or "1.1"), send)
    try:
        if not str(scope.get("http_version") or "1.1").startswith("1") and not _has_length(strict) and await request.has_body():
            strict["headers"].append((b"transfer-encoding", b"chunked"))
        await application(strict, request.receive, response.send)
    except TimeoutError:
        await send_rejection(RequestRejected(408, "The request body took too long."), response.send)
    finally:
        host = next((value for name, value in strict["headers"] if name == b"host"), b"")
        seconds = time.monotonic() - started_at
        on_request_complete(host, strict["method"].encode(), response.status or CLIENT_CLOSED, seconds, request.received, response.sent)


class _CountingReceive:
    """`receive` of the server that counts body bytes."""

    def __init__(self, receive: Receive):
        self.received = 0
        self._receive = receive
        self._first: AsgiMessage | None = None

    async def has_body(self) -> bool:
        """Return whether a request without framing headers has a body, by its first message. Raises TimeoutError."""
        async with asyncio.timeout(FIRST_BODY_TIMEOUT):
            self._first = await self._receive()
        return bool(self._first.get("body") or self._first.get("more_body"))

    async def receive(self) -> AsgiMessage:
        message, self._first = self._first, None
        message = message or await self._receive()
        self.received += len(message.get("body", b""))
        return message


class _ValidatingSend:
    """`send` of the server that validates the response.

    An aborted response is left incomplete, because ASGI has no other way to report it.
    """

    def __init__(self, method: bytes, version: str, send: Send):
        self.status = self.sent = 0
        self._method = method
        self._allows_connection_header = version.startswith("1")
        self._send = send
        self._is_aborted = False

    async def send(self, message: AsgiMessage) -> None:
        if message == ABORT_MESSAGE:
            self._is_aborted = True
        if self._is_aborted:
            return
        if message["type"] == "http.response.start":
            head = ResponseHead(self._method, message["status"], message["headers"])  # raises ValueError for values with line breaks
            headers = [pair for pair in message["headers"] if self._is_allowed(pair[0].lower())]
            message, self.status = {**message, "headers": headers}, head.status
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)

    def _is_allowed(self, name: bytes) -> bool:
        return name not in _CONNECTION_HEADERS and (self._allows_connection_header or name != b"connection")


def _has_length(strict: Mapping[str, Any]) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in strict["headers"])


async def send_rejection(rejection: RequestRejected, send: Send) -> None:
    """Send the response that gate's listener sends for a rejected request."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
        *([(b"x-request-id", rejection.request_id.encode())] if rejection.request_id else []),
    ]
    await respond(send, rejection.status, headers, rejection.body)
