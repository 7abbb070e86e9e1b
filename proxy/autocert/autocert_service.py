"""Autocert service: a thread that keeps certificates, told of each configuration, never waited for."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from config.options import Options
from foundation.telemetry import metrics
from proxy.listener.tls.acme_state import AcmeState

if TYPE_CHECKING:
    from proxy.autocert.certificate_renewal import CertificateRenewal

log = structlog.get_logger(__name__)

FOLLOWER_INTERVAL = 0.25  # seconds, of who only shows what another process leaves in the files
RENEWAL_INTERVAL = 2.0  # seconds; where nothing is due that is one look at the time of two directories


class Autocert:
    """Autocert service.  `obtained` is what connections read.  One that does not obtain shows what another process leaves in the files."""

    def __init__(self, clock: Callable[[], float] = time.time, *, is_leader_candidate: bool = True):
        self._obtains = is_leader_candidate
        self.acme_state = AcmeState()
        self._clock = clock
        self._options: Options | None = None
        self._changed = threading.Event()
        self._is_over = False
        self._thread: threading.Thread | None = None
        self._has_begun = False

    def start(self, options: Options) -> None:
        """Start, as a listener of ours is open: who asks whether a host is ours gets an answer, so certificates can be had."""
        self._has_begun = True
        self.reconfigure(options)

    def reconfigure(self, options: Options) -> None:
        """Switch to a configuration, on and off too.  Returns at once; what is new is obtained in the background."""
        if not self._has_begun:
            return
        self._options = options
        self._changed.set()
        if self._thread is None and options.autocert:
            # A daemon, unlike the threads of an executor: the process may end while the authority lets it wait.
            self._thread = threading.Thread(target=self._run, name="autocert", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._is_over = True
        self._changed.set()

    def _run(self) -> None:
        renewal: CertificateRenewal | None = None
        trouble = ""
        while not self._is_over:
            if self._changed.is_set():
                self._changed.clear()
                renewal = self._next(renewal)
            try:
                if renewal is not None:
                    renewal.begin()
                    renewal.look()
                trouble = ""
            except OSError as error:
                if trouble != (trouble := f"{error.strerror}: {error.filename}"):
                    log.error("certificate directory unusable", setting="autocert_dir", reason=trouble)
            except Exception:
                if not trouble:
                    log.exception("autocert failed")
                trouble = "unexpected"
            self._changed.wait(RENEWAL_INTERVAL if self._obtains else FOLLOWER_INTERVAL)

    def _next(self, renewal: "CertificateRenewal | None") -> "CertificateRenewal | None":
        if renewal is not None:
            renewal.close()
        options = self._options
        if options is None or not options.autocert:
            self.acme_state.is_enabled = False
            self.acme_state.contexts, self.acme_state.pairs, self.acme_state.leaf_certificates, self.acme_state.staples = {}, {}, {}, {}
            self.acme_state.pending_challenge = lambda host: None
            metrics.set_certificate_expiries("autocert", {})
            return None
        # Here, with the ACME library: most processes obtain no certificate.
        from proxy.autocert.certificate_renewal import CertificateRenewal, WantedCertificates

        return CertificateRenewal(
            WantedCertificates.of(options),
            self.acme_state,
            self._clock,
            lambda: self._is_over or self._changed.is_set(),
            obtains=self._obtains,
        )
