"""Requests and renews the certificates of all hosts, and their staples. All calls block; they run in autocert's thread."""

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
from proxy.autocert.acme_client import AcmeClient, AcmeSettings, AuthorityError
from proxy.autocert.certificate_storage import CertificateStorage
from proxy.autocert.order_backoff import ACCOUNT, MAX_GLOBAL_BACKOFF, BackoffState
from proxy.autocert.staple_cache import StapleCache
from proxy.autocert.stored_certificate import CertificateChain, CertificateRequest, InvalidCertificate, StoredCertificate
from proxy.listener.tls.acme_state import AcmeState, ChallengeType
from proxy.listener.tls.server_certificates import load_context

log = structlog.get_logger(__name__)

FORCE_READ_AFTER = 60.0  # seconds; the clock of a file system may be too coarse to distinguish two changes


@dataclass(frozen=True, slots=True)
class RequestedCertificates:
    """Hosts and settings of the certificates that a configuration requests."""

    hosts: tuple[str, ...]
    acme_settings: AcmeSettings
    trusted_ca: bytes | None  # of the CA's own server, PEM
    storage: CertificateStorage
    must_staple: bool
    has_http: bool
    configured: tuple[CertificatePair, ...]

    @classmethod
    def from_options(cls, options: Options) -> Self:
        directory = str(acme_directory_url(options))
        return cls(
            hosts=acme_hosts(options),
            acme_settings=AcmeSettings(directory, options.autocert_email, options.autocert_eab_key_id, options.autocert_eab_mac_key),
            trusted_ca=options.autocert_trusted_ca,
            storage=CertificateStorage(options.autocert_dir or options.data_dir, directory),
            must_staple=options.autocert_must_staple,
            has_http=options.http_redirect_addr is not None,
            configured=options.certificate_pairs,
        )


@dataclass(slots=True)
class ServedCertificate:
    """Active certificate of a host. `previous` is served until this one has its required staple."""

    certificate: StoredCertificate
    context: SSL.Context
    previous: "ServedCertificate | None" = None


@dataclass(slots=True)
class CertificateRenewal:
    """Certificate renewal under one configuration; it publishes to `acme_state`."""

    requested: RequestedCertificates
    acme_state: AcmeState
    clock: Callable[[], float]
    should_stop: Callable[[], bool] = lambda: False
    create_client: Callable[..., AcmeClient] = AcmeClient
    is_leader_candidate: bool = True
    staples: StapleCache = field(init=False)
    _active: dict[str, ServedCertificate] = field(default_factory=dict)
    _digests: dict[str, bytes] = field(default_factory=dict)  # by host, of the file that was read last
    _mtimes: tuple[int, ...] | None = None
    _read: float = 0.0
    _acme_client: AcmeClient | None = None
    _configured: tuple[CertificateChain, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.staples = StapleCache(self.requested.storage)
        self._configured = tuple(CertificateChain.parse(pair.certificate) for pair in self.requested.configured)

    def open(self) -> None:
        """Open the directory and enable challenge responses. Raises OSError if the directory cannot be used."""
        self.requested.storage.open()
        self.acme_state.pending_challenge = self.requested.storage.challenge
        self.acme_state.is_enabled = True

    def run_once(self) -> None:
        """Read changed files, request what is due, and publish. Raises OSError if the directory cannot be used."""
        self._read_files()
        if not self.is_leader_candidate:
            self._publish()
            return
        if due := self._due_hosts():
            attempts = self.requested.storage.attempts()
            if any(self._is_backoff_over(host, attempts) for host in due):
                self._obtain_all()
        self._staple()
        self._publish()

    def close(self) -> None:
        if self._acme_client is not None:
            self._acme_client.close()
            self._acme_client = None

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    def _chains(self) -> list[CertificateChain]:
        active = self._active.values()
        return [*self._configured, *(each.certificate.chain for one in active for each in (one.previous, one) if each is not None)]

    # Stored certificates.

    def _read_files(self, *, force: bool = False) -> None:
        stamp, now = self.requested.storage.modification_times(), self.clock()
        if stamp == self._mtimes and abs(now - self._read) < FORCE_READ_AFTER and not force:
            return
        self._mtimes, self._read = stamp, now
        for host in self.requested.hosts:
            self._read_certificate(host)
        self.staples.read(self._chains(), self._now())
        self._publish()

    def _read_certificate(self, host: str) -> None:
        content = self.requested.storage.certificate(host)
        digest = b"" if content is None else hashlib.sha256(content).digest()
        if self._digests.get(host) == digest or content is None:
            return
        self._digests[host] = digest
        try:
            certificate = StoredCertificate.parse(content, host)
            previous = self._active.get(host) if certificate.chain.must_staple else None
            self._active[host] = ServedCertificate(certificate, load_context(certificate.pair, self.acme_state).context, previous)
        except (InvalidCertificate, ConfigError) as error:
            log.error("stored certificate invalid", host=host, reason=str(error))

    def _due_hosts(self) -> list[str]:
        now = self._now()
        return [host for host in self.requested.hosts if self._is_due(host, now)]

    def _is_due(self, host: str, now: datetime) -> bool:
        active = self._active.get(host)
        return active is None or now >= active.certificate.chain.renew_at or self.staples.is_revoked(active.certificate.chain)

    # Requests.

    def _is_backoff_over(self, host: str, attempts: Mapping[str, Any]) -> bool:
        now = self.clock()
        return all(BackoffState.from_json(attempts.get(each)).is_due(now) for each in (ACCOUNT, host))

    def _obtain_all(self) -> None:
        with self.requested.storage.leader_lock() as is_elected:
            if not is_elected:
                return  # the leader stores its certificates in the files
            self._read_files(force=True)
            self.requested.storage.delete_challenges()
            attempts = self.requested.storage.attempts()
            for host in self._due_hosts():
                if self.should_stop():
                    return
                if self._is_backoff_over(host, attempts):
                    self._obtain(host)
                    attempts = self.requested.storage.attempts()

    def _obtain(self, host: str) -> None:
        storage = self.requested.storage
        attempt = BackoffState.from_json(storage.attempts().get(host))
        kind = attempt.challenge(has_http=self.requested.has_http)
        request = CertificateRequest.create(host, must_staple=self.requested.must_staple)
        log.info("requesting certificate", host=host, authority=self.requested.acme_settings.directory, challenge=kind)
        try:
            chain = self._acme_client_for_account().obtain(host, request.csr, kind, storage.save_challenge)
            content = request.key.reveal() + chain
            certificate = StoredCertificate.parse(content, host)
        except (AuthorityError, InvalidCertificate) as error:
            self._on_failure(host, attempt, error if isinstance(error, AuthorityError) else AuthorityError(str(error)))
            return
        finally:
            storage.delete_challenge(host)
        storage.save_certificate(host, content)
        self._on_success(host, kind)
        log.info(
            "certificate obtained",
            host=host,
            expires_at=certificate.chain.not_after.isoformat(),
            renew_at=certificate.chain.renew_at.isoformat(),
        )
        self._read_certificate(host)
        if certificate.chain.must_staple:
            self.staples.fetch(certificate.chain, self._now())
        self._publish()

    def _acme_client_for_account(self) -> AcmeClient:
        if self._acme_client is None:
            storage = self.requested.storage
            trusted = None if self.requested.trusted_ca is None else storage.save_trusted_ca(self.requested.trusted_ca)
            self._acme_client = self.create_client(
                self.requested.acme_settings, trusted, storage.account(), storage.save_account, f"gate/{version()}"
            )
        return self._acme_client

    def _on_success(self, host: str, kind: ChallengeType) -> None:
        metrics.autocert_orders.labels("obtained").inc()
        attempts = self.requested.storage.attempts()
        attempts.pop(ACCOUNT, None)
        self.requested.storage.save_attempts({**attempts, host: BackoffState(last_challenge_type=kind).to_json()})

    def _on_failure(self, host: str, attempt: BackoffState, error: AuthorityError) -> None:
        metrics.autocert_orders.labels("failed").inc()
        now, attempts = self.clock(), self.requested.storage.attempts()
        next_attempt = attempt
        if not error.is_global or error.retry_after is not None:
            next_attempt = attempt.after_failure(now, str(error), error.retry_after)
            attempts[host] = next_attempt.to_json()
        not_before = next_attempt.not_before
        if error.is_global:
            self.close()  # the next client fetches the ACME directory again
            account_state = BackoffState.from_json(attempts.get(ACCOUNT)).after_failure(
                now, str(error), error.retry_after, MAX_GLOBAL_BACKOFF
            )
            attempts[ACCOUNT] = account_state.to_json()
            not_before = max(not_before, account_state.not_before)
        self.requested.storage.save_attempts(attempts)
        active = self._active.get(host)
        is_current_valid = active is not None and active.certificate.chain.not_after > self._now()
        log_failure = log.warning if is_current_valid else log.error
        retry_at = datetime.fromtimestamp(not_before, UTC).isoformat(timespec="seconds")
        log_failure("certificate request failed", host=host, reason=str(error), retry_at=retry_at, current_valid=is_current_valid)

    # Publication.

    def _staple(self) -> None:
        now = self._now()
        due = self.staples.due(self._chains(), now)
        if not due:
            return
        with self.requested.storage.leader_lock() as is_elected:
            for chain in due if is_elected else ():
                if self.should_stop():
                    return
                self.staples.fetch(chain, now)

    def _publish(self) -> None:
        """Publish the current certificates and staples. Each is one assignment, which the next handshake sees."""
        now, chains = self._now(), self._chains()
        self.acme_state.staples = self.staples.valid_responses(chains, now)
        served = {host: self._served(self._active[host], now) for host in self.requested.hosts if host in self._active}
        self.acme_state.contexts = {host: each.context for host, each in served.items()}
        self.acme_state.pairs = {host: each.certificate.pair for host, each in served.items() if not self._is_missing_staple(each)}
        self.acme_state.leaf_certificates = {host: active.certificate.chain.leaf for host, active in self._active.items()}
        metrics.set_certificate_expiries("autocert", {chain.name: chain.not_after.timestamp() for chain in chains})

    def _served(self, active: ServedCertificate, now: datetime) -> ServedCertificate:
        """Return the certificate to serve: the previous one while it is valid and the new one lacks its required staple."""
        previous = active.previous
        if previous is not None and previous.certificate.chain.not_after > now and self._is_missing_staple(active):
            return previous
        active.previous = None
        return active

    def _is_missing_staple(self, active: ServedCertificate) -> bool:
        chain = active.certificate.chain
        return chain.must_staple and not self.acme_state.staple(chain.fingerprint)
