"""Readiness of certificates: expired ones, ones that expire soon, and hosts without one.

They never make a process not ready, because every process has the same certificates, and the CA must be able to reach gate.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from cryptography import x509

from config.fields.pem import dns_names
from config.options import Options
from config.settings.autocert_settings import ineligible_reason, served_hosts
from foundation.readiness import ComponentStatus, degraded, format_utc
from proxy.listener.tls.acme_state import AcmeState

READINESS_PART = "certificates"
# Before expiry: a week, or a fifth of the lifetime of a short-lived certificate.
WARN_BEFORE, WARN_FRACTION = timedelta(days=7), 5
MAX_LISTED = 3
# Readiness is unauthenticated, and checking thousands of certificates takes tens of milliseconds.
CACHE_FOR = timedelta(seconds=10)


def configured_expiries(options: Options) -> dict[str, float]:
    """Return the expiry (Unix seconds) of the configured certificates by their first name; the earliest, if several share a name."""
    expiries: dict[str, float] = {}
    for pair in options.certificate_pairs:
        leaf = x509.load_pem_x509_certificates(pair.certificate)[0]
        name, expires_at = next(iter(dns_names(leaf)), pair.source), leaf.not_valid_after_utc.timestamp()
        expiries[name] = min(expires_at, expiries.get(name, expires_at))
    return expiries


class CertificateReadiness:
    """Readiness of the certificates of one configuration and of autocert."""

    def __init__(self, options: Options, acme_state: AcmeState):
        self._acme_state = acme_state
        self._cached: tuple[datetime, ComponentStatus] | None = None
        self._configured = [(pair.source, x509.load_pem_x509_certificates(pair.certificate)[0]) for pair in options.certificate_pairs]
        names = {name for _, certificate in self._configured for name in dns_names(certificate)}
        hosts = () if options.insecure_server else dict.fromkeys(served_hosts(options))
        self._uncovered = [host for host in hosts if host not in names and f"*.{host.partition('.')[2]}" not in names]
        self._autocert_hosts = {host for host in self._uncovered if options.autocert and ineligible_reason(host, options) is None}

    def __call__(self, now: datetime) -> ComponentStatus:
        """Return the readiness, at most CACHE_FOR old."""
        if self._cached is None or abs(now - self._cached[0]) >= CACHE_FOR:
            self._cached = now, self._evaluate(now)
        return self._cached[1]

    def _evaluate(self, now: datetime) -> ComponentStatus:
        leaves = self._acme_state.leaf_certificates
        reasons = [f"{source} {problem}" for source, leaf in self._configured if (problem := _validity_problem(leaf, now))]
        reasons += [
            f"the one of {host} {problem}"
            for host in self._uncovered
            if host in leaves and (problem := _validity_problem(leaves[host], now))
        ]
        missing = [host for host in self._uncovered if host not in leaves]
        reasons += _list_hosts("autocert has no certificate yet for", missing, self._autocert_hosts.__contains__)
        reasons += _list_hosts("no certificate for", missing, lambda host: host not in self._autocert_hosts)
        return degraded(READINESS_PART, "; ".join(reasons)) if reasons else ComponentStatus(READINESS_PART)


def _validity_problem(leaf: x509.Certificate, now: datetime) -> str:
    """Return the problem with the validity period, or ""."""
    not_before, not_after = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now < not_before:
        return f"is not valid before {format_utc(not_before.timestamp())}"
    if now >= not_after:
        return f"expired at {format_utc(not_after.timestamp())}"
    return (
        f"expires at {format_utc(not_after.timestamp())}"
        if not_after - now < min(WARN_BEFORE, (not_after - not_before) / WARN_FRACTION)
        else ""
    )


def _list_hosts(prefix: str, hosts: Iterable[str], predicate: Callable[[str], bool]) -> Iterator[str]:
    selected = [host for host in hosts if predicate(host)]
    if selected:
        more = f" and {len(selected) - MAX_LISTED} more" if len(selected) > MAX_LISTED else ""
        yield f"{prefix} {', '.join(selected[:MAX_LISTED])}{more}"
