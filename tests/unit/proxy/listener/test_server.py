"""Daphne's server with our connections; and canaries for what we use of Daphne and Twisted without being promised it."""

import asyncio
import json
import signal
import socket

import daphne.server
import pytest
from twisted.internet import reactor
from twisted.internet.testing import StringTransport

from proxy.listener.bounded_accept import ACCEPTS_PER_TURN, BoundedAccept, BoundedAcceptPort
from proxy.listener.http1.http1_channel import Channel
from proxy.listener.listener_context import ListenerContext, default_settings
from proxy.listener.server import drain
from tests.support.children import Child, clean_environment, free_port, wait_until
from tests.support.eventually import PATIENCE
from tests.support.raw_http import RawClient, exchange
from tests.unit.proxy.listener.conftest import start

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class HalfCloseTransport(StringTransport):
    def loseWriteConnection(self):
        self.loseConnection()


def test_daphne_stores_application_and_requires_endpoints():
    assert daphne.server.Server("app", endpoints=["x"]).application == "app"
    with pytest.raises(SystemExit):
        daphne.server.Server("app", endpoints=[])


def test_reactor_has_an_asyncio_loop():
    assert isinstance(reactor._asyncioEventloop, asyncio.AbstractEventLoop)


def test_accepts_few_connections_per_turn(monkeypatch):
    """Twisted (26.4) adds twenty to the number whenever it was reached; it takes one at a time here, and we count."""
    port, waiting = BoundedAcceptPort(0, None), [ACCEPTS_PER_TURN + 3]
    port.numberAccepts += 20
    assert port.numberAccepts == 1

    def take(self: BoundedAcceptPort) -> None:
        if waiting[0]:
            waiting[0] -= 1
            self.sessionno += 1

    monkeypatch.setattr(BoundedAccept.__bases__[0], "doRead", take)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port.fileno = listener.fileno
        left = []
        for _ in range(3):
            port.doRead()
            left.append(waiting[0])
    assert left == [3, 0, 0]


def test_the_reactors_loop_lets_slow_connections_stand_behind(tmp_path):
    child, port = start(tmp_path)
    with child:
        assert (
            json.loads(exchange(port, b"GET /_/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")[0].body)["selector"]
            == "FairSelector"
        )


def test_daphne_command_serves_with_gate_connections():
    port = free_port()
    command = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "tests.unit.proxy.listener.canary:application")
    with Child.python(*command, environment=clean_environment(PYTHONPATH=".")) as child:
        child.wait_for_line("listening")
        assert exchange(port, b"GET / HTTP/1.0\r\n\r\n")[0].status == 426
        assert b'"FairSelector"' in exchange(port, b"GET /_/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")[0].body
        with RawClient(port) as client:
            client.send(b"POST /stream-echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nfirst")
            client._until(b"\r\n\r\n")
            assert client.chunk() == b"first"
        with RawClient(port) as client:
            assert client.send(UPGRADE).response().status == 200


def test_stop_closes_idle_connections_and_accepts_no_new_ones(tmp_path):
    child, port = start(tmp_path)
    with child, RawClient(port) as idle, RawClient(port) as busy:
        idle.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").response()
        busy.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        exchange(port, b"GET /_/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        child.process.send_signal(signal.SIGTERM)
        assert idle.is_closed()
        assert not accepts(port)
        assert busy.response().body == b"slow"
        busy.socket.close()
        assert child.ended() == 0
    assert child.lines[-1] == "stopped", child.output


def test_a_second_signal_does_not_wait(tmp_path):
    child, port = start(tmp_path)
    with child, RawClient(port) as client:
        client.send(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
        exchange(port, b"GET /_/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        child.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not accepts(port), "the port is closed")
        assert child.stop(timeout=5) == 0
    assert child.lines[-1] == "stopped", child.output


def test_late_signal_is_no_failure(tmp_path):
    child, _ = start(tmp_path, "--late-signal")
    with child:
        assert child.stop() == 0
    assert child.lines[-1] == "stopped", child.output


def accepts(port: int) -> bool:
    try:
        RawClient(port).socket.close()
    except ConnectionRefusedError:
        return False
    return True


def test_running_request_is_answered_during_stop(tmp_path):
    child, port = start(tmp_path)
    with child, RawClient(port) as client:
        client.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        exchange(port, b"GET /_/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        child.process.send_signal(signal.SIGTERM)
        response = client.response()
        assert (response.body, response.announces_close) == (b"slow", True)
        assert client.is_closed()
        client.socket.close()
        assert child.ended() == 0


async def test_endless_request_is_cancelled_after_drain():
    ended = asyncio.Event()

    async def endless(scope, receive, send):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    context = ListenerContext(endless, default_settings)
    channel, transport = Channel(context), HalfCloseTransport()
    channel.makeConnection(transport)
    channel.dataReceived(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert len(context.exchanges) == 1
    await asyncio.sleep(0)
    stopping = asyncio.gather(drain(context, 0.01))
    await asyncio.wait_for(ended.wait(), PATIENCE)
    channel.connectionLost()
    await stopping
    # Not an application error: the client may retry, and no operator is alerted.
    assert transport.value().startswith(b"HTTP/1.1 503")
    assert context.exchanges == set()
