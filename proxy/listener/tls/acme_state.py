"""What do connections show that no configuration holds: certificates that were got meanwhile, OCSP staples, answers to the authority?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from OpenSSL import SSL

Kind = Literal["tls-alpn-01", "http-01"]


@dataclass(frozen=True, slots=True)
class Challenge:
    """What the authority asks to prove that a host is ours (RFC 8555 8.1); none of it is secret."""

    host: str
    kind: Kind
    token: str
    key_authorization: str


@dataclass(slots=True)
class Obtained:
    """Filled by who gets them, on a thread of its own: each change is one assignment.  Read at each handshake, so it outlives reloads."""

    is_on: bool = False
    contexts: Mapping[str, SSL.Context] = field(default_factory=dict)  # by host
    staples: Mapping[bytes, bytes] = field(default_factory=dict)  # SHA-256 of a certificate -> an OCSP response (RFC 6960), DER
    pending: Callable[[str], Challenge | None] = lambda host: None  # of that host, at this moment

    @property
    def first(self) -> SSL.Context | None:
        return next(iter(self.contexts.values()), None)

    def staple(self, fingerprint: bytes) -> bytes:
        """Empty where there is none."""
        return self.staples.get(fingerprint, b"")
