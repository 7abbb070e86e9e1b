"""Certificates that Envoy shows: those of the configuration, then one for each host of autocert, a placeholder until it is obtained.

Their names follow from the configuration alone, so one that is obtained or renewed changes no listener, and no connection.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from config.options import Options
from config.settings.autocert import hosts_to_certify
from foundation.values import CertificatePair
from proxy.envoy.bootstrap import TYPE, Json
from proxy.listener.tls.acme_state import AcmeState

_PLACEHOLDER = "placeholder"
_MOST_FINGERPRINTS = 20_000


@dataclass(frozen=True, slots=True)
class ShownCertificate:
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
    hosts = hosts_to_certify(options) if options.autocert else ()
    return configured + tuple(map(_of_host, hosts)) or (_PLACEHOLDER,)


def shown_certificates(options: Options, obtained: AcmeState, placeholder: CertificatePair) -> Mapping[str, ShownCertificate]:
    """Certificates by these names, as they are to be shown now."""
    pairs = {f"configured-{number}": pair for number, pair in enumerate(options.certificate_pairs)}
    pairs |= {_of_host(host): pair for host, pair in obtained.pairs.items()}
    found = {}
    for name in certificate_names(options):
        pair = pairs.get(name, placeholder)
        staple = obtained.staple(_fingerprint(pair.certificate)) if obtained.staples else b""
        found[name] = ShownCertificate(pair, staple)
    return found


def _of_host(host: str) -> str:
    return f"obtained-{host}"


@lru_cache(_MOST_FINGERPRINTS)
def _fingerprint(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256())
