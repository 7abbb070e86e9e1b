"""One question and its answer, or a tunnel."""

import pytest

from gateproject.tunnel.connection import TunnelFailed
from gateproject.tunnel.http_exchange import ask
from tests.support.tunnel_server import Spoken, TunnelServer


async def test_a_tunnel_begins_right_behind_the_answer(tmp_path):
    def script(spoken: Spoken):
        spoken.say(b"HTTP/1.1 200 OK\r\nX-Request-Id: a\r\n\r\nSSH-2.0-x\r\n")
        spoken.hear()

    with TunnelServer(tmp_path, script) as server:
        answer, connection = await ask(server.url, server.context, "CONNECT", "db:22", "db:22", "abc")
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
async def test_a_refusal_is_read_whole(tmp_path, sent, status, body):
    with TunnelServer(tmp_path, lambda spoken: spoken.say(sent)) as server:
        answer, _ = await ask(server.url, server.context, "CONNECT", "db:22", "db:22")
        assert (answer.status, answer.body) == (status, body)
        assert b"Authorization" not in server.heads[0]


@pytest.mark.parametrize("sent", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 2\r\n\r\n"])
async def test_what_is_no_http_is_no_gate(tmp_path, sent):
    with TunnelServer(tmp_path, lambda spoken: spoken.say(sent)) as server, pytest.raises(TunnelFailed, match="the address of gate"):
        await ask(server.url, server.context, "GET", "/", "db")
