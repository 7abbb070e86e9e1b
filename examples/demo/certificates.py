"""A small certificate authority for loopback: which names it may vouch for, and the certificates it issues."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
CA_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=397)  # browsers refuse more from public authorities; some refuse it from any
RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return private_key_pem(self.key)


@dataclass(frozen=True, slots=True)
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, name: str, *, permitted: Sequence[str], now: datetime) -> Self:
        """A new authority that can vouch for servers on loopback addresses or in the domains of `permitted`, and for nothing else.

        The limit (RFC 5280 4.2.1.10) is why trusting it is harmless: a thief of its key still can't pretend to be your bank.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        domains = [x509.DNSName(domain) for domain in permitted]
        # Both kinds are named: a constraint on one kind of name says nothing of the other.
        limits = x509.NameConstraints(permitted_subtrees=[*domains, *map(x509.IPAddress, LOOPBACK)], excluded_subtrees=None)
        builder = (
            _builder(subject, subject, key.public_key(), now, CA_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(limits, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate_file: Path, key_file: Path) -> Self:
        """Raises ValueError or OSError where the files do not hold one."""
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError(f"{key_file} does not belong to {certificate_file}")
        return cls(certificate, key)

    def issue(self, *names: str, now: datetime, lifetime: timedelta = LEAF_LIFETIME) -> IssuedCertificate:
        """A server certificate that lists each name by itself: clients refuse wildcards directly below `localhost`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        authority_key = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            _builder(subject, self.certificate.subject, key.public_key(), now, lifetime)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_key), critical=False)
        )
        return IssuedCertificate(builder.sign(self.key, hashes.SHA256()), key)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def is_still_valid(pem: bytes, names: Sequence[str], authority: Authority, now: datetime) -> bool:
    """Whether this server certificate is the authority's, covers every name, and lasts a while longer."""
    certificate = x509.load_pem_x509_certificate(pem)
    covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except Exception:  # three unrelated kinds of error, and each means no
        return False
    return set(names) <= set(covered) and certificate.not_valid_after_utc - now > RENEW_BEFORE


def private_key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def write_private(path: Path, content: bytes) -> None:
    """Write for the owner's eyes only, whole or not at all."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    unfinished.replace(path)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta):
    start = now - timedelta(hours=1)  # for clocks that are a little behind
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start.astimezone(UTC))
        .not_valid_after((start + lifetime).astimezone(UTC))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
