"""Names, versions and ciphers on real TLS connections."""

import contextlib
import socket
import ssl
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from OpenSSL import SSL

from config.fields.pem import dns_names
from foundation.errors import ConfigError
from foundation.values import CertificatePair, SecretBytes
from proxy.autocert.stored_certificate import CertificateChain, CertificateRequest, StoredCertificate
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.server_certificates import Certificates, load_context, tls_info
from tests.support.certs import certificate_files, self_signed_client
from tests.support.client_certificates import authority
from tests.support.issuing import NOW, Issuer
from tests.support.raw_http import RawClient
from tests.unit.proxy.listener.conftest import start

NAMES = (("first.example.com",), ("app.example.com", "*.example.org"), ("*.app.example.com",))


@dataclass(frozen=True)
class TlsListener:
    port: int
    directory: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        for number in range(len(NAMES)):
            context.load_verify_locations(str(self.directory / str(number) / "ca.pem"))
        return context

    def names_for(self, server_name: str | None) -> set[str]:
        with RawClient(self.port, tls=self.context(), server_name=server_name) as client:
            return {value for _, value in client.socket.getpeercert()["subjectAltName"]}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsListener]:
    directory = tmp_path_factory.mktemp("tls")
    pairs = []
    for number, names in enumerate(NAMES):
        (directory / str(number)).mkdir()
        files = certificate_files(directory / str(number), *names)
        pairs.append({"cert": str(files.certificate), "key": str(files.key)})
    child, port = start(directory, insecure_server=None, certificates=pairs)
    with child:
        yield TlsListener(port, directory)


@pytest.mark.parametrize(
    ("server_name", "pair"),
    [
        ("first.example.com", 0),
        ("app.example.com", 1),
        ("APP.Example.com", 1),
        ("any.example.org", 1),
        ("one.app.example.com", 2),
        ("two.one.app.example.com", 0),
        ("example.org", 0),
        ("unknown.example.com", 0),
        (None, 0),
    ],
)
def test_the_certificate_is_chosen_by_exact_name_then_wildcard_then_first(tls, server_name, pair):
    assert tls.names_for(server_name) == set(NAMES[pair])


def test_a_request_over_tls_is_https(tls):
    with RawClient(tls.port, tls=tls.context(), server_name="app.example.com") as client:
        assert client.send(b"GET /_/reset HTTP/1.1\r\nHost: app.example.com\r\n\r\n").response().status == 200
        client.send(b"GET / HTTP/1.1\r\nHost: app.example.com\r\n\r\n").response()
        body = client.send(b"GET /_/state HTTP/1.1\r\nHost: app.example.com\r\n\r\n").response().body
    assert b'"scheme": "https"' in body


def test_only_http_1_is_offered(tls):
    context = tls.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with RawClient(tls.port, tls=context, server_name="app.example.com") as client:
        assert client.socket.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_current_versions_are_spoken_with_forward_secrecy(tls, version):
    context = tls.context()
    context.minimum_version = context.maximum_version = version
    with RawClient(tls.port, tls=context, server_name="app.example.com") as client:
        assert client.socket.cipher()[0].startswith(("ECDHE-", "TLS_"))


def test_old_versions_are_refused(tls):
    context = tls.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        RawClient(tls.port, tls=context, server_name="app.example.com")


def test_weak_ciphers_are_refused(tls):
    context = tls.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA:AES256-SHA:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        RawClient(tls.port, tls=context, server_name="app.example.com")


def test_unread_tls_download_blocks_send(tls):
    with RawClient(tls.port, tls=tls.context(), server_name="app.example.com") as control:
        control.send(b"GET /_/reset HTTP/1.1\r\nHost: app.example.com\r\n\r\n").response()
        with RawClient(tls.port, tls=tls.context(), server_name="app.example.com") as client:
            client.send(b"GET /flood HTTP/1.1\r\nHost: app.example.com\r\n\r\n")
            sent, before = 0, -1
            while sent != before or sent == 0:
                before = sent
                socket.create_connection(("127.0.0.1", tls.port)).close()
                body = control.send(b"GET /_/state HTTP/1.1\r\nHost: app.example.com\r\n\r\n").response().body
                sent = int(body.partition(b'"sent": ')[2].partition(b",")[0])
            assert sent < 20 * 1024 * 1024
            client._until(b"\r\n\r\n")
            assert len(client.chunk()) == 65536


def test_a_refusal_over_tls_ends_with_a_clean_close(tls):
    with RawClient(tls.port, tls=tls.context(), server_name="app.example.com") as client:
        assert client.send(b"GET / HTTP/1.0\r\n\r\n").response().status == 426
        assert client.socket.recv(1) == b""


def test_plain_http_on_the_tls_port_is_closed(tls):
    with RawClient(tls.port) as client:
        assert b"200" not in client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").rest()


def test_mismatched_key_is_a_config_error(tmp_path):
    (tmp_path / "other").mkdir()
    one, other = certificate_files(tmp_path, "app.example.com"), certificate_files(tmp_path / "other", "app.example.com")
    pair = CertificatePair(one.certificate.read_bytes(), SecretBytes(other.key.read_bytes()), "certificate_file")
    with pytest.raises(ConfigError, match="certificate_file"):
        Certificates([pair])


@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
@pytest.mark.parametrize(
    ("server_name", "is_requested"),
    [("asks.example.com", True), ("first.example.com", False), ("unknown.example.com", False), (None, True)],
)
def test_client_certificate_is_requested_by_server_name(tmp_path, server_name, is_requested, version):
    files = certificate_files(tmp_path, "first.example.com")
    pair = CertificatePair(files.certificate.read_bytes(), SecretBytes(files.key.read_bytes()), "certificates[0]")
    server = Certificates([pair], lambda name: name in (None, "asks.example.com")).serverConnectionForTLS(None)
    presented = authority().issue()
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_min_proto_version(version)
    context.set_max_proto_version(version)
    context.use_certificate(presented.certificate)
    context.use_privatekey(presented.key)
    client = SSL.Connection(context, None)
    if server_name is not None:
        client.set_tlsext_host_name(server_name.encode())
    shake_hands(client, server)
    assert tls_info(server)["chain"] == ((presented.der,) if is_requested else ())


def shake_hands(client: SSL.Connection, server: SSL.Connection) -> None:
    client.set_connect_state()
    server.set_accept_state()
    for _ in range(5):
        for one, other in ((client, server), (server, client)):
            with contextlib.suppress(SSL.WantReadError):
                one.do_handshake()
            with contextlib.suppress(SSL.WantReadError):
                other.bio_write(one.bio_read(1 << 16))


# Certificates that were obtained while the listener runs, and staples.


def pair_for(directory: Path, *names: str) -> CertificatePair:
    (where := directory / names[0]).mkdir()
    files = certificate_files(where, *names)
    return CertificatePair(files.certificate.read_bytes(), SecretBytes(files.key.read_bytes()), names[0])


def fingerprint(pair: CertificatePair) -> bytes:
    return x509.load_pem_x509_certificate(pair.certificate).fingerprint(hashes.SHA256())


@dataclass
class HandshakeResult:
    """Handshake result of the client and of the server."""

    names: list[str]
    subject: str
    staple: bytes
    client_certificate: object


def shake(certificates: Certificates, server_name: str | None, client_pair: tuple[Path, Path] | None = None) -> HandshakeResult:
    staples: list[bytes] = []
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_ocsp_client_callback(lambda connection, staple, data: staples.append(staple) or True)
    if client_pair is not None:
        context.use_certificate_file(str(client_pair[0]))
        context.use_privatekey_file(str(client_pair[1]))
    client, server = SSL.Connection(context, None), certificates.serverConnectionForTLS(None)
    client.set_connect_state()
    server.set_accept_state()
    client.request_ocsp()
    if server_name is not None:
        client.set_tlsext_host_name(server_name.encode())
    for _ in range(4):
        for side, other in ((client, server), (server, client)):
            with contextlib.suppress(SSL.WantReadError):
                side.do_handshake()
            with contextlib.suppress(SSL.WantReadError):
                other.bio_write(side.bio_read(65536))
    presented = client.get_peer_certificate(as_cryptography=True)
    return HandshakeResult(
        dns_names(presented), presented.subject.rfc4514_string(), b"".join(staples), server.get_peer_certificate(as_cryptography=True)
    )


def obtained_for(directory: Path, *hosts: str) -> tuple[AcmeState, dict[str, CertificatePair]]:
    acme_state, pairs = AcmeState(), {host: pair_for(directory, host) for host in hosts}
    acme_state.contexts = {host: load_context(pair, acme_state).context for host, pair in pairs.items()}
    return acme_state, pairs


def test_placeholder_is_served_before_issuance():
    certificates = Certificates((), acme_state=AcmeState())
    for name in ("app.example.com", None):
        presented = shake(certificates, name)
        assert (presented.names, "no certificate" in presented.subject) == ([], True)


def test_new_certificate_is_used_by_next_handshake(tmp_path):
    acme_state, _ = obtained_for(tmp_path, "a.example.com", "b.example.com")
    found, acme_state.contexts = acme_state.contexts, {}
    certificates = Certificates((), acme_state=acme_state)
    assert shake(certificates, "b.example.com").names == []
    acme_state.contexts = found
    assert shake(certificates, "B.Example.com.").names == ["b.example.com"]
    for other in ("c.example.com", None):
        assert shake(certificates, other).names == ["a.example.com"]


def test_issued_certificate_precedes_wildcard_but_not_configured(tmp_path):
    acme_state, _ = obtained_for(tmp_path, "a.example.com", "b.example.com")
    pairs = [pair_for(tmp_path, "*.example.com", "b.example.com")]
    certificates = Certificates(pairs, acme_state=acme_state)
    assert shake(certificates, "a.example.com").names == ["a.example.com"]
    assert shake(certificates, "b.example.com").names == ["*.example.com", "b.example.com"]
    assert shake(certificates, "c.example.com").names == ["*.example.com", "b.example.com"]
    assert shake(certificates, None).names == ["*.example.com", "b.example.com"]


def test_client_certificate_is_requested_with_issued_certificates(tmp_path):
    acme_state, _ = obtained_for(tmp_path, "a.example.com")
    expected: dict[str | None, bool] = {"a.example.com": True}
    certificates = Certificates((), lambda name: expected.get(name, False), acme_state)
    client_pair = self_signed_client(tmp_path, "client")
    assert shake(certificates, "a.example.com", client_pair).client_certificate is not None
    assert shake(certificates, None, client_pair).client_certificate is None
    expected[None] = True
    assert shake(certificates, None, client_pair).client_certificate is not None


def test_each_certificate_gets_its_staple():
    """OpenSSL itself leaves out a response that is about another certificate."""
    issuer, acme_state = Issuer(), AcmeState()
    names = ["first.example.com", "second.example.com", "a.example.com"]
    pairs = [issue_from(issuer, name) for name in names]
    acme_state.contexts = {names[2]: load_context(pairs[2], acme_state).context}
    certificates = Certificates(pairs[:2], acme_state=acme_state)
    assert [shake(certificates, name).staple for name in names] == [b"", b"", b""]
    responses = [issuer.response(CertificateChain.parse(pair.certificate), NOW) for pair in pairs]
    acme_state.staples = {fingerprint(pair): response for pair, response in zip(pairs, responses, strict=True)}
    assert [shake(certificates, name).staple for name in names] == responses
    assert shake(certificates, None).staple == responses[0]
    acme_state.staples = {}
    assert [shake(certificates, name).staple for name in names] == [b"", b"", b""]


def issue_from(issuer: Issuer, host: str) -> CertificatePair:
    request = CertificateRequest.create(host, must_staple=False)
    return StoredCertificate.parse(request.key.reveal() + issuer.issue(request.csr, NOW), host).pair
