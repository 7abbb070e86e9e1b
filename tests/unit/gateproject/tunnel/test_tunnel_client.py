"""Each local connection has a separate tunnel, with one sign-in for all."""

import asyncio

import pytest

from gateproject.tunnel.access_tokens import AccessTokens
from gateproject.tunnel.oauth_client import discover
from gateproject.tunnel.tls_connection import TunnelError
from gateproject.tunnel.token_file import TokenFile
from gateproject.tunnel.tunnel_client import SignInRequired, TunnelClient
from tests.support.eventually import PATIENCE
from tests.support.fake_gate import TUNNEL, FakeGate


class Stage:
    def __init__(self, gate: FakeGate, directory, token=""):
        self.gate, self.sign_ins, self.messages, self.error = gate, 0, [], ""
        self.file = TokenFile(directory, TUNNEL, gate.url)
        tokens = AccessTokens(self.file, lambda: discover(gate.gate, TUNNEL), self._sign_in, self.messages.append)
        self.tunnels = TunnelClient(TUNNEL.host_port, gate.gate, token or tokens, self.messages.append)

    async def _sign_in(self, server):
        self.sign_ins += 1
        await asyncio.sleep(0.05)
        if self.error:
            raise TunnelError(self.error)
        self.gate.device = "a"
        return await server.request_tokens("device", device_code="a")

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


@pytest.fixture
def gate(tmp_path):
    with FakeGate(tmp_path) as running:
        yield running


async def test_concurrent_connections_sign_in_once_and_each_closes_its_own_direction(gate, tmp_path):
    stage = Stage(gate, tmp_path / "tokens")
    big = b"0123456789" * 100_000
    assert await asyncio.gather(*map(stage.echoed, (b"a", b"b", big))) == [b"a", b"b", big]
    assert (stage.sign_ins, stage.file.read().access_token) == (1, "access-1")
    assert await stage.echoed(b"c") == b"c"
    assert stage.sign_ins == 1


async def test_concurrent_connections_share_the_error_of_a_sign_in(gate, tmp_path):
    stage = Stage(gate, tmp_path / "tokens")
    stage.error = "denied"
    assert await asyncio.gather(*map(stage.echoed, (b"a", b"b", b"c"))) == [b""] * 3
    assert stage.sign_ins < 3
    assert set(stage.messages) == {"denied"}
    stage.error = ""
    assert await stage.echoed(b"d") == b"d"


async def test_token_of_an_ended_session_is_replaced(gate, tmp_path):
    stage = Stage(gate, tmp_path / "tokens")
    await stage.echoed(b"a")
    gate.end_session()
    assert await stage.echoed(b"b") == b"b"
    assert (stage.sign_ins, stage.file.read().access_token) == (2, "access-2")


async def test_expired_token_is_refreshed_before_a_connection(gate, tmp_path):
    gate.expires_in = 1
    stage = Stage(gate, tmp_path / "tokens")
    assert [await stage.echoed(data) for data in (b"a", b"b")] == [b"a", b"b"]
    assert (stage.sign_ins, gate.count("refresh_token")) == (1, 1)


async def test_own_token_is_sent_as_it_is_and_never_replaced(gate, tmp_path):
    assert await Stage(gate, tmp_path / "tokens", "good").echoed(b"a") == b"a"
    stage = Stage(gate, tmp_path / "tokens", "bad")
    with pytest.raises(SignInRequired, match="refused: who"):
        await stage.tunnels.open()
    assert await stage.echoed(b"a") == b""
    assert (stage.messages, stage.sign_ins) == (["refused: who"], 0)
    assert not (tmp_path / "tokens").exists()
