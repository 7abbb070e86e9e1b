"""Each direction of TLS ends by itself; who not trusted or reached is named."""

import asyncio
import contextlib
import socket
import ssl

import pytest

from foundation.values import Url
from gateproject.tunnel import connection
from gateproject.tunnel.connection import TunnelFailed, connect
from tests.support.tunnel_server import Spoken, TunnelServer

SOON = 10.0  # seconds


class Heard(asyncio.Protocol):
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


async def test_what_is_said_after_we_have_said_everything_still_comes(tmp_path):
    said = []

    def script(spoken: Spoken):
        while data := spoken.hear():
            said.append(data)
        spoken.say(b"late " * 100_000)

    with TunnelServer(tmp_path, script) as server:
        heard = Heard()
        opened = await connect(server.url, server.context, heard)
        opened.write(b"CONNECT a:1 HTTP/1.1\r\n\r\n")
        opened.write(b"everything")
        opened.write_eof()
        async with asyncio.timeout(SOON):
            await heard.has_ended.wait()
        assert (b"".join(said), heard.data) == (b"everything", b"late " * 100_000)
        opened.close()


async def test_what_we_say_after_the_other_side_has_said_everything_still_goes(tmp_path):
    said = []

    def script(spoken: Spoken):
        spoken.finish()
        while data := spoken.hear():
            said.append(data)
        said.append(b".")

    with TunnelServer(tmp_path, script) as server:
        heard = Heard()
        opened = await connect(server.url, server.context, heard)
        opened.write(b"CONNECT a:1 HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(SOON):
            await heard.has_ended.wait()
            opened.write(b"one more thing")
            opened.write_eof()
            while said[-1:] != [b"."]:
                await asyncio.sleep(0.01)
        assert b"".join(said) == b"one more thing."


async def test_a_server_that_is_not_vouched_for_hears_nothing(tmp_path):
    with TunnelServer(tmp_path, lambda spoken: None) as server:
        with pytest.raises(TunnelFailed, match=r"not trusted.*--ca"):
            await connect(server.url, ssl.create_default_context(), Heard())
        with pytest.raises(TunnelFailed, match="not trusted"):
            await connect(Url("https", "other.localhost", server.url.port), server.context, Heard())
        assert server.heads == []


async def test_who_does_not_answer_is_left(monkeypatch):
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.1)
    async with await asyncio.start_server(lambda reader, writer: came.set_result((reader, writer)), "127.0.0.1", 0) as server:
        came = asyncio.get_running_loop().create_future()
        with pytest.raises(TunnelFailed, match="did not respond"):
            await connect(Url("https", "gate.localhost", server.sockets[0].getsockname()[1]), ssl.create_default_context(), Heard())
        async with asyncio.timeout(SOON):
            reader, writer = await came
            with contextlib.suppress(ConnectionError):
                while await reader.read(4096):
                    pass
        writer.close()


async def test_who_can_not_be_reached_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TunnelFailed, match=f"gate.localhost:{port} can't be reached"):
        await connect(Url("https", "gate.localhost", port), ssl.create_default_context(), Heard())
