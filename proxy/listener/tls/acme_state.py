"""ACME state: what connections show that no configuration holds: obtained certificates, OCSP staples, answers to the authority."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from cryptography.x509 import Certificate
from OpenSSL import SSL

from foundation.values import CertificatePair

ChallengeType = Literal["tls-alpn-01", "http-01"]


@dataclass(frozen=True, slots=True)
class AcmeChallenge:
    """Challenge of the authority, to prove that a host is ours (RFC 8555 8.1); none of it is secret."""

    host: str
    kind: ChallengeType
    token: str
    key_authorization: str


@dataclass(slots=True)
class AcmeState:
    """Obtained certificates and staples, filled by who gets them, on a thread of its own.

    Each change is one assignment.  Read at each handshake, so it outlives reloads.
    """

    is_enabled: bool = False
    contexts: Mapping[str, SSL.Context] = field(default_factory=dict)  # by host
    # Of those, by host, what may be shown by who takes no certificate that must be stapled without its staple.
    pairs: Mapping[str, CertificatePair] = field(default_factory=dict)
    leaf_certificates: Mapping[str, Certificate] = field(default_factory=dict)  # of those, for who asks when they end
    staples: Mapping[bytes, bytes] = field(default_factory=dict)  # SHA-256 of a certificate -> an OCSP response (RFC 6960), DER
    pending_challenge: Callable[[str], AcmeChallenge | None] = lambda host: None  # of that host, at this moment

    @property
    def default_context(self) -> SSL.Context | None:
        return next(iter(self.contexts.values()), None)

    def staple(self, fingerprint: bytes) -> bytes:
        """OCSP staple of a certificate; empty where there is none."""
        return self.staples.get(fingerprint, b"")
