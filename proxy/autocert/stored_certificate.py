"""Stored certificates with their validity and renewal time, and certificate signing requests."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import AuthorityInformationAccessOID

from config.fields.pem import check_key_matches, covers, dns_names
from foundation.values import CertificatePair, SecretBytes

_KEY_END = b"-----END PRIVATE KEY-----\n"
# RFC 7633: the certificate is valid only with an OCSP staple.
_MUST_STAPLE = x509.TLSFeature([x509.TLSFeatureType.status_request])


class InvalidCertificate(ValueError):
    """A stored pair is no certificate with its key, or is for another host. The message contains no part of either."""


@dataclass(frozen=True)
class CertificateChain:
    """Leaf certificate and its issuer, if the chain contains it. Parsed fields are cached."""

    leaf: x509.Certificate
    issuer: x509.Certificate | None

    @classmethod
    def parse(cls, pem: bytes) -> Self:
        chain = x509.load_pem_x509_certificates(pem)
        return cls(chain[0], chain[1] if len(chain) > 1 else None)

    @cached_property
    def fingerprint(self) -> bytes:
        return self.leaf.fingerprint(hashes.SHA256())

    @cached_property
    def name(self) -> str:
        """Display name of the certificate."""
        return next(iter(dns_names(self.leaf)), self.leaf.subject.rfc4514_string())

    @cached_property
    def not_after(self) -> datetime:
        return self.leaf.not_valid_after_utc

    @cached_property
    def renew_at(self) -> datetime:
        """Time of renewal, when a third of the lifetime is left."""
        return self.not_after - (self.not_after - self.leaf.not_valid_before_utc) / 3

    @cached_property
    def must_staple(self) -> bool:
        try:
            return self.leaf.extensions.get_extension_for_class(x509.TLSFeature).value == _MUST_STAPLE
        except (ValueError, x509.ExtensionNotFound):
            return False

    @cached_property
    def responder(self) -> str | None:
        """URL of the OCSP responder (RFC 5280 4.2.2.1)."""
        try:
            access = self.leaf.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
        except (ValueError, x509.ExtensionNotFound):
            return None
        urls = (each.access_location for each in access if each.access_method == AuthorityInformationAccessOID.OCSP)
        return next((url.value for url in urls if isinstance(url, x509.UniformResourceIdentifier)), None)


@dataclass(frozen=True, slots=True)
class StoredCertificate:
    """Certificate and key of a host, as stored."""

    pair: CertificatePair
    chain: CertificateChain

    @classmethod
    def parse(cls, content: bytes, host: str) -> Self:
        """Parse a key and a chain (PEM). The validity period is not checked.

        Raises InvalidCertificate if they do not match or are for another host.
        """
        key, end, certificates = content.partition(_KEY_END)
        try:
            pair = CertificatePair(certificates, SecretBytes(key + end), f"the certificate of {host}")
            check_key_matches(pair.certificate, pair.key)
            chain = CertificateChain.parse(certificates)
        except ValueError as error:
            raise InvalidCertificate(str(error)) from None
        if not covers(dns_names(chain.leaf), host):
            raise InvalidCertificate("the certificate is for another host")
        return cls(pair, chain)


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """Certificate signing request (PKCS #10) with a new key, both PEM."""

    key: SecretBytes
    csr: bytes

    @classmethod
    def create(cls, host: str, *, must_staple: bool) -> Self:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False
        )
        if must_staple:
            builder = builder.add_extension(_MUST_STAPLE, critical=False)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return cls(SecretBytes(pem), builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
