"""Only the token from the user's own browser is accepted."""

import asyncio
import os
import socket
from urllib.parse import parse_qs, urlsplit

import pytest

from gateproject.tunnel.browser_sign_in import ROOT, owned_by_other_user, sign_in
from gateproject.tunnel.tls_connection import TunnelError
from tests.support.other_user import OTHER, said_by
from tests.support.tunnel_server import Spoken, TunnelServer

SOON = 10.0  # seconds
PAGE = "https://auth.localhost/.gate/sign_in?a=b"


def offering(address: str):
    def script(spoken: Spoken):
        spoken.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(address), address.encode()))

    return script


async def browse(url: str, method: str = "GET") -> bytes:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"{method} {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.split(b"\r\n")[0]


async def test_the_person_is_led_to_the_page_and_the_token_comes_back(tmp_path):
    shown: asyncio.Queue[str] = asyncio.Queue()
    with TunnelServer(tmp_path, offering(PAGE)) as server:
        async with asyncio.timeout(SOON):
            signing_in = asyncio.ensure_future(sign_in("db.localhost", 5432, server.url, server.context, shown.put_nowait))
            assert await shown.get() == PAGE
            head = server.heads[0].decode()
            assert f"Host: db.localhost:{server.url.port}" in head
            query = parse_qs(urlsplit(head.split(" ")[1]).query)
            back = query["gate_redirect_uri"][0]
            assert query["gate_tunnel_port"] == ["5432"]
            assert urlsplit(back).hostname == "127.0.0.1"
            no_url = back.replace("/?", "//[?")
            for wrong in (
                no_url,
                back,
                f"{back}&gate_jwt=",
                f"{back}&gate_jwt=a&gate_jwt=b",
                f"{back.partition('?')[0]}?state=x&gate_jwt=evil",
            ):
                assert await browse(wrong) == b"HTTP/1.1 404 Not Found"
            assert await browse(f"{back}&gate_jwt=evil", "POST") == b"HTTP/1.1 404 Not Found"
            assert not signing_in.done()
            assert await browse(f"{back}&gate_jwt=good") == b"HTTP/1.1 200 OK"
            assert await signing_in == "good"


async def test_what_another_user_of_this_machine_brings_is_not_taken(tmp_path):
    shown: asyncio.Queue[str] = asyncio.Queue()
    with TunnelServer(tmp_path, offering(PAGE)) as server:
        async with asyncio.timeout(SOON):
            signing_in = asyncio.ensure_future(sign_in("db.localhost", 5432, server.url, server.context, shown.put_nowait, OTHER + 1))
            await shown.get()
            back = urlsplit(parse_qs(urlsplit(server.heads[0].decode().split(" ")[1]).query)["gate_redirect_uri"][0])
            said = f"GET /?{back.query}&gate_jwt=theirs HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            with said_by(back.port, said) as client:
                answer = await asyncio.to_thread(client.stdout.read)
            assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
            assert not signing_in.done()
            signing_in.cancel()


@pytest.mark.parametrize("address", ["file:///etc/passwd", "javascript:alert(1)", "--help", "https://a b", ""])
async def test_a_browser_is_started_with_a_web_address_alone(tmp_path, address):
    with TunnelServer(tmp_path, offering(address)) as server, pytest.raises(TunnelError, match="the response has no"):
        await sign_in("db.localhost", 5432, server.url, server.context, lambda shown: None)


async def test_a_gate_that_offers_no_sign_in_says_why(tmp_path):
    refusal = b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\nConnection: close\r\n\r\nnothing"
    with TunnelServer(tmp_path, lambda spoken: spoken.say(refusal)) as server, pytest.raises(TunnelError, match=r"no sign-in.*nothing"):
        await sign_in("db.localhost", 5432, server.url, server.context, lambda shown: None)


OURS = os.getuid()


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_our_own_connection_is_ours_and_nobody_else_s(server):
    with socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
        assert not owned_by_other_user(accepted, OURS)
        # As root, the tests cannot be distinguished from a forwarder of the browser's connection.
        assert owned_by_other_user(accepted, OURS + 1) is (OURS != ROOT)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_what_another_user_opens_is_not_ours(server, address):
    with said_by(server.getsockname()[1], b"x", address) as client, server.accept()[0] as accepted:
        assert accepted.recv(1) == b"x"
        assert owned_by_other_user(accepted, OTHER + 1)
        assert not owned_by_other_user(accepted, OTHER)
        client.terminate()


def test_who_has_left_is_nobody(server):
    with socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client:
        accepted = server.accept()[0]
    assert client.fileno() == -1
    with accepted:
        assert owned_by_other_user(accepted, OURS)
