"""ACME state that connections read: issued certificates, OCSP staples and pending challenges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from cryptography.x509 import Certificate
from OpenSSL import SSL

from foundation.values import CertificatePair

ChallengeType = Literal["tls-alpn-01", "http-01"]


@dataclass(frozen=True, slots=True)
class AcmeChallenge:
    """Challenge of the CA for one host (RFC 8555 8.1). Contains no secret."""

    host: str
    kind: ChallengeType
    token: str
    key_authorization: str


@dataclass(slots=True)
class AcmeState:
    """Issued certificates, staples and pending challenges, which autocert's thread updates.

    Each update is one assignment. Connections read it at each handshake, so it outlives reloads.
    """

    is_enabled: bool = False
    contexts: Mapping[str, SSL.Context] = field(default_factory=dict)  # by host
    # By host, for Envoy; without certificates that must be stapled and have no staple.
    pairs: Mapping[str, CertificatePair] = field(default_factory=dict)
    leaf_certificates: Mapping[str, Certificate] = field(default_factory=dict)  # by host, for expiry times
    staples: Mapping[bytes, bytes] = field(default_factory=dict)  # SHA-256 of a certificate -> OCSP response (RFC 6960), DER
    pending_challenge: Callable[[str], AcmeChallenge | None] = lambda host: None  # pending for the host

    @property
    def default_context(self) -> SSL.Context | None:
        return next(iter(self.contexts.values()), None)

    def staple(self, fingerprint: bytes) -> bytes:
        """Return the OCSP staple of a certificate, or an empty string."""
        return self.staples.get(fingerprint, b"")
