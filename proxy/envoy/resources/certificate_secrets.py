"""Certificates that Envoy shows: those of the configuration, then one for each host of autocert, a placeholder until it is obtained.

Their names follow from the configuration alone, so one that is obtained or renewed changes no listener, and no connection.
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

SHOW_EVERY = 0.5  # seconds between two looks at what autocert has obtained
_PLACEHOLDER = "placeholder"
_MOST_FINGERPRINTS = 20_000


@dataclass(frozen=True, slots=True)
class StapledCertificate:
    """Certificate and key with the OCSP response that is stapled to it (RFC 6960), DER; none if that is empty."""

    pair: CertificatePair
    staple: bytes = b""

    def secret(self, name: str) -> Json:
        """Secret resource (envoy.extensions.transport_sockets.tls.v3.Secret); it holds the key."""
        certificate: Json = {
            "certificate_chain": {"inline_string": self.pair.certificate.decode("ascii")},
            "private_key": {"inline_string": self.pair.key.reveal().decode("ascii")},
        }
        if self.staple:
            certificate["ocsp_staple"] = {"inline_bytes": base64.b64encode(self.staple).decode()}
        return {"@type": f"{TYPE}extensions.transport_sockets.tls.v3.Secret", "name": name, "tls_certificate": certificate}


def certificate_names(options: Options) -> tuple[str, ...]:
    """Names of the secrets that a listener shows, the first to who asks for no host that is known; none without TLS."""
    if options.insecure_server:
        return ()
    configured = tuple(f"configured-{number}" for number in range(len(options.certificate_pairs)))
    hosts = acme_hosts(options) if options.autocert else ()
    return configured + tuple(map(_of_host, hosts)) or (_PLACEHOLDER,)


def shown_certificates(options: Options, obtained: AcmeState, placeholder: CertificatePair) -> Mapping[str, StapledCertificate]:
    """Certificates by these names, as they are to be shown now."""
    pairs = {f"configured-{number}": pair for number, pair in enumerate(options.certificate_pairs)}
    pairs |= {_of_host(host): pair for host, pair in obtained.pairs.items()}
    found = {}
    for name in certificate_names(options):
        pair = pairs.get(name, placeholder)
        staple = obtained.staple(_fingerprint(pair.certificate)) if obtained.staples else b""
        found[name] = StapledCertificate(pair, staple)
    return found


class EnvoyCertificates:
    """Certificates of one Envoy, as its configuration and autocert would have them; `listener` is where authorities' validations arrive."""

    def __init__(self, obtained: AcmeState, listener: socket.socket):
        self._obtained = obtained
        self._listener = listener
        self._placeholder = placeholder_pair()
        self._options: Options | None = None

    def use(self, options: Options) -> Mapping[str, StapledCertificate]:
        """Certificates under a configuration from now on."""
        self._options = options
        return shown_certificates(options, self._obtained, self._placeholder)

    def answer_authority(self, limits: Callable[[], ListenerLimits]) -> None:
        serve_acme_challenges(self._listener, limits, self._obtained)

    async def follow(self, show: Callable[[Mapping[str, StapledCertificate]], None]) -> None:
        """Have Envoy show what autocert obtains, renews and staples; until cancelled."""
        shown: tuple[object, object] = ({}, {})
        while True:
            await asyncio.sleep(SHOW_EVERY)
            current = (self._obtained.pairs, self._obtained.staples)
            if current == shown or self._options is None:
                continue
            try:
                show(shown_certificates(self._options, self._obtained, self._placeholder))
                shown = current
            except OSError as error:  # a full disk: we try again
                log.error("publishing certificate to envoy failed", reason=error.strerror or type(error).__name__)

    def close(self) -> None:
        self._listener.close()


def _of_host(host: str) -> str:
    return f"obtained-{host}"


@lru_cache(_MOST_FINGERPRINTS)
def _fingerprint(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256())
