"""Writes of one loop turn are sent at its end; low-priority and blocked connections are polled."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from types import SimpleNamespace

import pytest
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.protocol import Protocol

from proxy.listener.client_transport import ClientTransport
from proxy.listener.fair_selector import FairSelector, install_fair_selector
from tests.support.eventually import eventually


class Received(Protocol):
    def __init__(self) -> None:
        self.data, self.ended = b"", asyncio.Event()

    def dataReceived(self, data: bytes) -> None:
        self.data += data

    def connectionLost(self, reason: object = None) -> None:
        self.ended.set()


@pytest.fixture
async def pair() -> AsyncIterator[tuple[ClientTransport, socket.socket]]:
    """A transport on the loop of the test, and its client's end."""
    loop = asyncio.get_running_loop()
    install_fair_selector(loop)
    reactor = AsyncioSelectorReactor(loop)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        gate_side, _ = listener.accept()
        client.setblocking(False)
        protocol = Received()
        transport = ClientTransport(gate_side, protocol, ("127.0.0.1", 1), SimpleNamespace(_realPortNumber=1), 0, reactor)
        protocol.makeConnection(transport)
        yield transport, client
        if transport.connected:
            transport.abortConnection()
            transport.connectionLost(SimpleNamespace(check=lambda kind: None))
    for waker in reactor.removeAll():
        with suppress(Exception):
            waker.connectionLost(None)


async def arrived(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += await asyncio.get_running_loop().sock_recv(client, 65536)
    return found


def watched(transport: ClientTransport) -> bool:
    return transport in transport.reactor.getWriters()


def first(transport: ClientTransport) -> None:
    selector(transport).promote(transport.fileno())


def selector(transport: ClientTransport) -> FairSelector:
    return transport.reactor._asyncioEventloop._selector


async def test_writes_of_one_turn_are_sent_at_its_end(pair):
    transport, client = pair
    first(transport)
    transport.write(b"head ")
    transport.write(b"body")
    assert not watched(transport)
    await asyncio.sleep(0)
    assert client.recv(100) == b"head body"
    assert not watched(transport)


async def test_low_priority_connection_waits(pair):
    transport, client = pair
    selector(transport).demote(transport.fileno())
    transport.write(b"late")
    assert watched(transport)
    assert await arrived(client, 4) == b"late"


async def test_unsent_data_is_polled_and_arrives_complete(pair):
    transport, client = pair
    first(transport)
    data = bytes(range(256)) * 16 * 1024
    transport.write(data)
    await asyncio.sleep(0)
    assert watched(transport)
    assert await arrived(client, len(data)) == data
    assert not watched(transport)


async def test_last_write_arrives_before_close(pair):
    transport, client = pair
    first(transport)
    transport.write(b"last words")
    transport.loseConnection()
    assert await arrived(client, 10) == b"last words"
    async with asyncio.timeout(5):
        await transport.protocol.ended.wait() if transport.connected else None
    assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


async def test_reading_resumes_after_pause(pair):
    transport, client = pair
    protocol = transport.protocol
    transport.pauseProducing()
    client.send(b"one")
    await asyncio.sleep(0.02)
    assert protocol.data == b""
    transport.resumeProducing()
    await eventually(lambda: protocol.data == b"one")


async def test_nothing_is_sent_after_an_abort(pair):
    transport, client = pair
    first(transport)
    transport.write(b"never")
    transport.abortConnection()
    with suppress(ConnectionResetError):
        assert await asyncio.get_running_loop().sock_recv(client, 100) == b""
