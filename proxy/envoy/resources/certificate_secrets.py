"""TLS secrets for Envoy (SDS): the configured certificates, and one per autocert host, which is a placeholder until it is issued.

Secret names depend only on the configuration, so a new certificate changes no listener and no connection.
"""

import asyncio
import base64
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from config.options import Options
from config.settings.autocert_settings import acme_hosts
from foundation.values import CertificatePair
from proxy.envoy.resources.bootstrap import TYPE, Json
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.listeners import serve_acme_challenges
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.self_signed import placeholder_pair

log = structlog.get_logger(__name__)

SYNC_INTERVAL = 0.5  # seconds between checks for new certificates
_PLACEHOLDER = "placeholder"
_MAX_CACHED_FINGERPRINTS = 20_000


@dataclass(frozen=True, slots=True)
class StapledCertificate:
    """Certificate, key and stapled OCSP response (RFC 6960, DER), which may be empty."""

    pair: CertificatePair
    staple: bytes = b""

    def secret(self, name: str) -> Json:
        """Return the secret resource (envoy.extensions.transport_sockets.tls.v3.Secret), which contains the key."""
        certificate: Json = {
            "certificate_chain": {"inline_string": self.pair.certificate.decode("ascii")},
            "private_key": {"inline_string": self.pair.key.reveal().decode("ascii")},
        }
        if self.staple:
            certificate["ocsp_staple"] = {"inline_bytes": base64.b64encode(self.staple).decode()}
        return {"@type": f"{TYPE}extensions.transport_sockets.tls.v3.Secret", "name": name, "tls_certificate": certificate}


def certificate_names(options: Options) -> tuple[str, ...]:
    """Return the names of a listener's secrets, the default first; none without TLS."""
    if options.insecure_server:
        return ()
    configured = tuple(f"configured-{number}" for number in range(len(options.certificate_pairs)))
    hosts = acme_hosts(options) if options.autocert else ()
    return configured + tuple(map(_secret_name, hosts)) or (_PLACEHOLDER,)


def secrets_for(options: Options, acme_state: AcmeState, placeholder: CertificatePair) -> Mapping[str, StapledCertificate]:
    """Return the current certificates by secret name."""
    pairs = {f"configured-{number}": pair for number, pair in enumerate(options.certificate_pairs)}
    pairs |= {_secret_name(host): pair for host, pair in acme_state.pairs.items()}
    secrets = {}
    for name in certificate_names(options):
        pair = pairs.get(name, placeholder)
        staple = acme_state.staple(_fingerprint(pair.certificate)) if acme_state.staples else b""
        secrets[name] = StapledCertificate(pair, staple)
    return secrets


class EnvoyCertificates:
    """Secrets of one Envoy. The CA's TLS-ALPN-01 validations arrive at `listener`."""

    def __init__(self, acme_state: AcmeState, listener: socket.socket):
        self._acme_state = acme_state
        self._listener = listener
        self._placeholder = placeholder_pair()
        self._options: Options | None = None

    def reconfigure(self, options: Options) -> Mapping[str, StapledCertificate]:
        """Apply a configuration, and return its certificates."""
        self._options = options
        return secrets_for(options, self._acme_state, self._placeholder)

    def serve_challenges(self, limits: Callable[[], ListenerLimits]) -> None:
        serve_acme_challenges(self._listener, limits, self._acme_state)

    async def sync(self, publish: Callable[[Mapping[str, StapledCertificate]], None]) -> None:
        """Publish new certificates and staples of autocert to Envoy, until cancelled."""
        published: tuple[object, object] = ({}, {})
        while True:
            await asyncio.sleep(SYNC_INTERVAL)
            current = (self._acme_state.pairs, self._acme_state.staples)
            if current == published or self._options is None:
                continue
            try:
                publish(secrets_for(self._options, self._acme_state, self._placeholder))
                published = current
            except OSError as error:  # for example a full disk; it is retried
                log.error("publishing certificate to envoy failed", reason=error.strerror or type(error).__name__)

    def close(self) -> None:
        self._listener.close()


def _secret_name(host: str) -> str:
    return f"obtained-{host}"


@lru_cache(_MAX_CACHED_FINGERPRINTS)
def _fingerprint(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256())
