import json
import socket

import pytest

from tests.support.certs import certificate_files
from tests.support.raw_http import RawClient, exchange
from tests.unit.proxy.listener.conftest import SHORT, start
from tests.unit.proxy.listener.proxy_protocol.test_proxy_header import UNIX, VALID, tcp4, v2

V1 = b"PROXY TCP4 192.0.2.7 10.0.0.1 1234 443\r\n"
STATE = b"GET /_/state HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    child, port = start(tmp_path_factory.mktemp("balanced"), use_proxy_protocol=True)
    with child:
        yield port


@pytest.fixture(scope="module")
def hasty_port(tmp_path_factory):
    child, port = start(tmp_path_factory.mktemp("hasty"), use_proxy_protocol=True, **SHORT)
    with child:
        yield port


def client_seen(port, header):
    """The `client` of the ASGI scope of one request behind this header."""
    with RawClient(port) as client:
        assert client.send(header + b"GET /seen HTTP/1.1\r\nHost: x\r\n\r\n").response().status == 200
    response, _ = exchange(port, V1 + STATE)
    return json.loads(response.body)["calls"][-1]["client"]


def is_closed_without_a_byte(client):
    try:
        return client.socket.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(("header", "source"), VALID)
def test_client_address_comes_from_proxy_header(port, header, source):
    seen = client_seen(port, header)
    if source is None:
        assert seen[0] == "127.0.0.1"
    elif source == ("", 0):
        assert seen is None
    else:
        assert tuple(seen) == source


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PROXY TCP4 nobody 10.0.0.1 1234 443\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PROXY TCP4 " + b"1" * 200,
        v2(addresses=tcp4(), length=60_000),
        v2(family=UNIX, addresses=bytes(20)),
        b"\x16\x03\x01" + bytes(200),
    ],
)
def test_connection_without_valid_header_gets_no_byte(port, data):
    with RawClient(port) as client:
        client.send(data)
        assert is_closed_without_a_byte(client)


def test_second_proxy_header_is_a_400(port):
    with RawClient(port) as client:
        assert client.send(V1 + V1 + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").response().status == 400


def test_a_header_may_come_byte_by_byte_and_several_requests_follow_it(port):
    with RawClient(port) as client:
        for byte in v2(addresses=tcp4()):
            client.send(bytes([byte]))
        for _ in range(2):
            assert client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").response().status == 200


@pytest.mark.parametrize("start_of_it", [b"", b"PROXY TCP4 1", v2(addresses=tcp4())[:20]])
def test_proxy_header_timeout_closes_connection(hasty_port, start_of_it):
    with RawClient(hasty_port) as client:
        if start_of_it:
            client.send(start_of_it)
        assert is_closed_without_a_byte(client)


def test_trickling_proxy_header_does_not_extend_timeout(hasty_port):
    with RawClient(hasty_port) as client:
        client.socket.settimeout(0.02)
        for byte in (bytes([byte]) for byte in b"PROXY UNKNOWN " + b"x" * 80):  # 1.9 s, where 0.2 s are allowed
            try:
                client.send(byte)
                if not client.socket.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return
        raise AssertionError("was waited for")


def test_proxy_header_precedes_tls(tmp_path):
    files = certificate_files(tmp_path, "app.localhost")
    tls = {"insecure_server": False, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    child, port = start(tmp_path, use_proxy_protocol=True, **tls)
    context = files.client_context()
    with child:
        with socket.create_connection(("127.0.0.1", port), 10) as raw:
            raw.sendall(v2(addresses=tcp4("198.51.100.9", 4321), tlvs=b"\x02\x00\x0dapp.localhost"))
            with context.wrap_socket(raw, server_hostname="app.localhost") as secure:
                secure.sendall(STATE)
                answer = b""
                while chunk := secure.recv(65536):
                    answer += chunk
        assert answer.startswith(b"HTTP/1.1 200")
        with pytest.raises(OSError):  # noqa: PT011 - reset, or the end of the stream: either way no TLS
            RawClient(port, tls=context, server_name="app.localhost")


def test_proxy_header_without_the_setting_is_a_400(canary):
    response, _ = canary.ask(V1 + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert response.status == 400
