"""Valid and invalid client certificates, and their files for TLS clients."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from examples.demo.certificates import private_key_pem

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


@dataclass(frozen=True)
class Issued:
    """A certificate with its key. It can issue others even if it is not a CA."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def issue(self, name: str = "ann", **details: object) -> "Issued":
        return issued(name, issuer=self, **details)  # type: ignore[arg-type]

    def write(self, directory: Path, *chain: "Issued") -> Path:
        path = directory / f"{self.certificate.serial_number}.pem"
        path.write_bytes(b"".join([self.pem, *(each.pem for each in chain), private_key_pem(self.key)]))
        return path

    def present_in(self, context: ssl.SSLContext, directory: Path, *chain: "Issued") -> ssl.SSLContext:
        """Return the context, which presents this certificate and its chain."""
        context.load_cert_chain(self.write(directory, *chain))
        return context


def authority(name: str = "clients", **details: object) -> Issued:
    return issued(name, is_authority=True, usages=(), **details)  # type: ignore[arg-type]


def issued(
    name: str,
    *,
    issuer: Issued | None = None,
    is_authority: bool = False,
    usages: Sequence[x509.ObjectIdentifier] = (CLIENT,),
    begins: timedelta = timedelta(days=-1),
    ends: timedelta = timedelta(days=30),
    path_length: int | None = None,
    extensions: Sequence[tuple[x509.ExtensionType, bool]] = (),
    now: datetime | None = None,
) -> Issued:
    now = now or datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(is_authority, path_length), critical=True)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return Issued(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)
