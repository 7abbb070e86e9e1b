"""HTTP of an ASGI server that is not ours: its scope read strictly, its answers checked as our listener checks them."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from foundation.telemetry.http_metrics import CLIENT_CLOSED
from foundation.web.asgi_types import Application, AsgiMessage, Receive, Send, respond
from proxy.forwarding.http_forwarding import ABORT
from proxy.listener.http1.rejection_log import record_rejection
from proxy.listener.http1.request_head import RequestRejected
from proxy.listener.http1.response_head import ResponseHead
from proxy.listener.listener_context import OnRequestComplete
from proxy.third_party_asgi.strict_scope import strict_scope

# How long the first word of a body may take whose length nobody has said (HTTP/2).
FIRST_SECONDS = 30.0
# They belong to a connection, and the connection is the server's.
_OF_THE_CONNECTION = frozenset({b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})


async def serve_http(application: Application, scope: Mapping[str, Any], receive: Receive, send: Send, ended: OnRequestComplete) -> None:
    """Answer one request by our application; `ended` is told of it."""
    began = time.monotonic()
    try:
        strict = strict_scope(scope)
    except RequestRejected as refused:
        record_rejection(refused, scope.get("client"))
        ended(b"", b"", refused.status, 0.0, 0, 0)
        await send_rejection(refused, send)
        return
    request = _ReadRequest(receive)
    answer = _CheckedAnswer(strict["method"].encode(), str(scope.get("http_version") or "1.1"), send)
    try:
        if not str(scope.get("http_version") or "1.1").startswith("1") and not _has_length(strict) and await request.has_body():
            strict["headers"].append((b"transfer-encoding", b"chunked"))
        await application(strict, request.receive, answer.send)
    except TimeoutError:
        await send_rejection(RequestRejected(408, "The request body took too long."), answer.send)
    finally:
        host = next((value for name, value in strict["headers"] if name == b"host"), b"")
        seconds = time.monotonic() - began
        ended(host, strict["method"].encode(), answer.status or CLIENT_CLOSED, seconds, request.received, answer.sent)


class _ReadRequest:
    """Request body as the server gives it, counted."""

    def __init__(self, receive: Receive):
        self.received = 0
        self._receive = receive
        self._first: AsgiMessage | None = None

    async def has_body(self) -> bool:
        """Whether there is one, where no header says so: what comes first says it."""
        async with asyncio.timeout(FIRST_SECONDS):
            self._first = await self._receive()
        return bool(self._first.get("body") or self._first.get("more_body"))

    async def receive(self) -> AsgiMessage:
        message, self._first = self._first, None
        message = message or await self._receive()
        self.received += len(message.get("body", b""))
        return message


class _CheckedAnswer:
    """Answer on its way to the server.  A response that breaks off is not ended: that is all that ASGI lets us say of it."""

    def __init__(self, method: bytes, version: str, send: Send):
        self.status = self.sent = 0
        self._method = method
        self._has_connections = version.startswith("1")
        self._send = send
        self._is_cut = False

    async def send(self, message: AsgiMessage) -> None:
        if message == ABORT:
            self._is_cut = True
        if self._is_cut:
            return
        if message["type"] == "http.response.start":
            head = ResponseHead(self._method, message["status"], message["headers"])  # ValueError for what is more lines than it is
            headers = [pair for pair in message["headers"] if self._may_be_said(pair[0].lower())]
            message, self.status = {**message, "headers": headers}, head.status
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)

    def _may_be_said(self, name: bytes) -> bool:
        return name not in _OF_THE_CONNECTION and (self._has_connections or name != b"connection")


def _has_length(strict: Mapping[str, Any]) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in strict["headers"])


async def send_rejection(refused: RequestRejected, send: Send) -> None:
    """Refusal as our listener would say it."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"connection", b"close"),
        *([(b"x-request-id", refused.request_id.encode())] if refused.request_id else []),
    ]
    await respond(send, refused.status, headers, refused.body)
