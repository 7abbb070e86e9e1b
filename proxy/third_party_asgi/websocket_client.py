"""Adapter that presents the WebSocket client of a third-party ASGI server as a connection of frames.

So one relay handles all WebSockets, with the same verdict, headers, limits and termination.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from foundation.web.asgi_types import AsgiMessage, Header, Send
from proxy.forwarding.http_forwarding import ABORT_MESSAGE
from proxy.forwarding.tunnel import TunnelSide
from proxy.listener.http1.exchange import TUNNEL_EXTENSION
from proxy.listener.http1.response_head import ResponseHead
from proxy.third_party_asgi.strict_scope import strict_scope
from proxy.websocket.frames import (
    ABNORMAL_CLOSURE,
    BINARY,
    CLOSE,
    INTERNAL_ERROR,
    INVALID_TEXT,
    NO_STATUS_RECEIVED,
    NORMAL,
    PING,
    PONG,
    TEXT,
    FrameMessage,
    MessageAssembler,
    client_close,
    client_frame,
)
from proxy.websocket.handshake import SEC_WEBSOCKET

DENIAL = "websocket.http.response"
# Queued bytes from the upstream from which it is not read; the relay bounds a single message.
MAX_QUEUED_BYTES = 64 * 1024
# First close code for private use (RFC 6455 7.4.2).
PRIVATE_CODES = 4000


class AsgiWebsocketClient:
    """WebSocket client. `scope` is its handshake for the data plane; `pump` sends queued messages to the server."""

    def __init__(self, scope: Mapping[str, Any]):
        """Validate the handshake. Raises RequestRejected."""
        self.scope = strict_scope(scope)
        self.scope["extensions"] = {TUNNEL_EXTENSION: {"take_over": self.take_over}}
        self.status = 0  # of the handshake response
        # A server without this extension responds 403 if it does not accept; Daphne is one, and supports few close codes.
        self._supports_denial = DENIAL in (scope.get("extensions") or {})
        self._loop = asyncio.get_running_loop()
        self._side: TunnelSide | None = None
        self._assembler = MessageAssembler()
        self._queue: asyncio.Queue[AsgiMessage | None] = asyncio.Queue()
        self._queued = 0
        self._is_congested = self._is_closed = self._is_request_sent = False
        self._disconnected: asyncio.Future[None] = self._loop.create_future()
        self._readable, self._drained = asyncio.Event(), asyncio.Event()
        self._readable.set()
        self._drained.set()

    # Called by the data plane, as on a connection of gate's listener.

    async def receive(self) -> AsgiMessage:
        if not self._is_request_sent:
            self._is_request_sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.shield(self._disconnected)
        return {"type": "http.disconnect"}

    async def send(self, message: AsgiMessage) -> None:
        """Deny the handshake with this response; a server without denial responses sends 403."""
        if message == ABORT_MESSAGE:
            self.close_abnormally()
        elif message["type"] == "http.response.start":
            # Raises ValueError for values with line breaks.
            ResponseHead(b"GET", message["status"], message["headers"])
            self.status = message["status"]
            # A status below 300 could pass for an open WebSocket.
            self._supports_denial &= self.status >= 300
        is_last = message["type"] == "http.response.body" and not message.get("more_body")
        if self._supports_denial and message != ABORT_MESSAGE:
            self._put({**message, "type": message["type"].replace("http.response", DENIAL)}, len(message.get("body", b"")))
            if is_last:
                self._finish()
        elif is_last:
            self.close_abnormally()
        await self._drained.wait()

    def take_over(
        self, headers: Iterable[Header], protocol: TunnelSide, upgrade: bytes = b"websocket"
    ) -> tuple["AsgiWebsocketClient", bytes]:
        """Accept the client, after its upstream has. Raises ValueError for malformed headers, ConnectionError if it has disconnected."""
        response_headers = list(headers)
        ResponseHead(b"GET", 204, response_headers)
        if self._disconnected.done():
            raise ConnectionResetError("the client has gone")
        chosen = [value.decode("ascii") for name, value in response_headers if name == b"sec-websocket-protocol"]
        others = [pair for pair in response_headers if not pair[0].startswith(SEC_WEBSOCKET)]
        self._put({"type": "websocket.accept", "subprotocol": chosen[0] if chosen else None, "headers": others})
        self._side, self.status = protocol, 101
        return self, b""

    # Called by the relay, as on a connection that it has taken over.

    def write(self, data: bytes) -> None:
        for message in self._assembler.feed(data):
            if not self._is_closed:
                self._dispatch(message)

    def pause_reading(self) -> None:
        self._readable.clear()

    def resume_reading(self) -> None:
        self._readable.set()

    def write_eof(self) -> None:
        """Do nothing: ASGI has no half-close."""

    def close(self) -> None:
        self.close_abnormally()

    def abort(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()
        self.close_abnormally()

    def get_extra_info(self, name: str) -> None:
        """Return None: the server does not expose its transport."""

    # Called for messages from and to the server.

    async def on_message(self, message: AsgiMessage) -> None:
        """Forward a client message. Return when the upstream can receive more."""
        if self._side is not None and not self._is_closed:
            text = message.get("text")
            frame = client_frame(BINARY, message["bytes"]) if text is None else client_frame(TEXT, text.encode())
            self._side.data_received(frame)
        await self._readable.wait()

    def on_disconnect(self, code: int) -> None:
        """Record that the client disconnected, and send its close code to the upstream."""
        if self._disconnected.done():
            return
        self._disconnected.set_result(None)
        side, was_closed = self._side, self._is_closed
        self._finish()
        if side is not None and not was_closed:
            if code == ABNORMAL_CLOSURE:
                side.connection_lost(None)
            else:
                side.data_received(client_close(code))

    async def pump(self, send: Send) -> None:
        """Send queued messages to the server until the connection ends."""
        while (message := await self._queue.get()) is not None:
            try:
                await send(message)
            except OSError:  # ASGI: the client has gone
                self.on_disconnect(ABNORMAL_CLOSURE)
                return
            self._queued -= _size(message)
            if self._queued < MAX_QUEUED_BYTES and not self._drained.is_set():
                self._drained.set()
                if self._side is not None:
                    self._side.resume_writing()

    def close_abnormally(self) -> None:
        """Close if open: deny a handshake, or close a WebSocket with code 1011."""
        if not self._is_closed:
            self._put(
                {"type": "websocket.close", "code": self._close_code(INTERNAL_ERROR)}
                if self._side is not None
                else {"type": "websocket.close"}
            )
            self._finish()

    def _finish(self) -> None:
        self._is_closed = True
        self._readable.set()
        self._drained.set()
        self._queue.put_nowait(None)

    def _dispatch(self, message: FrameMessage) -> None:
        match message.opcode:
            case _ if message.opcode == CLOSE:
                code = NORMAL if message.close_code == NO_STATUS_RECEIVED else message.close_code
                self._put({"type": "websocket.close", "code": self._close_code(code), "reason": message.close_reason})
                self._finish()
                self._reply_upstream(client_close(message.close_code))
            case _ if message.opcode == PING:
                self._reply_upstream(client_frame(PONG, message.payload))
            case _ if message.opcode == BINARY:
                self._put({"type": "websocket.send", "bytes": message.payload}, len(message.payload))
            case _ if message.opcode == TEXT:
                try:
                    self._put({"type": "websocket.send", "text": message.payload.decode()}, len(message.payload))
                except UnicodeDecodeError:
                    self._put({"type": "websocket.close", "code": self._close_code(INVALID_TEXT)})
                    self._finish()
                    self._reply_upstream(client_close(INVALID_TEXT))

    def _reply_upstream(self, frame: bytes) -> None:
        """Reply to the upstream in the client's place, because the server hides these frames. Deferred: the relay may be sending."""
        if self._side is not None:
            self._loop.call_soon(self._side.data_received, frame)

    def _put(self, message: AsgiMessage, size: int = 0) -> None:
        self._queue.put_nowait(message)
        self._queued += size
        if self._queued >= MAX_QUEUED_BYTES and self._drained.is_set():
            self._drained.clear()
            if self._side is not None:
                self._side.pause_writing()

    def _close_code(self, code: int) -> int:
        """Return a close code that the server supports."""
        return code if self._supports_denial or code == NORMAL or code >= 3000 else PRIVATE_CODES + code - NORMAL


def _size(message: AsgiMessage) -> int:
    return len(message.get("body") or message.get("bytes") or b"") or len((message.get("text") or "").encode())
