"""Autocert service: a background thread that obtains and renews certificates for the configuration in force."""

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

FOLLOWER_INTERVAL = 0.25  # seconds between polls of a process that only reads the files of another one
RENEWAL_INTERVAL = 2.0  # seconds between polls; if nothing is due, a poll reads two modification times


class Autocert:
    """Autocert service. Connections read `acme_state`.

    A process that is no leader candidate only serves certificates that another process has stored.
    """

    def __init__(self, clock: Callable[[], float] = time.time, *, is_leader_candidate: bool = True):
        self._is_leader_candidate = is_leader_candidate
        self.acme_state = AcmeState()
        self._clock = clock
        self._options: Options | None = None
        self._changed = threading.Event()
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._is_started = False

    def start(self, options: Options) -> None:
        """Start. Called when a listener is open, because the CA connects to it to validate hosts."""
        self._is_started = True
        self.reconfigure(options)

    def reconfigure(self, options: Options) -> None:
        """Apply a configuration, which can also enable or disable autocert. Does not block."""
        if not self._is_started:
            return
        self._options = options
        self._changed.set()
        if self._thread is None and options.autocert:
            # A daemon thread, so that the process can exit while it waits for the CA.
            self._thread = threading.Thread(target=self._run, name="autocert", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._changed.set()

    def _run(self) -> None:
        renewal: CertificateRenewal | None = None
        last_error = ""
        while not self._is_stopping:
            if self._changed.is_set():
                self._changed.clear()
                renewal = self._rebuild(renewal)
            try:
                if renewal is not None:
                    renewal.open()
                    renewal.run_once()
                last_error = ""
            except OSError as error:
                if last_error != (last_error := f"{error.strerror}: {error.filename}"):
                    log.error("certificate directory unusable", setting="autocert_dir", reason=last_error)
            except Exception:
                if not last_error:
                    log.exception("autocert failed")
                last_error = "unexpected"
            self._changed.wait(RENEWAL_INTERVAL if self._is_leader_candidate else FOLLOWER_INTERVAL)

    def _rebuild(self, renewal: "CertificateRenewal | None") -> "CertificateRenewal | None":
        if renewal is not None:
            renewal.close()
        options = self._options
        if options is None or not options.autocert:
            self.acme_state.is_enabled = False
            self.acme_state.contexts, self.acme_state.pairs, self.acme_state.leaf_certificates, self.acme_state.staples = {}, {}, {}, {}
            self.acme_state.pending_challenge = lambda host: None
            metrics.set_certificate_expiries("autocert", {})
            return None
        # Imported here because it loads the ACME library, which most processes do not need.
        from proxy.autocert.certificate_renewal import CertificateRenewal, RequestedCertificates

        return CertificateRenewal(
            RequestedCertificates.from_options(options),
            self.acme_state,
            self._clock,
            lambda: self._is_stopping or self._changed.is_set(),
            is_leader_candidate=self._is_leader_candidate,
        )
