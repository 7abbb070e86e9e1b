"""Self-signed certificates, as seen by a client."""

import contextlib
import hashlib
import ssl

import pytest
from cryptography import x509
from OpenSSL import SSL

from config.fields.pem import check_key_matches
from proxy.listener.tls.self_signed import placeholder_pair, tls_alpn_context

ACME_IDENTIFIER = "1.3.6.1.5.5.7.1.31"


def handshake(context: SSL.Context, *protocols: str) -> tuple[x509.Certificate, str | None]:
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        client_context.set_alpn_protocols(list(protocols))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(incoming, outgoing, server_hostname="a.example.com")
    server = SSL.Connection(context, None)
    server.set_accept_state()
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError, SSL.WantReadError):
                side.do_handshake()
            if sent := outgoing.read():
                server.bio_write(sent)
            with contextlib.suppress(SSL.WantReadError):
                incoming.write(server.bio_read(65536))
    return x509.load_der_x509_certificate(client.getpeercert(binary_form=True)), client.selected_alpn_protocol()


def test_challenge_certificate_follows_rfc_8737():
    certificate, protocol = handshake(tls_alpn_context("a.example.com", "token.thumbprint"), "acme-tls/1")
    assert protocol == "acme-tls/1"
    assert certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value == x509.SubjectAlternativeName(
        [x509.DNSName("a.example.com")]
    )
    extension = certificate.extensions.get_extension_for_oid(x509.ObjectIdentifier(ACME_IDENTIFIER))
    assert extension.critical
    assert extension.value.value == b"\x04\x20" + hashlib.sha256(b"token.thumbprint").digest()


def test_the_proof_speaks_no_other_protocol():
    _, protocol = handshake(tls_alpn_context("a.example.com", "token.thumbprint"), "http/1.1")
    assert protocol is None


@pytest.mark.parametrize("host", ["a" * 60 + ".example.com"])
def test_a_long_name_has_room(host):
    certificate, _ = handshake(tls_alpn_context(host, "t.k"), "acme-tls/1")
    assert certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName) == [host]


def test_placeholder_names_no_host():
    pair = placeholder_pair()
    check_key_matches(pair.certificate, pair.key)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert "no certificate" in certificate.subject.rfc4514_string()
    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
