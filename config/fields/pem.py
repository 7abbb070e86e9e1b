"""PEM checks. Errors are ValueErrors that contain nothing of the key."""

from collections.abc import Iterable
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

_MIN_RSA_BITS = 2048


@lru_cache(maxsize=256)  # thousands of routes may share a client certificate
def check_key_matches(certificate: bytes, key: bytes) -> None:
    """Raise ValueError if certificate and key do not match.

    The first certificate is the server's; its chain may follow.
    """
    try:
        public = x509.load_pem_x509_certificates(certificate)[0].public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("the certificate is not valid PEM") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if public.public_bytes(*form) != _private_key(key).public_key().public_bytes(*form):
        raise ValueError("the certificate and the key do not match")


def dns_names(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names of a certificate in lower case. Clients ignore the subject's common name (RFC 9525 2)."""
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, x509.ExtensionNotFound):
        return []
    return [name.lower() for name in alternatives.value.get_values_for_type(x509.DNSName)]


@lru_cache(maxsize=256)
def certificate_names(pem: bytes) -> tuple[str, ...]:
    """Return the DNS names of the first certificate, which is the server's."""
    return tuple(dns_names(x509.load_pem_x509_certificates(pem)[0]))


def covers(names: Iterable[str], host: str) -> bool:
    """Return whether a certificate with these names is valid for the host. A wildcard matches one label (RFC 9525 6.3)."""
    return bool({host, "*." + host.partition(".")[2]} & set(names))


@lru_cache(maxsize=256)  # thousands of routes share a few CAs
def check_ca_certificates(pem: bytes) -> None:
    try:
        x509.load_pem_x509_certificates(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("contains no valid PEM certificate") from None


def check_signing_key(pem: bytes, algorithm: str) -> None:
    key = _private_key(pem)
    fits = {
        "ES256": isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1),
        "EdDSA": isinstance(key, ed25519.Ed25519PrivateKey),
        "RS256": isinstance(key, rsa.RSAPrivateKey) and key.key_size >= _MIN_RSA_BITS,
    }
    if not fits[algorithm]:
        needed = {"ES256": "an EC key on P-256", "EdDSA": "an Ed25519 key", "RS256": f"an RSA key of {_MIN_RSA_BITS} bits or more"}
        raise ValueError(f"does not fit signing_key_algorithm {algorithm}, which needs {needed[algorithm]}")


def _private_key(pem: bytes) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("the private key is not valid PEM without a password") from None
