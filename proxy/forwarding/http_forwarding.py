"""HTTP forwarding: streams one request and its response between an ASGI client and an upstream."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from foundation.errors import AccessRevoked, UpstreamError
from foundation.tasks import spawn
from foundation.web.asgi_types import Header, Receive, Send
from proxy.forwarding.forward_result import ForwardResult, StreamHandle, TerminationReason
from proxy.upstreams.outgoing_request import OutgoingRequest
from proxy.upstreams.upstream_client import UpstreamClient
from proxy.upstreams.upstream_exchange import StaleConnection, UpstreamExchange

ResponseHeaderFilter = Callable[[Sequence[Header]], list[Header]]

# Most requests without a body are answered within this time, so they need no task that watches for a disconnect.
WATCH_DELAY = 0.05  # seconds

# Methods of requests that may be repeated (RFC 9110 9.2.2).
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})

SWITCHING_PROTOCOLS = 101
_CONTENT_TYPE_LENGTH = len(b"content-type")
ABORT_MESSAGE = {"type": "gate.response.abort"}


# Takes over both connections after a requested protocol switch, and returns when they are closed.
UpgradeHandler = Callable[[UpstreamExchange, Sequence[Header], StreamHandle, ForwardResult], Awaitable[None]]


async def forward(
    request: OutgoingRequest,
    upstream_client: UpstreamClient,
    receive: Receive,
    send: Send,
    filter_response_headers: ResponseHeaderFilter,
    handle: StreamHandle,
    on_upgrade: UpgradeHandler | None = None,
    disconnect_watches: "DisconnectWatches | None" = None,
) -> ForwardResult:
    """Forward one request and its response.

    Raises UpstreamError, UpstreamTimeout or AccessRevoked, all only before anything has been sent to the client; after that, the response
    is aborted instead.
    """
    result = ForwardResult()
    supervisor = ExchangeSupervisor(receive, request.timeout, disconnect_watches or DisconnectWatches())
    handle.revoke = supervisor.revoke
    try:
        if not request.has_body:
            supervisor.watch_disconnect_later()
        exchange, status, headers = await _send_request(request, upstream_client, supervisor)
        if status == SWITCHING_PROTOCOLS and on_upgrade is not None:
            supervisor.stop()
            await on_upgrade(exchange, headers, handle, result)
        else:
            if request.is_default_timeout and _is_event_stream(headers):
                supervisor.disable_timeout()
            await _stream_response(exchange, send, status, filter_response_headers(headers), result)
        return result
    except asyncio.CancelledError:
        result.termination = supervisor.cancellation_reason()
    except UpstreamError:
        if result.status is None:
            raise
        result.termination = TerminationReason.UPSTREAM_RESET
    except OSError:  # ASGI: `send` raises one if the client has disconnected
        result.termination = TerminationReason.CLIENT_DISCONNECTED
    finally:
        supervisor.stop()
        if supervisor.exchange is not None:
            supervisor.exchange.close()
    if result.status is None and result.termination is TerminationReason.TIMEOUT:
        raise upstream_client.upstream_errors.record_timeout(request.upstream.endpoint)
    await _abort_response(result, send)
    return result


async def _send_request(
    request: OutgoingRequest, upstream_client: UpstreamClient, supervisor: "ExchangeSupervisor"
) -> tuple[UpstreamExchange, int, Sequence[Header]]:
    """Send a request and return its exchange, status and response headers.

    Retry once on a new connection if the idle one was closed, the method is idempotent and no part of the body was sent.
    """
    try:
        return await _send_once(request, upstream_client, supervisor)
    except StaleConnection:
        if request.method not in IDEMPOTENT or supervisor.upload_started:
            raise
        if request.has_body:
            supervisor.pause_upload()
        if request.statistics is not None:
            request.statistics.retries += 1
        return await _send_once(request, upstream_client, supervisor, force_new=True)


async def _send_once(
    request: OutgoingRequest, upstream_client: UpstreamClient, supervisor: "ExchangeSupervisor", *, force_new: bool = False
) -> tuple[UpstreamExchange, int, Sequence[Header]]:
    if supervisor.exchange is not None:
        supervisor.exchange.close()
    exchange = supervisor.exchange = await upstream_client.open(request, force_new=force_new)
    if request.has_body:
        supervisor.start_upload()
    return exchange, *await exchange.read_response()


async def _stream_response(exchange: UpstreamExchange, send: Send, status: int, headers: list[Header], result: ForwardResult) -> None:
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
    except ValueError as error:
        raise UpstreamError("the upstream sent headers that can't be forwarded") from error
    result.status = status
    more_body = True
    while more_body:
        chunk, more_body = await exchange.read()
        await send({"type": "http.response.body", "body": chunk, "more_body": more_body})
        result.downstream_bytes_sent += len(chunk)


async def _abort_response(result: ForwardResult, send: Send) -> None:
    """Abort an incomplete response, because it must not look complete. Raises AccessRevoked if none was started."""
    if result.termination is TerminationReason.CLIENT_DISCONNECTED:
        return
    if result.status is None:
        raise AccessRevoked
    await send(ABORT_MESSAGE)


def _is_event_stream(headers: Sequence[Header]) -> bool:
    for name, value in headers:
        if len(name) == _CONTENT_TYPE_LENGTH and name.lower() == b"content-type" and value.lower().startswith(b"text/event-stream"):
            return True
    return False


class DisconnectWatches:
    """Disconnect watches that start after WATCH_DELAY unless their request completes first, with one timer for all of them."""

    __slots__ = ("_due", "_timer")

    def __init__(self) -> None:
        self._due: dict[ExchangeSupervisor, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, supervisor: "ExchangeSupervisor", loop: asyncio.AbstractEventLoop) -> None:
        due = self._due[supervisor] = loop.time() + WATCH_DELAY
        if self._timer is None:
            self._timer = loop.call_at(due, self._on_timer, loop)

    def discard(self, supervisor: "ExchangeSupervisor") -> None:
        self._due.pop(supervisor, None)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        for supervisor, due in list(self._due.items()):
            if due > loop.time():
                self._timer = loop.call_at(due, self._on_timer, loop)
                return
            del self._due[supervisor]
            supervisor.watch_disconnect()


class ExchangeSupervisor:
    """Supervisor of one exchange: uploads the request body, then watches for a disconnect.

    It cancels the forwarding task when the client disconnects, the timeout expires or access is revoked, and records which of them it was.
    `exchange` gets the request body; it may be replaced until `upload_started`.
    """

    __slots__ = (
        "_deadline",
        "_loop",
        "_reason",
        "_receive",
        "_receive_task",
        "_task",
        "_timeout",
        "_timer",
        "_watches",
        "exchange",
        "upload_started",
    )  # fmt: skip

    def __init__(self, receive: Receive, timeout: float | None, watches: DisconnectWatches):
        self._loop = asyncio.get_running_loop()
        self._task = cast("asyncio.Task[object]", asyncio.current_task(self._loop))
        self._receive = receive
        self._timeout = timeout
        self._deadline: float | None = None
        self._watches = watches
        self._timer: asyncio.TimerHandle | None = None
        self._receive_task: asyncio.Task[None] | None = None
        self._reason: TerminationReason | None = None
        self.exchange: UpstreamExchange | None = None
        self.upload_started = False

    def watch_disconnect_later(self) -> None:
        """Start the timeout of a request without a body now, and the watch for a disconnect after WATCH_DELAY."""
        if self._timeout is not None:
            self._deadline = self._loop.time() + self._timeout
            if self._timeout <= WATCH_DELAY:
                self._arm(self._deadline)
                return
        self._watches.add(self, self._loop)

    def watch_disconnect(self) -> None:
        """Start watching for a disconnect, and arm the timeout."""
        self._arm(self._deadline)
        self._receive_task = spawn(self._await_disconnect(), name="watch for a client that leaves")

    def start_upload(self) -> None:
        self._receive_task = spawn(self._upload(), name="upload to an upstream")

    def pause_upload(self) -> None:
        """Cancel an upload that has sent nothing yet, so that the next exchange gets the body."""
        if self._receive_task is not None:
            self._receive_task.cancel()

    def revoke(self) -> None:
        self._terminate(TerminationReason.ACCESS_ENDED)

    def disable_timeout(self) -> None:
        """Remove the timeout, and continue to watch for a disconnect."""
        self._timeout = self._deadline = None
        self._disarm()
        if self._receive_task is None:
            self._watches.discard(self)
            self.watch_disconnect()

    def cancellation_reason(self) -> TerminationReason:
        """Return why this supervisor cancelled the task. Raises CancelledError if the cancellation came from elsewhere."""
        if self._reason is None or self._task.uncancel() > 0:
            raise asyncio.CancelledError
        return self._reason

    def stop(self) -> None:
        self._watches.discard(self)
        self._disarm()
        if self._receive_task is not None:
            self._receive_task.cancel()

    def _arm(self, deadline: float | None) -> None:
        self._disarm()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._terminate, TerminationReason.TIMEOUT)

    def _restart_timer(self) -> None:
        self._arm(None if self._timeout is None else self._loop.time() + self._timeout)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _terminate(self, reason: TerminationReason) -> None:
        if self._reason is None:
            self._reason = reason
            self._task.cancel()

    async def _await_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._terminate(TerminationReason.CLIENT_DISCONNECTED)

    async def _upload(self) -> None:
        try:
            if await self._upload_body():
                self._restart_timer()
                await self._await_disconnect()
            else:
                self._terminate(TerminationReason.CLIENT_DISCONNECTED)
        except UpstreamError:
            # The upstream stopped reading. It may have responded first, so reading the response decides the outcome.
            self._restart_timer()

    async def _upload_body(self) -> bool:
        """Upload the request body. Return whether it is complete; False if the client disconnected.

        The timeout also limits how long the upstream may read nothing.
        """
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return False
            self.upload_started, exchange = True, self.exchange
            if exchange is None:
                raise RuntimeError("an upload begins with its exchange")
            exchange.write(message.get("body", b""))
            if exchange.is_congested:
                self._restart_timer()
                await exchange.drain()
                self._disarm()
            if not message.get("more_body", False):
                exchange.end_body()
                return True
