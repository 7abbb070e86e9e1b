"""Websocket client of an ASGI server that is not ours, as the relay sees it: a connection that frames come from and go to.

So one relay carries every websocket, with the same verdict, headers, bounds and ends.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from foundation.web.asgi_types import AsgiMessage, Header, Send
from proxy.forwarding.http_forwarding import ABORT
from proxy.forwarding.tunnel import TunnelSide
from proxy.listener.http1.exchange import TUNNEL_EXTENSION
from proxy.listener.http1.response_head import ResponseHead
from proxy.third_party_asgi.strict_scope import strict_scope
from proxy.websocket.frames import (
    ABNORMAL,
    BINARY,
    BROKEN,
    CLOSE,
    INVALID_TEXT,
    NO_STATUS,
    NORMAL,
    PING,
    PONG,
    TEXT,
    FrameMessage,
    MessageAssembler,
    client_close,
    client_frame,
)
from proxy.websocket.handshake import PREFIX

DENIAL = "websocket.http.response"
# Of what the upstream says, before it is read no further; a message as a whole is bounded by the relay.
MOST_QUEUED = 64 * 1024
# RFC 6455 7.4.2: applications may choose the codes from here on.
PRIVATE = 4000


class AsgiWebsocketClient:
    """Websocket client.  `scope` is that of its handshake for the data plane; `tell` sends the server what it is told, to the end."""

    def __init__(self, scope: Mapping[str, Any]):
        """Raises RequestRejected for what can't be judged."""
        self.scope = strict_scope(scope)
        self.scope["extensions"] = {TUNNEL_EXTENSION: {"take_over": self.take_over}}
        self.status = 0  # of the answer to the handshake
        # A server without this extension says 403 to whomever it does not accept; it is a Daphne, which closes with few codes.
        self._may_deny = DENIAL in (scope.get("extensions") or {})
        self._loop = asyncio.get_running_loop()
        self._side: TunnelSide | None = None
        self._assembler = MessageAssembler()
        self._queue: asyncio.Queue[AsgiMessage | None] = asyncio.Queue()
        self._queued = 0
        self._is_congested = self._has_ended = self._is_asked = False
        self._left: asyncio.Future[None] = self._loop.create_future()
        self._readable, self._drained = asyncio.Event(), asyncio.Event()
        self._readable.set()
        self._drained.set()

    # The data plane calls these, as on a connection of our listener.

    async def receive(self) -> AsgiMessage:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.shield(self._left)
        return {"type": "http.disconnect"}

    async def send(self, message: AsgiMessage) -> None:
        """Answer the handshake with no websocket: with a response where the server can, else it says 403."""
        if message == ABORT:
            self.close_abnormally()
        elif message["type"] == "http.response.start":
            # ValueError for what would be more lines than it is.
            ResponseHead(b"GET", message["status"], message["headers"])
            self.status = message["status"]
            # Nothing that could pass for an open websocket.
            self._may_deny &= self.status >= 300
        is_last = message["type"] == "http.response.body" and not message.get("more_body")
        if self._may_deny and message != ABORT:
            self._put({**message, "type": message["type"].replace("http.response", DENIAL)}, len(message.get("body", b"")))
            if is_last:
                self._finish()
        elif is_last:
            self.close_abnormally()
        await self._drained.wait()

    def take_over(
        self, headers: Iterable[Header], protocol: TunnelSide, upgrade: bytes = b"websocket"
    ) -> tuple["AsgiWebsocketClient", bytes]:
        """Accept the client, as its upstream has.  ValueError for malformed headers, ConnectionError where it has gone."""
        said = list(headers)
        ResponseHead(b"GET", 204, said)
        if self._left.done():
            raise ConnectionResetError("the client has gone")
        chosen = [value.decode("ascii") for name, value in said if name == b"sec-websocket-protocol"]
        others = [pair for pair in said if not pair[0].startswith(PREFIX)]
        self._put({"type": "websocket.accept", "subprotocol": chosen[0] if chosen else None, "headers": others})
        self._side, self.status = protocol, 101
        return self, b""

    # The relay calls these, as of a connection that it has taken over.

    def write(self, data: bytes) -> None:
        for message in self._assembler.feed(data):
            if not self._has_ended:
                self._say(message)

    def pause_reading(self) -> None:
        self._readable.clear()

    def resume_reading(self) -> None:
        self._readable.set()

    def write_eof(self) -> None:
        """ASGI knows no half of a websocket."""

    def close(self) -> None:
        self.close_abnormally()

    def abort(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()
        self.close_abnormally()

    def get_extra_info(self, name: str) -> None:
        """Extra info of a transport: the server keeps it to itself."""

    # The server's side.

    async def on_message(self, message: AsgiMessage) -> None:
        """Pass on what the client says; returns when the upstream can take more."""
        if self._side is not None and not self._has_ended:
            text = message.get("text")
            frame = client_frame(BINARY, message["bytes"]) if text is None else client_frame(TEXT, text.encode())
            self._side.data_received(frame)
        await self._readable.wait()

    def on_disconnect(self, code: int) -> None:
        """Note that the client has gone; the upstream is told with which code."""
        if self._left.done():
            return
        self._left.set_result(None)
        side, has_ended = self._side, self._has_ended
        self._finish()
        if side is not None and not has_ended:
            if code == ABNORMAL:
                side.connection_lost(None)
            else:
                side.data_received(client_close(code))

    async def pump(self, send: Send) -> None:
        """Send the server what it is told, until the end."""
        while (message := await self._queue.get()) is not None:
            try:
                await send(message)
            except OSError:  # ASGI: the client has gone
                self.on_disconnect(ABNORMAL)
                return
            self._queued -= _size(message)
            if self._queued < MOST_QUEUED and not self._drained.is_set():
                self._drained.set()
                if self._side is not None:
                    self._side.resume_writing()

    def close_abnormally(self) -> None:
        """End what has not ended: a handshake with a refusal, a websocket with the code of one that broke off."""
        if not self._has_ended:
            self._put({"type": "websocket.close", "code": self._code(BROKEN)} if self._side is not None else {"type": "websocket.close"})
            self._finish()

    def _finish(self) -> None:
        self._has_ended = True
        self._readable.set()
        self._drained.set()
        self._queue.put_nowait(None)

    def _say(self, message: FrameMessage) -> None:
        match message.opcode:
            case _ if message.opcode == CLOSE:
                code = NORMAL if message.close_code == NO_STATUS else message.close_code
                self._put({"type": "websocket.close", "code": self._code(code), "reason": message.close_reason})
                self._finish()
                self._answer(client_close(message.close_code))
            case _ if message.opcode == PING:
                self._answer(client_frame(PONG, message.payload))
            case _ if message.opcode == BINARY:
                self._put({"type": "websocket.send", "bytes": message.payload}, len(message.payload))
            case _ if message.opcode == TEXT:
                try:
                    self._put({"type": "websocket.send", "text": message.payload.decode()}, len(message.payload))
                except UnicodeDecodeError:
                    self._put({"type": "websocket.close", "code": self._code(INVALID_TEXT)})
                    self._finish()
                    self._answer(client_close(INVALID_TEXT))

    def _answer(self, frame: bytes) -> None:
        """Answer the upstream in the client's place, which the server hides from it; not while the relay is speaking."""
        if self._side is not None:
            self._loop.call_soon(self._side.data_received, frame)

    def _put(self, message: AsgiMessage, size: int = 0) -> None:
        self._queue.put_nowait(message)
        self._queued += size
        if self._queued >= MOST_QUEUED and self._drained.is_set():
            self._drained.clear()
            if self._side is not None:
                self._side.pause_writing()

    def _code(self, code: int) -> int:
        """Code of a Close that the server will say."""
        return code if self._may_deny or code == NORMAL or code >= 3000 else PRIVATE + code - NORMAL


def _size(message: AsgiMessage) -> int:
    return len(message.get("body") or message.get("bytes") or b"") or len((message.get("text") or "").encode())
