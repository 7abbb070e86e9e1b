"""Self-signed certificates: the placeholder of a host without one, and the response to TLS-ALPN-01 (RFC 8737)."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

from foundation.values import CertificatePair, SecretBytes

ACME_TLS = b"acme-tls/1"
_ACME_IDENTIFIER = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")
_LIFETIME = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)


def placeholder_pair() -> CertificatePair:
    """Create a placeholder certificate. Clients reject it, and its name gives the reason."""
    certificate, key = _self_signed("gate has no certificate for this host yet")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return CertificatePair(certificate.public_bytes(Encoding.PEM), SecretBytes(pem), "the placeholder certificate")


def tls_alpn_context(host: str, key_authorization: str) -> SSL.Context:
    """Return a TLS context that proves control of the host to the CA. It negotiates only `acme-tls/1`."""
    digest = hashlib.sha256(key_authorization.encode("ascii")).digest()
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET)
    context.set_alpn_select_callback(_select_acme)
    names = x509.SubjectAlternativeName([x509.DNSName(host)])
    # An OCTET STRING of 32 bytes.
    identifier = x509.UnrecognizedExtension(_ACME_IDENTIFIER, b"\x04\x20" + digest)
    certificate, key = _self_signed(host[:64], (names, False), (identifier, True))
    context.use_certificate(certificate)
    context.use_privatekey(key)
    return context


def _select_acme(connection: SSL.Connection, offered: list[bytes]) -> Any:
    return ACME_TLS if ACME_TLS in offered else SSL.NO_OVERLAPPING_PROTOCOLS


def _self_signed(name: str, *extensions: tuple[x509.ExtensionType, bool]) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(key, hashes.SHA256()), key
