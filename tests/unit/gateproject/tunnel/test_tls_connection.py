"""TLS directions close independently; untrusted and unreachable servers are reported."""

import asyncio
import contextlib
import socket
import ssl

import pytest

from foundation.values import Url
from gateproject.tunnel import tls_connection
from gateproject.tunnel.tls_connection import TunnelError, connect, send_request
from tests.support.eventually import PATIENCE
from tests.support.tunnel_server import ServerConnection, TunnelServer


class Receiver(asyncio.Protocol):
    def __init__(self):
        self.data = b""
        self.has_ended = asyncio.Event()

    def data_received(self, data):
        self.data += data

    def eof_received(self):
        self.has_ended.set()
        return True

    def connection_lost(self, error):
        self.has_ended.set()


async def test_data_received_after_half_close_arrives(tmp_path):
    received = []

    def script(spoken: ServerConnection):
        while data := spoken.receive():
            received.append(data)
        spoken.send(b"late " * 100_000)

    with TunnelServer(tmp_path, script) as server:
        receiver = Receiver()
        opened = await connect(server.url, server.context, receiver)
        opened.write(b"CONNECT a:1 HTTP/1.1\r\n\r\n")
        opened.write(b"everything")
        opened.write_eof()
        async with asyncio.timeout(PATIENCE):
            await receiver.has_ended.wait()
        assert (b"".join(received), receiver.data) == (b"everything", b"late " * 100_000)
        opened.close()


async def test_data_sent_after_peer_half_close_arrives(tmp_path):
    received = []

    def script(spoken: ServerConnection):
        spoken.finish()
        while data := spoken.receive():
            received.append(data)
        received.append(b".")

    with TunnelServer(tmp_path, script) as server:
        receiver = Receiver()
        opened = await connect(server.url, server.context, receiver)
        opened.write(b"CONNECT a:1 HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            await receiver.has_ended.wait()
            opened.write(b"one more thing")
            opened.write_eof()
            while received[-1:] != [b"."]:
                await asyncio.sleep(0.01)
        assert b"".join(received) == b"one more thing."


async def test_untrusted_server_receives_nothing(tmp_path):
    with TunnelServer(tmp_path, lambda spoken: None) as server:
        with pytest.raises(TunnelError, match=r"not trusted.*--ca"):
            await connect(server.url, ssl.create_default_context(), Receiver())
        with pytest.raises(TunnelError, match="not trusted"):
            await connect(Url("https", "other.localhost", server.url.port), server.context, Receiver())
        assert server.heads == []


async def test_unresponsive_server_is_abandoned(monkeypatch):
    monkeypatch.setattr(tls_connection, "CONNECT_SECONDS", 0.1)
    async with await asyncio.start_server(lambda reader, writer: came.set_result((reader, writer)), "127.0.0.1", 0) as server:
        came = asyncio.get_running_loop().create_future()
        with pytest.raises(TunnelError, match="did not respond"):
            await connect(Url("https", "gate.localhost", server.sockets[0].getsockname()[1]), ssl.create_default_context(), Receiver())
        async with asyncio.timeout(PATIENCE):
            reader, writer = await came
            with contextlib.suppress(ConnectionError):
                while await reader.read(4096):
                    pass
        writer.close()


async def test_unreachable_server_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TunnelError, match=f"gate.localhost:{port} can't be reached"):
        await connect(Url("https", "gate.localhost", port), ssl.create_default_context(), Receiver())


async def test_a_tunnel_begins_right_behind_the_answer(tmp_path):
    def script(spoken: ServerConnection):
        spoken.send(b"HTTP/1.1 200 OK\r\nX-Request-Id: a\r\n\r\nSSH-2.0-x\r\n")
        spoken.receive()

    with TunnelServer(tmp_path, script) as server:
        answer, connection = await send_request(
            server.url, server.context, "CONNECT", "db:22", {"Host": "db:22", "Authorization": "Gate abc"}
        )
        connection.abort()
        assert (answer.status, answer.rest) == (200, b"SSH-2.0-x\r\n")
        head = server.heads[0].split(b"\r\n")
        assert head[0] == b"CONNECT db:22 HTTP/1.1"
        assert {b"Host: db:22", b"Authorization: Gate abc"} <= set(head)


@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\nConnection: close\r\n\r\nno way", 403, "no way"),
        (b"HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nwho\r\n0\r\n\r\n", 401, "who"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nnothing", 404, "nothing"),
    ],
)
async def test_refusal_is_read_completely(tmp_path, sent, status, body):
    with TunnelServer(tmp_path, lambda spoken: spoken.send(sent)) as server:
        answer, _ = await send_request(server.url, server.context, "CONNECT", "db:22", {"Host": "db:22"})
        assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize("sent", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 2\r\n\r\n"])
async def test_non_http_server_is_no_gate(tmp_path, sent):
    with TunnelServer(tmp_path, lambda spoken: spoken.send(sent)) as server, pytest.raises(TunnelError, match="the address of gate"):
        await send_request(server.url, server.context, "GET", "/", {"Host": "db"})
