"""An in-process certificate authority that signs any request, and its OCSP responses, for tests of its clients."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID

from proxy.autocert.acme_client import AcmeSettings, AuthorityError
from proxy.autocert.stored_certificate import CertificateChain
from proxy.listener.tls.acme_state import AcmeChallenge, ChallengeType

DAY = 24 * 3600.0
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> float:
        return self.now.timestamp()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Issuer:
    def __init__(self, name: str = "issuer"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._built(self.name, self.key.public_key(), NOW - timedelta(days=1), 3650).sign(self.key, hashes.SHA256())

    def _built(self, subject: x509.Name, key: Any, begins: datetime, days: float) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(self.name, subject, key, x509.random_serial_number())
        return builder.not_valid_before(begins).not_valid_after(begins + timedelta(days=days))

    def issue(self, csr_pem: bytes, begins: datetime, *, days: float = 90, responder: str | None = None) -> bytes:
        """Return the chain (PEM) for a request, with the requested extensions."""
        csr = x509.load_pem_x509_csr(csr_pem)
        builder = self._built(csr.subject, csr.public_key(), begins, days)
        for extension in csr.extensions:
            builder = builder.add_extension(extension.value, extension.critical)
        if responder is not None:
            where = x509.AccessDescription(AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(responder))
            builder = builder.add_extension(x509.AuthorityInformationAccess([where]), critical=False)
        leaf = builder.sign(self.key, hashes.SHA256())
        return leaf.public_bytes(Encoding.PEM) + self.certificate.public_bytes(Encoding.PEM)

    def named_responder(self, begins: datetime, *extensions: x509.ExtensionType) -> "Issuer":
        """Return another key with a certificate signed by this one."""
        responder = Issuer("responder")
        builder = self._built(responder.name, responder.key.public_key(), begins, 30)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        responder.certificate = builder.sign(self.key, hashes.SHA256())
        return responder

    def response(
        self,
        chain: CertificateChain,
        begins: datetime,
        *,
        days: float | None = 4,
        status: ocsp.OCSPCertStatus = ocsp.OCSPCertStatus.GOOD,
        shows_itself: bool = False,
    ) -> bytes:
        """Return an OCSP response (DER)."""
        assert chain.issuer is not None
        is_revoked = status is ocsp.OCSPCertStatus.REVOKED
        builder = ocsp.OCSPResponseBuilder().add_response(
            cert=chain.leaf,
            issuer=chain.issuer,
            algorithm=hashes.SHA1(),
            cert_status=status,
            this_update=begins,
            next_update=None if days is None else begins + timedelta(days=days),
            revocation_time=begins if is_revoked else None,
            revocation_reason=None,
        )
        builder = builder.responder_id(ocsp.OCSPResponderEncoding.NAME, self.certificate)
        if shows_itself:
            builder = builder.certificates([self.certificate])
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.DER)


@dataclass
class AuthorityInMemory:
    """Replacement of `Authority`. `requests` lists requests as (host, challenge); `failures` are raised first, one per request."""

    clock: Clock
    issuer: Issuer = field(default_factory=Issuer)
    days: float = 90
    responder: str | None = None
    requests: list[tuple[str, ChallengeType]] = field(default_factory=list)
    failures: list[AuthorityError] = field(default_factory=list)
    on_published: Callable[[str], None] = lambda host: None
    csr: bytes = b""

    def __call__(
        self, terms: AcmeSettings, trusted_ca: Path | None, account: Mapping[str, Any], keep: Callable[..., None], agent: str
    ) -> Any:
        return self

    def obtain(self, host: str, csr: bytes, kind: ChallengeType, publish: Callable[[AcmeChallenge], None]) -> bytes:
        self.requests.append((host, kind))
        self.csr = csr
        publish(AcmeChallenge(host, kind, "token", "token.thumbprint"))
        self.on_published(host)
        if self.failures:
            raise self.failures.pop(0)
        return self.issuer.issue(csr, self.clock.now - timedelta(hours=1), days=self.days, responder=self.responder)

    def close(self) -> None:
        pass
