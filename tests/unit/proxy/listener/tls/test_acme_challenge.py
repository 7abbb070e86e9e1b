"""TLS-ALPN-01 validations get the challenge response; other connections are unchanged."""

import contextlib
import hashlib
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509

from tests.support.certs import CertificateFiles, certificate_files
from tests.support.raw_http import RawClient
from tests.unit.proxy.listener.conftest import start

from .test_client_hello import ACME, records

HOST = "app.example.com"
PROOF = "token.thumbprint"
REQUEST = f"GET /_/state HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


@dataclass(frozen=True)
class Listener:
    port: int
    files: CertificateFiles
    has_proxy_header: bool = False

    def context(self, *protocols: str) -> ssl.SSLContext:
        if protocols == ("acme-tls/1",):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        else:
            context = self.files.client_context()
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context


def challenge(directory: Path, kind: str = "tls-alpn-01") -> None:
    (directory / "challenge.json").write_text(json.dumps({"host": HOST, "kind": kind, "token": "token", "key_authorization": PROOF}))


def listening(directory: Path, **settings: object) -> Iterator[Listener]:
    files = certificate_files(directory, HOST, "other.example.com")
    pair = {"certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    child, port = start(directory, insecure_server=None, autocert=True, timeout_read="1s", **pair, **settings)
    with child:
        yield Listener(port, files)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    directory = tmp_path_factory.mktemp("tls")
    challenge(directory)
    yield from listening(directory)


@pytest.fixture(scope="module")
def other_kind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    directory = tmp_path_factory.mktemp("other")
    challenge(directory, "http-01")
    yield from listening(directory)


@pytest.mark.parametrize("server_name", [HOST, "APP.Example.com"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_authority_gets_the_proof(tls: Listener, server_name: str, version: ssl.TLSVersion) -> None:
    context = tls.context("acme-tls/1")
    context.minimum_version = context.maximum_version = version
    with RawClient(tls.port, tls=context, server_name=server_name) as client:
        assert client.socket.selected_alpn_protocol() == "acme-tls/1"
        presented = x509.load_der_x509_certificate(client.socket.getpeercert(binary_form=True))
        proof = presented.extensions.get_extension_for_oid(x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31"))
        assert proof.value.value[2:] == hashlib.sha256(PROOF.encode()).digest()


def test_no_request_ever_travels_on_such_a_connection(tls: Listener) -> None:
    ended = contextlib.suppress(ssl.SSLError, ConnectionError)
    with RawClient(tls.port, tls=tls.context("acme-tls/1"), server_name=HOST) as client, ended:
        client.send(REQUEST)
        assert client.socket.recv(1000) == b""


def test_a_hello_in_many_pieces_is_the_same(tls: Listener) -> None:
    with socket.create_connection(("127.0.0.1", tls.port), 10) as client:
        for part in (ACME[:3], ACME[3:60], ACME[60:]):
            client.sendall(part)
            time.sleep(0.02)
        assert client.recv(5)[0] == 22, "a handshake record: ServerHello"


@pytest.mark.parametrize("server_name", ["other.example.com", None])
def test_a_host_without_a_challenge_ends_the_handshake(tls: Listener, server_name: str | None) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        RawClient(tls.port, tls=tls.context("acme-tls/1"), server_name=server_name)


def test_challenge_of_other_type_is_rejected(other_kind: Listener) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        RawClient(other_kind.port, tls=other_kind.context("acme-tls/1"), server_name=HOST)


@pytest.mark.parametrize("protocols", [(), ("http/1.1",), ("h2", "http/1.1"), ("http/1.1", "acme-tls/1"), ("acme-tls/1", "http/1.1")])
def test_other_clients_are_served_unchanged(tls: Listener, protocols: tuple[str, ...]) -> None:
    with RawClient(tls.port, tls=tls.context(*protocols), server_name=HOST) as client:
        assert client.socket.selected_alpn_protocol() == ("http/1.1" if protocols else None)
        assert client.send(REQUEST).response().status == 200


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", records(ACME[5:], 1)[:-6] + b"\xff" * 6]
)
def test_openssl_refuses_invalid_hello(tls: Listener, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", tls.port), 10) as client:
        client.sendall(sent)
        assert b"HTTP" not in client.recv(1000)


@pytest.mark.parametrize("sent", [b"", ACME[:40]], ids=["nothing", "half of it"])
def test_incomplete_hello_times_out(tls: Listener, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", tls.port), 30) as client:
        client.sendall(sent)
        with contextlib.suppress(ConnectionError):
            assert client.recv(10) == b""


def test_behind_a_balancer_the_authority_is_found_too(tmp_path: Path) -> None:
    challenge(tmp_path)
    for tls in listening(tmp_path, use_proxy_protocol=True):
        with socket.create_connection(("127.0.0.1", tls.port), 10) as plain:
            plain.sendall(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n")
            with tls.context("acme-tls/1").wrap_socket(plain, server_hostname=HOST) as client:
                assert client.selected_alpn_protocol() == "acme-tls/1"
