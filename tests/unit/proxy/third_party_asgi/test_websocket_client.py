"""A WebSocket client of a third-party server, presented to the relay as a connection of frames."""

import asyncio
from typing import Any

import pytest

from proxy.forwarding.http_forwarding import ABORT_MESSAGE
from proxy.forwarding.tunnel import TunnelSide
from proxy.third_party_asgi.websocket_client import DENIAL, MAX_QUEUED_BYTES, AsgiWebsocketClient
from proxy.websocket.frames import BINARY, CLOSE, PING, PONG, TEXT, FrameMessage, close_frame
from tests.support.eventually import PATIENCE
from tests.support.websockets import frames_in, from_server
from tests.unit.proxy.third_party_asgi.test_strict_scope import WEBSOCKET

Message = dict[str, Any]
DENIES: dict[str, Any] = {"extensions": {DENIAL: {}}}


class Side(TunnelSide):
    """Relay side of the client; records its messages and connection events."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[FrameMessage] = []
        self.reported: list[str] = []

    def data_received(self, data: bytes) -> None:
        (frame,) = frames_in(data)
        self.messages.append(FrameMessage(frame.opcode, frame.payload))

    def pause_writing(self) -> None:
        self.reported.append("pause")

    def resume_writing(self) -> None:
        self.reported.append("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.reported.append("lost")


class Server:
    def __init__(self, **scope: Any):
        self.client = AsgiWebsocketClient({**WEBSOCKET, **scope})
        self.side = Side()
        self.sent: list[Message] = []
        self.may_send = asyncio.Event()
        self.may_send.set()

    async def send(self, message: Message) -> None:
        await self.may_send.wait()
        self.sent.append(message)

    def accept(self, *headers: tuple[bytes, bytes]) -> "Server":
        self.side.connection, ahead = self.client.take_over(headers, self.side)
        assert ahead == b""
        return self

    async def reported(self) -> list[Message]:
        """Return all messages to the server until the connection ends."""
        async with asyncio.timeout(5):
            await self.client.pump(self.send)
        await asyncio.sleep(0)
        return self.sent


ACCEPT = {"type": "websocket.accept", "subprotocol": None, "headers": []}


async def test_a_client_is_accepted_as_its_upstream_has() -> None:
    response_headers = [(b"sec-websocket-accept", b"x"), (b"sec-websocket-protocol", b"chat"), (b"set-cookie", b"a=1")]
    server = Server(**DENIES).accept(*response_headers)
    server.client.close()
    accept, close = await server.reported()
    assert accept == {"type": "websocket.accept", "subprotocol": "chat", "headers": [(b"set-cookie", b"a=1")]}
    assert close == {"type": "websocket.close", "code": 1011}, "it broke off"
    with pytest.raises(ValueError, match="header"):
        Server().accept((b"x", b"1\r\nset-cookie: _gate=forged"))


async def test_messages_pass_both_ways() -> None:
    server = Server(**DENIES).accept()
    await server.client.on_message({"type": "websocket.receive", "text": "grüß dich"})
    await server.client.on_message({"type": "websocket.receive", "bytes": b"\0", "text": None})
    assert server.side.messages == [FrameMessage(TEXT, "grüß dich".encode()), FrameMessage(BINARY, b"\0")]
    server.client.write(from_server(TEXT, "zurück".encode()) + from_server(BINARY, b"\1") + close_frame(4001, "bye", is_masked=False))
    assert (await server.reported())[1:] == [
        {"type": "websocket.send", "text": "zurück"},
        {"type": "websocket.send", "bytes": b"\1"},
        {"type": "websocket.close", "code": 4001, "reason": "bye"},
    ]
    assert server.side.messages[2:] == [FrameMessage(CLOSE, b"\x0f\xa1")], "the relay waits for the client's answer"


async def test_ping_gets_a_pong() -> None:
    server = Server().accept()
    server.client.write(from_server(PING, b"there?"))
    await asyncio.sleep(0)
    assert server.side.messages == [FrameMessage(PONG, b"there?")]


async def test_invalid_utf8_text_closes_both_sides() -> None:
    server = Server(**DENIES).accept()
    server.client.write(from_server(TEXT, b"\xff") + from_server(TEXT, b"later"))
    assert (await server.reported())[1:] == [{"type": "websocket.close", "code": 1007}]
    assert [message.close_code for message in server.side.messages] == [1007]


@pytest.mark.parametrize(("code", "response_headers"), [(1000, 1000), (1001, 4001), (1008, 4008), (1011, 4011), (3000, 3000), (4999, 4999)])
async def test_unsupported_close_codes_become_private(code: int, response_headers: int) -> None:
    for scope, expected in ((DENIES, code), ({}, response_headers)):
        server = Server(**scope).accept()
        server.client.write(close_frame(code, "", is_masked=False))
        assert (await server.reported())[-1]["code"] == expected


@pytest.mark.parametrize(("code", "messages", "reported"), [(1000, [1000], []), (1005, [1005], []), (1006, [], ["lost"])])
async def test_client_disconnect_is_reported_upstream(code: int, messages: list[int], reported: list[str]) -> None:
    server = Server().accept()
    server.client.on_disconnect(code)
    server.client.on_disconnect(code)
    assert await server.reported() == [ACCEPT]
    assert [message.close_code for message in server.side.messages] == messages
    assert server.side.reported == reported
    assert (await server.client.receive())["type"] == "http.request"
    assert (await server.client.receive())["type"] == "http.disconnect"


async def test_disconnect_before_accept_raises() -> None:
    server = Server()
    server.client.on_disconnect(1006)
    with pytest.raises(ConnectionError):
        server.accept()


async def test_back_pressure_pauses_the_other_side() -> None:
    server = Server().accept()
    server.may_send.clear()
    pumping = asyncio.ensure_future(server.client.pump(server.send))
    server.client.write(from_server(BINARY, b"x" * MAX_QUEUED_BYTES))
    assert server.side.reported == ["pause"]
    server.may_send.set()
    await asyncio.sleep(0.01)
    assert server.side.reported == ["pause", "resume"]
    server.client.pause_reading()
    hearing = asyncio.ensure_future(server.client.on_message({"type": "websocket.receive", "text": "x"}))
    await asyncio.sleep(0.01)
    assert not hearing.done()
    server.client.resume_reading()
    await asyncio.wait_for(hearing, PATIENCE)
    server.client.abort()
    await asyncio.wait_for(pumping, PATIENCE)
    assert server.sent[-1]["type"] == "websocket.close"


async def test_abort_drops_queued_messages() -> None:
    server = Server(**DENIES).accept()
    server.client.write(from_server(TEXT, b"waits"))
    server.client.abort()
    assert await server.reported() == [{"type": "websocket.close", "code": 1011}]


async def test_nothing_is_sent_after_disconnect() -> None:
    async def gone(message: Message) -> None:
        raise OSError("the client has gone")

    server = Server().accept()
    await server.client.pump(gone)
    assert server.side.reported == ["lost"]


START: Message = {"type": "http.response.start", "status": 401, "headers": [(b"x", b"1")]}


@pytest.mark.parametrize("status", [200, 302, 401, 503])
@pytest.mark.parametrize("scope", [DENIES, {}], ids=["with denials", "without"])
async def test_other_response_denies_the_handshake(scope: Message, status: int) -> None:
    server = Server(**scope)
    await server.client.send({**START, "status": status})
    await server.client.send({"type": "http.response.body", "body": b"a", "more_body": True})
    await server.client.send({"type": "http.response.body", "body": b"b"})
    server.client.close_abnormally()
    sent = await server.reported()
    if scope and status >= 300:
        start, *bodies = sent
        assert start == {"type": f"{DENIAL}.start", "status": status, "headers": [(b"x", b"1")]}
        assert [body["body"] for body in bodies] == [b"a", b"b"]
    else:
        assert sent == [{"type": "websocket.close"}]
    assert server.client.status == status


async def test_missing_or_aborted_response_denies_the_handshake() -> None:
    for response_headers in (ABORT_MESSAGE, None):
        server = Server(**DENIES)
        if response_headers is not None:
            await server.client.send(response_headers)
        server.client.close_abnormally()
        assert await server.reported() == [{"type": "websocket.close"}]
