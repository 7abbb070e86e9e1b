"""Channels consumer, driven as Channels drives one: a handshake is authorized, proxied and ended by either side."""

import asyncio
from typing import Any

import pytest
from channels.testing import ApplicationCommunicator

from proxy.consumers import WebsocketConsumer
from proxy.websocket.frames import TEXT, close_frame
from tests.support.eventually import eventually
from tests.support.websockets import from_server
from tests.unit.proxy.third_party_asgi.test_strict_scope import WEBSOCKET
from tests.unit.proxy.third_party_asgi.test_websocket_client import ACCEPT, DENIES, Side

Message = dict[str, Any]


class Carrier:
    """Data plane for one handshake: it accepts, sends hello, and relays until it is ended."""

    def __init__(self, answer: Message | None = None, error: Exception | None = None) -> None:
        self.answer, self.error = answer, error
        self.side = Side()
        self.end = asyncio.Event()
        self.was_cancelled = False
        self.scope: Message = {}
        self.counted: list[tuple[bytes, bytes, int]] = []

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        self.scope = scope
        if self.error is not None:
            raise self.error
        if self.answer is not None:
            await send(self.answer)
            await send({"type": "http.response.body", "body": b""})
            return
        client, _ = scope["extensions"]["gate.tunnel"]["take_over"]([], self.side)
        client.write(from_server(TEXT, b"hello"))
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        client.write(close_frame(1001, "the end", is_masked=False))

    def count(self, *facts: Any) -> None:
        self.counted.append(facts)

    def opened(self, **scope: Any) -> ApplicationCommunicator:
        application = WebsocketConsumer.as_asgi(app=self, on_handshake=self.count)
        return ApplicationCommunicator(application, {**WEBSOCKET, **DENIES, **scope})


async def connected(carrier: Carrier, **scope: Any) -> ApplicationCommunicator:
    communicator = carrier.opened(**scope)
    await communicator.send_input({"type": "websocket.connect"})
    return communicator


async def test_websocket_is_relayed_until_its_upstream_ends_it() -> None:
    carrier = Carrier()
    server = await connected(carrier)
    assert await server.receive_output() == ACCEPT
    assert await server.receive_output() == {"type": "websocket.send", "text": "hello"}
    await server.send_input({"type": "websocket.receive", "text": "hi"})
    while not carrier.side.messages:
        await asyncio.sleep(0)
    carrier.end.set()
    assert await server.receive_output() == {"type": "websocket.close", "code": 1001, "reason": "the end"}
    await server.wait()  # with or without websocket.disconnect from the server
    assert carrier.side.messages[0].payload == b"hi"
    assert carrier.counted == [(b"app.example.com", b"GET", 101)]


async def test_leaving_client_is_awaited_while_its_request_runs() -> None:
    carrier = Carrier()
    server = await connected(carrier)
    assert await server.receive_output() == ACCEPT
    await server.send_input({"type": "websocket.disconnect", "code": 1000})
    while not carrier.side.messages:
        await asyncio.sleep(0)
    assert carrier.side.messages[0].close_code == 1000
    carrier.end.set()
    await server.wait()
    assert not carrier.was_cancelled


async def test_server_shutdown_timeout_ends_forwarded_requests() -> None:
    carrier = Carrier()
    server = await connected(carrier)
    assert await server.receive_output() == ACCEPT
    server.stop(exceptions=False)
    await eventually(lambda: carrier.was_cancelled)


@pytest.mark.parametrize("can_deny", [True, False])
async def test_a_refusal_is_an_answer(*, can_deny: bool) -> None:
    carrier = Carrier({"type": "http.response.start", "status": 401, "headers": []})
    server = await connected(carrier, **({} if can_deny else {"extensions": {}}))
    message = await server.receive_output()
    assert message.get("status") == (401 if can_deny else None)
    assert message["type"] == ("websocket.http.response.start" if can_deny else "websocket.close")
    if can_deny:
        await server.receive_output()
    await server.wait()
    assert carrier.counted == [(b"app.example.com", b"GET", 401)]


@pytest.mark.parametrize("can_deny", [True, False])
async def test_a_scope_in_doubt_is_refused_unjudged(*, can_deny: bool) -> None:
    carrier = Carrier()
    server = await connected(carrier, raw_path=None, **({} if can_deny else {"extensions": {}}))
    message = await server.receive_output()
    assert message.get("status", 403) == (400 if can_deny else 403)
    await server.wait()
    assert (carrier.scope, carrier.counted) == ({}, [(b"", b"", 400)])


async def test_a_carrier_that_fails_opens_nothing() -> None:
    carrier = Carrier(error=ConnectionResetError("gone"))
    server = await connected(carrier)
    await server.wait()
    assert await server.receive_nothing()
    assert carrier.counted == [(b"app.example.com", b"GET", 403)]
