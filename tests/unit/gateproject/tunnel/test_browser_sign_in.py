"""Only the token from the user's own browser is accepted."""

import asyncio
import os
import socket
from urllib.parse import parse_qs, urlsplit

import pytest

from gateproject.tunnel.browser_sign_in import ROOT, owned_by_other_user, sign_in
from gateproject.tunnel.tls_connection import TunnelError
from tests.support.eventually import PATIENCE
from tests.support.other_user import OTHER, echo_process
from tests.support.tunnel_server import ServerConnection, TunnelServer

PAGE = "https://auth.localhost/.gate/sign_in?a=b"


def offering(address: str):
    def script(spoken: ServerConnection):
        spoken.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(address), address.encode()))

    return script


async def browse(url: str, method: str = "GET") -> bytes:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"{method} {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.split(b"\r\n")[0]


async def test_user_is_redirected_to_the_page_and_token_returns(tmp_path):
    displayed: asyncio.Queue[str] = asyncio.Queue()
    with TunnelServer(tmp_path, offering(PAGE)) as server:
        async with asyncio.timeout(PATIENCE):
            signing_in = asyncio.ensure_future(sign_in("db.localhost", 5432, server.url, server.context, displayed.put_nowait))
            assert await displayed.get() == PAGE
            head = server.heads[0].decode()
            assert f"Host: db.localhost:{server.url.port}" in head
            query = parse_qs(urlsplit(head.split(" ")[1]).query)
            back = query["gate_redirect_uri"][0]
            assert query["gate_tunnel_port"] == ["5432"]
            assert urlsplit(back).hostname == "127.0.0.1"
            no_url = back.replace("/?", "//[?")
            for invalid in (
                no_url,
                back,
                f"{back}&gate_jwt=",
                f"{back}&gate_jwt=a&gate_jwt=b",
                f"{back.partition('?')[0]}?state=x&gate_jwt=evil",
            ):
                assert await browse(invalid) == b"HTTP/1.1 404 Not Found"
            assert await browse(f"{back}&gate_jwt=evil", "POST") == b"HTTP/1.1 404 Not Found"
            assert not signing_in.done()
            assert await browse(f"{back}&gate_jwt=good") == b"HTTP/1.1 200 OK"
            assert await signing_in == "good"


async def test_connection_of_another_local_user_is_rejected(tmp_path):
    displayed: asyncio.Queue[str] = asyncio.Queue()
    with TunnelServer(tmp_path, offering(PAGE)) as server:
        async with asyncio.timeout(PATIENCE):
            signing_in = asyncio.ensure_future(sign_in("db.localhost", 5432, server.url, server.context, displayed.put_nowait, OTHER + 1))
            await displayed.get()
            back = urlsplit(parse_qs(urlsplit(server.heads[0].decode().split(" ")[1]).query)["gate_redirect_uri"][0])
            planted = f"GET /?{back.query}&gate_jwt=theirs HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            with echo_process(back.port, planted) as client:
                answer = await asyncio.to_thread(client.stdout.read)
            assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
            assert not signing_in.done()
            signing_in.cancel()


@pytest.mark.parametrize("address", ["file:///etc/passwd", "javascript:alert(1)", "--help", "https://a b", ""])
async def test_a_browser_is_started_with_a_web_address_alone(tmp_path, address):
    with TunnelServer(tmp_path, offering(address)) as server, pytest.raises(TunnelError, match="the response has no"):
        await sign_in("db.localhost", 5432, server.url, server.context, lambda url: None)


async def test_gate_without_sign_in_reports_reason(tmp_path):
    refusal = b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\nConnection: close\r\n\r\nnothing"
    with TunnelServer(tmp_path, lambda spoken: spoken.send(refusal)) as server, pytest.raises(TunnelError, match=r"no sign-in.*nothing"):
        await sign_in("db.localhost", 5432, server.url, server.context, lambda url: None)


OWN_UID = os.getuid()


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_own_connection_belongs_to_this_user_only(server):
    with socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
        assert not owned_by_other_user(accepted, OWN_UID)
        # As root, the tests cannot be distinguished from a forwarder of the browser's connection.
        assert owned_by_other_user(accepted, OWN_UID + 1) is (OWN_UID != ROOT)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_connection_of_another_user_is_rejected(server, address):
    with echo_process(server.getsockname()[1], b"x", address) as client, server.accept()[0] as accepted:
        assert accepted.recv(1) == b"x"
        assert owned_by_other_user(accepted, OTHER + 1)
        assert not owned_by_other_user(accepted, OTHER)
        client.terminate()


def test_closed_connection_has_no_user(server):
    with socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client:
        accepted = server.accept()[0]
    assert client.fileno() == -1
    with accepted:
        assert owned_by_other_user(accepted, OWN_UID)
