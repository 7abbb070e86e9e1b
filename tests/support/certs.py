"""A certificate authority for one test run, and the files for gate and its clients."""

import base64
import hashlib
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from examples.demo.certificates import Authority, IssuedCertificate, write_private

PERMITTED = ("localhost", "example.com", "example.org", "test")


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A server certificate with its chain, its key, and the authority to trust, as files."""

    certificate: Path
    key: Path
    authority: Path
    issued: IssuedCertificate

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    @property
    def spki_hash(self) -> str:
        """Return the key's hash for Chromium's --ignore-certificate-errors-spki-list."""
        return spki_hash(self.issued.certificate)


def spki_hash(certificate) -> str:
    public_key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(public_key).digest()).decode()


def certificate_files(directory: Path, *names: str, authority: Authority | None = None) -> CertificateFiles:
    """Write one certificate for all `names` to `directory`, issued by a temporary authority unless one is given."""
    now = datetime.now(UTC)
    authority = authority or Authority.create("throw-away test authority", permitted=PERMITTED, now=now)
    issued = authority.issue(*names, now=now)
    files = CertificateFiles(directory / "certificate.pem", directory / "certificate-key.pem", directory / "ca.pem", issued)
    write_private(files.certificate, issued.certificate_pem + authority.certificate_pem)
    write_private(files.key, issued.key_pem)
    write_private(files.authority, authority.certificate_pem)
    return files


def self_signed_client(directory: Path, name: str) -> tuple[Path, Path]:
    """Return a self-signed client certificate and its key, for servers that trust exactly this one."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / f"{name}.pem", directory / f"{name}-key.pem"
    write_private(files[0], certificate.public_bytes(Encoding.PEM))
    write_private(files[1], key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files
