import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from config.routes.route import Route
from foundation.errors import ConfigError, UpstreamError
from foundation.values import SecretBytes
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream
from proxy.upstreams.upstream_client import UpstreamClient
from proxy.upstreams.upstream_tls import client_context
from tests.support.upstream import RawUpstream

NOW = datetime.now(UTC)


def self_signed(name, *, alternative_names):
    """Return PEM of a self-signed certificate and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    if alternative_names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in alternative_names]), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(encoding), private


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Server context and PEM of the authority of an upstream named upstream.example.com."""
    return make_server(tmp_path_factory.mktemp("tls"), "upstream.example.com", ["upstream.example.com"])


def make_server(directory, name, alternative_names):
    certificate, key = self_signed(name, alternative_names=alternative_names)
    (directory / "certificate.pem").write_bytes(certificate)
    (directory / "key.pem").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "certificate.pem", directory / "key.pem")
    return context, certificate


def make_route(url="https://127.0.0.1", **keys):
    return Route.model_construct(**{**Route.model_validate({"from": "https://app.example.com", "to": url}).__dict__, **keys})


async def status_of(context, **keys):
    client = UpstreamClient()
    try:
        async with RawUpstream(tls=context) as canary:
            route = make_route(canary.url, **keys)
            exchange = await client.open(OutgoingRequest(Upstream.build(route), "GET", b"/", [(b"host", b"u")]))
            try:
                return (await exchange.read_response())[0]
            finally:
                exchange.close()
    finally:
        await client.close()


async def test_a_custom_authority_and_name_are_verified(server):
    context, authority = server
    assert await status_of(context, tls_custom_ca=authority, tls_server_name="upstream.example.com") == 200


async def test_an_unknown_authority_is_refused(server):
    with pytest.raises(UpstreamError):
        await status_of(server[0], tls_server_name="upstream.example.com")


async def test_another_name_is_refused(server):
    context, authority = server
    with pytest.raises(UpstreamError):
        await status_of(context, tls_custom_ca=authority, tls_server_name="other.example.com")


async def test_common_name_is_ignored(tmp_path):
    context, authority = make_server(tmp_path, "upstream.example.com", [])
    with pytest.raises(UpstreamError):
        await status_of(context, tls_custom_ca=authority, tls_server_name="upstream.example.com")


async def test_skip_verify_accepts_any_certificate(server):
    assert await status_of(server[0], tls_skip_verify=True) == 200


def test_a_custom_authority_replaces_the_systems(server):
    assert len(client_context(make_route(tls_custom_ca=server[1])).get_ca_certs()) == 1


def test_routes_with_the_same_rules_share_a_context(server):
    assert client_context(make_route()) is client_context(make_route("https://other.example.com"))
    assert client_context(make_route()) is not client_context(make_route(tls_skip_verify=True))


def test_an_authority_that_is_not_pem_is_a_configuration_error():
    with pytest.raises(ConfigError, match="tls_custom_ca"):
        client_context(make_route(tls_custom_ca=b"not a certificate"))


@pytest.fixture
def client_pair():
    return self_signed("gate.example.com", alternative_names=["gate.example.com"])


def require_client_certificate(server, directory, authority):
    """Return the context, changed to require a client certificate of that authority."""
    (directory / "authority.pem").write_bytes(authority)
    server.load_verify_locations(directory / "authority.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    return server


async def test_client_certificate_is_presented(tmp_path, client_pair):
    context, authority = make_server(tmp_path, "upstream.example.com", ["upstream.example.com"])
    require_client_certificate(context, tmp_path, client_pair[0])
    trusted = {"tls_custom_ca": authority, "tls_server_name": "upstream.example.com"}
    assert await status_of(context, **trusted, tls_client_cert=client_pair[0], tls_client_key=SecretBytes(client_pair[1])) == 200
    with pytest.raises(UpstreamError):
        await status_of(context, **trusted)
    other = self_signed("gate.example.com", alternative_names=["gate.example.com"])
    with pytest.raises(UpstreamError):
        await status_of(context, **trusted, tls_client_cert=other[0], tls_client_key=SecretBytes(other[1]))


def test_each_client_certificate_has_its_own_context(client_pair):
    with_certificate = make_route(tls_client_cert=client_pair[0], tls_client_key=SecretBytes(client_pair[1]))
    other = self_signed("gate.example.com", alternative_names=["gate.example.com"])
    with_other = make_route(tls_client_cert=other[0], tls_client_key=SecretBytes(other[1]))
    assert len({client_context(route) for route in (with_certificate, with_other, make_route())}) == 3
    assert client_context(with_certificate) is client_context(with_certificate)


def test_mismatched_pair_is_a_config_error(client_pair):
    _, other = self_signed("gate.example.com", alternative_names=["gate.example.com"])
    with pytest.raises(ConfigError, match="tls_client_cert"):
        client_context(make_route(tls_client_cert=client_pair[0], tls_client_key=SecretBytes(other)))
