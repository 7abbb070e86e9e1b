"""Certificate renewal: every host has one that is good for a while longer.  Everything here blocks: it has a thread of its own."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import structlog
from OpenSSL import SSL

from config.options import Options
from config.settings.autocert_settings import acme_directory_url, acme_hosts
from foundation.errors import ConfigError
from foundation.telemetry import metrics
from foundation.values import CertificatePair
from foundation.version import version
from proxy.autocert.acme_client import AcmeAuthority, AcmeSettings, AuthorityError
from proxy.autocert.certificate_storage import CertificateStorage
from proxy.autocert.order_backoff import ALL, LONGEST_PAUSE_OF_ALL, Attempt
from proxy.autocert.staple_cache import StapleCache
from proxy.autocert.stored_certificate import CertificateChain, CertificateRequest, ObtainedCertificate, UnusableCertificate
from proxy.listener.tls.acme_state import AcmeState, ChallengeType
from proxy.listener.tls.server_certificates import load_context

log = structlog.get_logger(__name__)

READ_ANYWAY = 60.0  # seconds; a file system's clock may be too coarse to tell two changes apart


@dataclass(frozen=True, slots=True)
class WantedCertificates:
    """Hosts and settings that a configuration wants certificates for."""

    hosts: tuple[str, ...]
    terms: AcmeSettings
    trusted_ca: bytes | None  # of the authority's own server, PEM
    storage: CertificateStorage
    must_staple: bool
    has_http: bool
    configured: tuple[CertificatePair, ...]

    @classmethod
    def of(cls, options: Options) -> Self:
        directory = str(acme_directory_url(options))
        return cls(
            hosts=acme_hosts(options),
            terms=AcmeSettings(directory, options.autocert_email, options.autocert_eab_key_id, options.autocert_eab_mac_key),
            trusted_ca=options.autocert_trusted_ca,
            storage=CertificateStorage(options.autocert_dir or options.data_dir, directory),
            must_staple=options.autocert_must_staple,
            has_http=options.http_redirect_addr is not None,
            configured=options.certificate_pairs,
        )


@dataclass(slots=True)
class ServedCertificate:
    """Certificate that is shown.  `before` is what the host had until this came, as long as this one waits for its staple."""

    certificate: ObtainedCertificate
    context: SSL.Context
    before: "ServedCertificate | None" = None


@dataclass(slots=True)
class CertificateRenewal:
    """Certificate renewal of one configuration; the next one's takes over what this one shows."""

    wanted: WantedCertificates
    obtained: AcmeState
    clock: Callable[[], float]
    is_over: Callable[[], bool] = lambda: False
    make_authority: Callable[..., AcmeAuthority] = AcmeAuthority
    obtains: bool = True
    staples: StapleCache = field(init=False)
    _shown: dict[str, ServedCertificate] = field(default_factory=dict)
    _seen: dict[str, bytes] = field(default_factory=dict)  # host -> digest of the file that was read last
    _stamp: tuple[int, ...] | None = None
    _read: float = 0.0
    _authority: AcmeAuthority | None = None
    _configured: tuple[CertificateChain, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.staples = StapleCache(self.wanted.storage)
        self._configured = tuple(CertificateChain.of(pair.certificate) for pair in self.wanted.configured)

    def begin(self) -> None:
        """Open the directory; OSError where it can't be used.  From now on challenges are answered."""
        self.wanted.storage.open()
        self.obtained.pending_challenge = self.wanted.storage.challenge
        self.obtained.is_enabled = True

    def look(self) -> None:
        """Read what is new, get what is due, show it.  OSError where the directory can't be used any more."""
        self._read_files()
        if not self.obtains:
            self._show()
            return
        if due := self._due():
            attempts = self.wanted.storage.attempts()
            if any(self._may_begin(host, attempts) for host in due):
                self._obtain_all()
        self._staple()
        self._show()

    def close(self) -> None:
        if self._authority is not None:
            self._authority.close()
            self._authority = None

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    def _chains(self) -> list[CertificateChain]:
        shown = self._shown.values()
        return [*self._configured, *(each.certificate.chain for one in shown for each in (one.before, one) if each is not None)]

    # What is there.

    def _read_files(self, *, anyway: bool = False) -> None:
        stamp, now = self.wanted.storage.stamp(), self.clock()
        if stamp == self._stamp and abs(now - self._read) < READ_ANYWAY and not anyway:
            return
        self._stamp, self._read = stamp, now
        for host in self.wanted.hosts:
            self._read_certificate(host)
        self.staples.read(self._chains(), self._now())
        self._show()

    def _read_certificate(self, host: str) -> None:
        content = self.wanted.storage.certificate(host)
        digest = b"" if content is None else hashlib.sha256(content).digest()
        if self._seen.get(host) == digest or content is None:
            return
        self._seen[host] = digest
        try:
            certificate = ObtainedCertificate.read(content, host)
            before = self._shown.get(host) if certificate.chain.must_staple else None
            self._shown[host] = ServedCertificate(certificate, load_context(certificate.pair, self.obtained).context, before)
        except (UnusableCertificate, ConfigError) as error:
            log.error("stored certificate invalid", host=host, reason=str(error))

    def _due(self) -> list[str]:
        now = self._now()
        return [host for host in self.wanted.hosts if self._is_due(host, now)]

    def _is_due(self, host: str, now: datetime) -> bool:
        shown = self._shown.get(host)
        return shown is None or now >= shown.certificate.chain.renewal or self.staples.is_revoked(shown.certificate.chain)

    # What is got.

    def _may_begin(self, host: str, attempts: Mapping[str, Any]) -> bool:
        now = self.clock()
        return all(Attempt.read(attempts.get(each)).may_begin(now) for each in (ALL, host))

    def _obtain_all(self) -> None:
        with self.wanted.storage.elected() as is_elected:
            if not is_elected:
                return  # the process that is will leave what it gets in the files
            self._read_files(anyway=True)
            self.wanted.storage.forget_challenges()
            attempts = self.wanted.storage.attempts()
            for host in self._due():
                if self.is_over():
                    return
                if self._may_begin(host, attempts):
                    self._obtain(host)
                    attempts = self.wanted.storage.attempts()

    def _obtain(self, host: str) -> None:
        storage = self.wanted.storage
        attempt = Attempt.read(storage.attempts().get(host))
        kind = attempt.challenge(has_http=self.wanted.has_http)
        request = CertificateRequest.make(host, must_staple=self.wanted.must_staple)
        log.info("requesting certificate", host=host, authority=self.wanted.terms.directory, challenge=kind)
        try:
            chain = self._the_authority().obtain(host, request.csr, kind, storage.keep_challenge)
            content = request.key.reveal() + chain
            certificate = ObtainedCertificate.read(content, host)
        except (AuthorityError, UnusableCertificate) as error:
            self._failed(host, attempt, error if isinstance(error, AuthorityError) else AuthorityError(str(error)))
            return
        finally:
            storage.forget_challenge(host)
        storage.keep_certificate(host, content)
        self._succeeded(host, kind)
        log.info(
            "certificate obtained", host=host, expires_at=certificate.chain.ends.isoformat(), renew_at=certificate.chain.renewal.isoformat()
        )
        self._read_certificate(host)
        if certificate.chain.must_staple:
            self.staples.fetch(certificate.chain, self._now())
        self._show()

    def _the_authority(self) -> AcmeAuthority:
        if self._authority is None:
            storage = self.wanted.storage
            trusted = None if self.wanted.trusted_ca is None else storage.keep_trusted_ca(self.wanted.trusted_ca)
            self._authority = self.make_authority(self.wanted.terms, trusted, storage.account(), storage.keep_account, f"gate/{version()}")
        return self._authority

    def _succeeded(self, host: str, kind: ChallengeType) -> None:
        metrics.autocert_orders.labels("obtained").inc()
        attempts = self.wanted.storage.attempts()
        attempts.pop(ALL, None)
        self.wanted.storage.keep_attempts({**attempts, host: Attempt(worked=kind).written()})

    def _failed(self, host: str, attempt: Attempt, error: AuthorityError) -> None:
        metrics.autocert_orders.labels("failed").inc()
        now, attempts = self.clock(), self.wanted.storage.attempts()
        failed = attempt
        if not error.concerns_all or error.retry_after is not None:
            failed = attempt.failed(now, str(error), error.retry_after)
            attempts[host] = failed.written()
        not_before = failed.not_before
        if error.concerns_all:
            self.close()  # the next one asks for the directory anew
            of_all = Attempt.read(attempts.get(ALL)).failed(now, str(error), error.retry_after, LONGEST_PAUSE_OF_ALL)
            attempts[ALL] = of_all.written()
            not_before = max(not_before, of_all.not_before)
        self.wanted.storage.keep_attempts(attempts)
        shown = self._shown.get(host)
        is_good = shown is not None and shown.certificate.chain.ends > self._now()
        tell = log.warning if is_good else log.error
        retry_at = datetime.fromtimestamp(not_before, UTC).isoformat(timespec="seconds")
        tell("certificate request failed", host=host, reason=str(error), retry_at=retry_at, current_valid=is_good)

    # What is shown.

    def _staple(self) -> None:
        now = self._now()
        due = self.staples.due(self._chains(), now)
        if not due:
            return
        with self.wanted.storage.elected() as is_elected:
            for chain in due if is_elected else ():
                if self.is_over():
                    return
                self.staples.fetch(chain, now)

    def _show(self) -> None:
        """Each of these is one assignment, seen by the next handshake; connections that are open keep what they have."""
        now, chains = self._now(), self._chains()
        self.obtained.staples = self.staples.shown(chains, now)
        served = {host: self._served(self._shown[host], now) for host in self.wanted.hosts if host in self._shown}
        self.obtained.contexts = {host: each.context for host, each in served.items()}
        self.obtained.pairs = {host: each.certificate.pair for host, each in served.items() if not self._lacks_staple(each)}
        self.obtained.leaf_certificates = {host: shown.certificate.chain.leaf for host, shown in self._shown.items()}
        metrics.set_certificate_expiries("autocert", {chain.name: chain.ends.timestamp() for chain in chains})

    def _served(self, shown: ServedCertificate, now: datetime) -> ServedCertificate:
        """One that browsers would refuse without a staple waits for it while the one before is good."""
        before = shown.before
        if before is not None and before.certificate.chain.ends > now and self._lacks_staple(shown):
            return before
        shown.before = None
        return shown

    def _lacks_staple(self, shown: ServedCertificate) -> bool:
        chain = shown.certificate.chain
        return chain.must_staple and not self.obtained.staple(chain.fingerprint)
