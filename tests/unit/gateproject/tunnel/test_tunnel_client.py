"""Each local connection has a separate tunnel, with one sign-in for all."""

import asyncio

import pytest

from gateproject.tunnel.token_file import TokenFile
from gateproject.tunnel.tunnel_client import SignInRequired, TunnelClient
from tests.support.tunnel_server import Spoken, TunnelServer

SOON = 15.0  # seconds


def gate(spoken: Spoken) -> None:
    """Lets `good` in, and echoes until everything is said."""
    if b"Authorization: Gate good\r\n" not in spoken.head:
        spoken.say(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwho")
        return
    spoken.say(b"HTTP/1.1 200 OK\r\n\r\n")
    heard = b""
    while data := spoken.hear():
        heard += data
    spoken.say(heard)


class Stage:
    def __init__(self, server, directory, *, may_ask=True, token=""):
        self.asked, self.told = 0, []
        self.file = TokenFile(directory, "db.localhost", server.url.origin)
        self.tunnels = TunnelClient(
            "db.localhost:22", server.url, server.context, self.file, self._sign_in if may_ask else None, self.told.append, token
        )

    async def _sign_in(self):
        self.asked += 1
        await asyncio.sleep(0.05)
        return "good"

    async def echoed(self, said: bytes) -> bytes:
        server = await asyncio.get_running_loop().create_server(self.tunnels.accept, "127.0.0.1", 0)
        async with server, asyncio.timeout(SOON):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(said)
            writer.write_eof()
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()


async def test_several_connections_ask_once_and_each_side_ends_its_own_direction(tmp_path):
    with TunnelServer(tmp_path, gate) as server:
        stage = Stage(server, tmp_path / "tokens")
        big = b"0123456789" * 100_000
        assert await asyncio.gather(*map(stage.echoed, (b"a", b"b", big))) == [b"a", b"b", big]
        assert (stage.asked, stage.file.read()) == (1, "good")
        assert await stage.echoed(b"c") == b"c"
        assert stage.asked == 1


async def test_a_token_that_is_refused_is_replaced(tmp_path):
    with TunnelServer(tmp_path, gate) as server:
        stage = Stage(server, tmp_path / "tokens")
        stage.file.write("old")
        assert await stage.echoed(b"a") == b"a"
        assert (stage.asked, stage.file.read()) == (1, "good")


async def test_where_nobody_may_be_asked_a_refusal_is_said(tmp_path):
    with TunnelServer(tmp_path, gate) as server:
        stage = Stage(server, tmp_path / "tokens", may_ask=False, token="bad")
        with pytest.raises(SignInRequired, match="refused: who"):
            await stage.tunnels.open()
        assert await stage.echoed(b"a") == b""
        assert stage.told == ["refused: who"]
