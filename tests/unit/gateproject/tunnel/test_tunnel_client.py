"""Each local connection has a separate tunnel, with one sign-in for all."""

import asyncio

import pytest

from gateproject.tunnel.token_file import TokenFile
from gateproject.tunnel.tunnel_client import SignInRequired, TunnelClient
from tests.support.eventually import PATIENCE
from tests.support.tunnel_server import ServerConnection, TunnelServer


def gate(spoken: ServerConnection) -> None:
    """Lets `good` in, and echoes until everything is said."""
    if b"Authorization: Gate good\r\n" not in spoken.head:
        spoken.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwho")
        return
    spoken.send(b"HTTP/1.1 200 OK\r\n\r\n")
    received = b""
    while data := spoken.receive():
        received += data
    spoken.send(received)


class Stage:
    def __init__(self, server, directory, *, may_ask=True, token=""):
        self.sign_ins, self.messages = 0, []
        self.file = TokenFile(directory, "db.localhost", server.url.origin)
        self.tunnels = TunnelClient(
            "db.localhost:22", server.url, server.context, self.file, self._sign_in if may_ask else None, self.messages.append, token
        )

    async def _sign_in(self):
        self.sign_ins += 1
        await asyncio.sleep(0.05)
        return "good"

    async def echoed(self, data: bytes) -> bytes:
        server = await asyncio.get_running_loop().create_server(self.tunnels.accept, "127.0.0.1", 0)
        async with server, asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(data)
            writer.write_eof()
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()


async def test_concurrent_connections_sign_in_once_and_each_closes_its_own_direction(tmp_path):
    with TunnelServer(tmp_path, gate) as server:
        stage = Stage(server, tmp_path / "tokens")
        big = b"0123456789" * 100_000
        assert await asyncio.gather(*map(stage.echoed, (b"a", b"b", big))) == [b"a", b"b", big]
        assert (stage.sign_ins, stage.file.read()) == (1, "good")
        assert await stage.echoed(b"c") == b"c"
        assert stage.sign_ins == 1


async def test_a_token_that_is_refused_is_replaced(tmp_path):
    with TunnelServer(tmp_path, gate) as server:
        stage = Stage(server, tmp_path / "tokens")
        stage.file.write("old")
        assert await stage.echoed(b"a") == b"a"
        assert (stage.sign_ins, stage.file.read()) == (1, "good")


async def test_refusal_is_reported_where_prompting_is_impossible(tmp_path):
    with TunnelServer(tmp_path, gate) as server:
        stage = Stage(server, tmp_path / "tokens", may_ask=False, token="bad")
        with pytest.raises(SignInRequired, match="refused: who"):
            await stage.tunnels.open()
        assert await stage.echoed(b"a") == b""
        assert stage.messages == ["refused: who"]
