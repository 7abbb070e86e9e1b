"""Channels consumer of WebSockets for third-party ASGI servers: relays messages through the same relay as gate's listener."""

import asyncio
from collections.abc import Callable
from typing import Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from foundation.tasks import spawn
from foundation.web.asgi_types import Application, AsgiMessage, Receive
from proxy.listener.http1.rejection_log import log_listener_rejection
from proxy.listener.http1.request_head import RequestRejected
from proxy.third_party_asgi.websocket_client import DENIAL, AsgiWebsocketClient
from proxy.websocket.frames import ABNORMAL_CLOSURE

# Called for each handshake with its Host, its method and the response status.
OnHandshake = Callable[[bytes, bytes, int], None]


class WebsocketConsumer(AsyncConsumer):
    """Consumer of one WebSocket.  `app` authorizes its handshake as an HTTP request, and takes the client over."""

    def __init__(self, app: Application, on_handshake: OnHandshake):
        self._app = app
        self._on_handshake = on_handshake

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._client: AsgiWebsocketClient | None = None
        self._forward_task: asyncio.Task[Any] | None = None

        async def receive_until_closed() -> AsgiMessage:
            """Return the server's next message, or a disconnect once the relay has finished, even if the server sends none."""
            receiving = spawn(_next_message(receive), name="a message of a websocket")
            try:
                await asyncio.wait((receiving, self._closed), return_when=asyncio.FIRST_COMPLETED)
                return receiving.result() if receiving.done() else {"type": "websocket.disconnect", "code": ABNORMAL_CLOSURE}
            finally:
                receiving.cancel()

        try:
            await super().__call__(scope, receive_until_closed, send)
        finally:
            if self._forward_task is not None:
                self._forward_task.cancel()

    async def dispatch(self, message: AsgiMessage) -> None:
        """Handle a message without Channels' check of database connections, because no handler uses one."""
        handlers = {
            "websocket.connect": self.websocket_connect,
            "websocket.receive": self.websocket_receive,
            "websocket.disconnect": self.websocket_disconnect,
        }
        await handlers[message["type"]](message)

    async def websocket_connect(self, message: AsgiMessage) -> None:
        try:
            self._client = AsgiWebsocketClient(self.scope)
        except RequestRejected as rejection:
            log_listener_rejection(rejection, self.scope.get("client"))
            self._on_handshake(b"", b"", rejection.status)
            await self._reject(rejection)
            raise StopConsumer from rejection
        self._forward_task = spawn(self._forward(self._client), name="websocket")

    async def websocket_receive(self, message: AsgiMessage) -> None:
        if self._client is not None:
            await self._client.on_message(message)

    async def websocket_disconnect(self, message: AsgiMessage) -> None:
        if self._client is not None:
            self._client.on_disconnect(message.get("code", ABNORMAL_CLOSURE))
        if self._forward_task is not None:
            await asyncio.wait((self._forward_task,))
        raise StopConsumer

    async def _forward(self, client: AsgiWebsocketClient) -> None:
        pumping = spawn(client.pump(self.send), name="messages to a websocket")
        try:
            await self._app(client.scope, client.receive, client.send)
        except ConnectionError:  # ASGI: the client has gone
            client.on_disconnect(ABNORMAL_CLOSURE)
        finally:
            client.close_abnormally()
            await asyncio.wait((pumping,))
            self._on_handshake(dict(client.scope["headers"]).get(b"host", b""), b"GET", client.status or 403)
            if not self._closed.done():
                self._closed.set_result(None)

    async def _reject(self, rejection: RequestRejected) -> None:
        if DENIAL not in (self.scope.get("extensions") or {}):
            await self.send({"type": "websocket.close"})
            return
        body = rejection.body
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"), (b"content-length", b"%d" % len(body))]
        headers.append((b"x-request-id", rejection.request_id.encode()))
        await self.send({"type": f"{DENIAL}.start", "status": rejection.status, "headers": headers})
        await self.send({"type": f"{DENIAL}.body", "body": body})


async def _next_message(receive: Receive) -> AsgiMessage:
    return await receive()
