"""Certificates of a company's own CA are accepted for all servers that gate calls, even if they hold only the required fields.

Python 3.13 has begun to refuse such certificates, and its libraries with it.  All is made here as they are there, whatever Python this is.
"""

import base64
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
import urllib3.util.ssl_
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from config.routes.route import Route
from databroker.store.redis_client import StorageTls
from databroker.store.redis_client import _context as kvstore_context
from foundation.client_tls import client_context, verifying_context
from proxy.autocert.acme_client import AcmeClient, AcmeSettings
from proxy.upstreams.upstream_tls import client_context as upstream_context

HOST = "localhost"
NEW = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN


@pytest.fixture(autouse=True)
def as_with_python_3_13(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(make: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
        def made(*arguments: object, **options: object) -> ssl.SSLContext:
            context = make(*arguments, **options)
            context.verify_flags |= NEW
            return context

        return made

    monkeypatch.setattr(ssl, "create_default_context", strict(ssl.create_default_context))
    for module in (urllib3.util.ssl_, urllib3.connection):
        monkeypatch.setattr(module, "create_urllib3_context", strict(urllib3.util.ssl_.create_urllib3_context))
    client_context.cache_clear()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ca.pem`, and `server.pem` with a key: of an authority that names neither keys nor uses of them."""
    directory = tmp_path_factory.mktemp("certificates")
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("an authority of long ago")
    authority = _certificate(issuer, issuer, ca_key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    server = _certificate(_name(HOST), issuer, key).add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    (directory / "ca.pem").write_bytes(authority.sign(ca_key, hashes.SHA256()).public_bytes(Encoding.PEM))
    pem = server.sign(ca_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    (directory / "leaf.pem").write_bytes(pem)
    (directory / "server.pem").write_bytes(pem + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return directory


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))


@pytest.fixture(scope="module")
def url(files: Path) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that does not trust it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "server.pem")
    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"https://{HOST}:{server.server_address[1]}"
        server.shutdown()


def trusting(authority: Path) -> Route:
    ca = base64.b64encode(authority.read_bytes()).decode()
    return Route.model_validate({"from": "https://app.example.com", "to": "https://127.0.0.1", "tls_custom_ca": ca})


CONTEXTS: dict[str, Callable[[Path], ssl.SSLContext]] = {
    "provider, webhook, traces": lambda authority: client_context(authority.read_bytes()),
    "tunnel": lambda authority: verifying_context(str(authority)),
    "kvstore": lambda authority: kvstore_context(StorageTls(ca_file=authority)),
    "upstream": lambda authority: upstream_context(trusting(authority)),
}


def is_taken(context: ssl.SSLContext, server: Path) -> bool:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server)
    client = context.wrap_bio(to_client, to_server, server_hostname=HOST)
    accepted = serving.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, accepted) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    return True


def test_the_library_alone_would_refuse_it(files: Path) -> None:
    assert not is_taken(ssl.create_default_context(cafile=str(files / "ca.pem")), files / "server.pem")


@pytest.mark.parametrize("door", CONTEXTS)
def test_a_certificate_without_identifiers_of_keys_is_taken(door: str, files: Path) -> None:
    assert is_taken(CONTEXTS[door](files / "ca.pem"), files / "server.pem")


@pytest.mark.parametrize("door", CONTEXTS)
def test_one_that_was_issued_is_no_authority(door: str, files: Path) -> None:
    assert not is_taken(CONTEXTS[door](files / "leaf.pem"), files / "server.pem")


def test_the_authority_of_autocert_is_reached(url: str, files: Path) -> None:
    requested = AcmeClient(AcmeSettings(url), files / "ca.pem", {}, lambda account: None, "gate/tests")
    try:
        assert requested._network.get(url, content_type=None).status_code == 204
    finally:
        requested.close()


def test_the_authority_of_autocert_must_be_of_the_file(url: str, files: Path) -> None:
    requested = AcmeClient(AcmeSettings(url), files / "leaf.pem", {}, lambda account: None, "gate/tests")
    try:
        with pytest.raises(requests.exceptions.SSLError):
            requested._network.get(url, content_type=None)
    finally:
        requested.close()
