"""Listener state: the certificates and limits of a configuration; a reload replaces both with one assignment."""

from dataclasses import dataclass
from typing import Self

from config.options import Options
from proxy.listener.limits import ListenerLimits
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.certificates import Certificates, Wants


@dataclass(frozen=True, slots=True)
class ListenerState:
    """Listener state.  `certificates` is None where something in front ends TLS."""

    limits: ListenerLimits
    certificates: Certificates | None

    @classmethod
    def build(
        cls,
        options: Options,
        previous: "ListenerState | None" = None,
        wants_certificate: Wants = lambda server_name: False,
        obtained: AcmeState | None = None,
    ) -> Self:
        """State of a configuration; ConfigError where a pair can't be used.

        All contexts are made before any is used; those of unchanged pairs live on, so that clients may resume their TLS
        sessions.
        """
        pairs = () if options.insecure_server else options.certificate_pairs
        before = None if previous is None else previous.certificates
        if before is not None and (before.pairs, before.min_version) == (pairs, options.tls_min_version):
            certificates: Certificates | None = before
        else:
            has_tls = not options.insecure_server and (pairs or options.autocert)
            certificates = Certificates(pairs, wants_certificate, obtained, options.tls_min_version) if has_tls else None
        return cls(ListenerLimits.from_options(options), certificates)
