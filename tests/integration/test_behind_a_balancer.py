"""A real HAProxy in front of gate, speaking the PROXY protocol; and the listener that leads http to https."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from tests.support.certs import CertificateFiles, certificate_files
from tests.support.children import Child, free_port, is_open, wait_until
from tests.support.fork_server import python
from tests.support.options import MINIMAL
from tests.support.raw_http import RawClient, exchange
from tests.support.upstream import SampleUpstream

HOST, DATABASE = "app.localhost", "db.localhost"
CLIENT = "127.0.0.77"  # an address of this machine that nothing else uses
CONFIGURATION = """
defaults
    mode tcp
    timeout connect 10s
    timeout client 30s
    timeout server 30s
frontend first
    bind 127.0.0.1:{first}
    default_backend version1
frontend second
    bind 127.0.0.1:{second}
    default_backend version2
backend version1
    server gate 127.0.0.1:{gate} send-proxy
backend version2
    server gate 127.0.0.1:{gate} send-proxy-v2 proxy-v2-options ssl,unique-id
"""


@dataclass(frozen=True)
class Balanced:
    gate: int
    first: int
    second: int
    redirect: int
    child: Child
    certificates: CertificateFiles


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def balanced(request: pytest.FixtureRequest, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    directory = tmp_path_factory.mktemp("balanced")
    gate, first, second, redirect = (free_port() for _ in range(4))
    certificates = certificate_files(directory, HOST, DATABASE)
    only_client = {"policy": {"allow": {"source_ip": f"{CLIENT}/32"}}}
    to_tcp = upstream.url.replace("http://", "tcp://")
    settings = {
        "data_plane": request.param,
        "address": f"127.0.0.1:{gate}",
        "insecure_server": None,
        "certificate_file": str(certificates.certificate),
        "certificate_key_file": str(certificates.key),
        "use_proxy_protocol": True,
        "http_redirect_addr": f"127.0.0.1:{redirect}",
        "data_dir": str(directory / "data"),
        "grpc_address": "",
        "policy": [
            {"from": f"https://{HOST}", "to": upstream.url, **only_client},
            {"from": f"tcp+https://{DATABASE}:5432", "to": to_tcp, **only_client},
        ],
    }
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in {**MINIMAL, **settings}.items() if value is not None}))
    configuration = directory / "haproxy.cfg"
    configuration.write_text(CONFIGURATION.format(first=first, second=second, gate=gate))
    with python("manage.py", "rungate", "-config", path) as child:
        child.wait_for(lambda: any(event.get("event") == "gate is ready" for event in child.events), "gate is ready")
        with Child("haproxy", "-db", "-f", configuration) as haproxy:
            haproxy.wait_for(lambda: all(is_open(port) for port in (first, second)), "HAProxy answers")
            yield Balanced(gate, first, second, redirect, child, certificates)


def status_from(balanced: Balanced, address: str, port: int, host: str = HOST, line: str = "GET /private") -> int:
    """The status that a client at this address gets through this port."""
    tls = balanced.certificates.client_context()
    name = line.removeprefix("CONNECT ") if host == DATABASE else host
    request = f"{line} HTTP/1.1\r\nHost: {name}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    raw = socket.create_connection(("127.0.0.1", port), 10, source_address=(address, 0))
    with tls.wrap_socket(raw, server_hostname=host) as secure:
        secure.sendall(request.encode())
        return int(secure.recv(65536).split(b" ", 2)[1])


@pytest.mark.parametrize("version", ["first", "second"])
def test_rules_see_the_client_and_not_the_balancer(balanced: Balanced, version: str) -> None:
    port = getattr(balanced, version)
    assert status_from(balanced, CLIENT, port) == 200
    assert status_from(balanced, "127.0.0.1", port) != 200
    tunnel = {"host": DATABASE, "line": f"CONNECT {DATABASE}:5432"}
    assert status_from(balanced, CLIENT, port, **tunnel) == 200
    assert status_from(balanced, "127.0.0.1", port, **tunnel) != 200
    wait_until(
        lambda: {CLIENT, "127.0.0.1"} <= {str(value) for event in balanced.child.events for value in event.values()}, "both are logged"
    )


def test_connection_without_proxy_header_is_refused(balanced: Balanced) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - reset, or the end of the stream
        RawClient(balanced.gate, tls=balanced.certificates.client_context(), server_name=HOST)


def test_http_is_led_to_https(balanced: Balanced) -> None:
    response, _ = exchange(
        balanced.redirect, f"POST /a?b=%20 HTTP/1.1\r\nHost: {HOST}:{balanced.redirect}\r\nContent-Length: 0\r\n\r\n".encode()
    )
    assert (response.status, response.header("location")) == (301, f"https://{HOST}/a?b=%20")
    assert response.announces_close
    assert exchange(balanced.redirect, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")[0].status == 200
    assert exchange(balanced.redirect, b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n")[0].status == 400
