"""Readiness of certificates: which have ended or soon will, and which host has none.

They never make a process not ready: every process has the same, many a balancer does not look at them, and the authority of autocert
must reach us.
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
# Before its end: a week, but of a short-lived certificate a fifth of its life.
WARN_BEFORE, WARN_FRACTION = timedelta(days=7), 5
MAX_LISTED = 3
# Anybody may ask whether gate is ready, and thousands of certificates take tens of milliseconds.
CACHE_FOR = timedelta(seconds=10)


def configured_expiries(options: Options) -> dict[str, float]:
    """Expiry of each configured certificate, Unix seconds, by its first name; the earliest of those with one name."""
    found: dict[str, float] = {}
    for pair in options.certificate_pairs:
        leaf = x509.load_pem_x509_certificates(pair.certificate)[0]
        name, ends = next(iter(dns_names(leaf)), pair.source), leaf.not_valid_after_utc.timestamp()
        found[name] = min(ends, found.get(name, ends))
    return found


class CertificateReadiness:
    """Readiness under one configuration, made once of it; `obtained` are those of autocert."""

    def __init__(self, options: Options, obtained: AcmeState):
        self._obtained = obtained
        self._told: tuple[datetime, ComponentStatus] | None = None
        self._configured = [(pair.source, x509.load_pem_x509_certificates(pair.certificate)[0]) for pair in options.certificate_pairs]
        names = {name for _, certificate in self._configured for name in dns_names(certificate)}
        hosts = () if options.insecure_server else dict.fromkeys(served_hosts(options))
        self._uncovered = [host for host in hosts if host not in names and f"*.{host.partition('.')[2]}" not in names]
        self._awaited = {host for host in self._uncovered if options.autocert and ineligible_reason(host, options) is None}

    def __call__(self, now: datetime) -> ComponentStatus:
        """Readiness at this moment, or at most KEPT before it."""
        if self._told is None or abs(now - self._told[0]) >= CACHE_FOR:
            self._told = now, self._looked(now)
        return self._told[1]

    def _looked(self, now: datetime) -> ComponentStatus:
        obtained = self._obtained.leaf_certificates
        reasons = [f"{source} {ends}" for source, leaf in self._configured if (ends := _ends(leaf, now))]
        reasons += [f"the one of {host} {ends}" for host in self._uncovered if host in obtained and (ends := _ends(obtained[host], now))]
        missing = [host for host in self._uncovered if host not in obtained]
        reasons += _secrets("autocert has no certificate yet for", missing, self._awaited.__contains__)
        reasons += _secrets("no certificate for", missing, lambda host: host not in self._awaited)
        return degraded(READINESS_PART, "; ".join(reasons)) if reasons else ComponentStatus(READINESS_PART)


def _ends(leaf: x509.Certificate, now: datetime) -> str:
    """What is wrong with its time, "" for nothing."""
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now < begins:
        return f"is not valid before {format_utc(begins.timestamp())}"
    if now >= ends:
        return f"expired at {format_utc(ends.timestamp())}"
    return f"expires at {format_utc(ends.timestamp())}" if ends - now < min(WARN_BEFORE, (ends - begins) / WARN_FRACTION) else ""


def _secrets(words: str, hosts: Iterable[str], wanted: Callable[[str], bool]) -> Iterator[str]:
    found = [host for host in hosts if wanted(host)]
    if found:
        more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
        yield f"{words} {', '.join(found[:MAX_LISTED])}{more}"
