"""OCSP staples of our certificates: fetched by one process, shared in the files, never one that does not verify."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import structlog

from proxy.autocert import ocsp_client
from proxy.autocert.certificate_storage import CertificateStorage
from proxy.autocert.ocsp_client import Staple, UnverifiedStaple
from proxy.autocert.stored_certificate import CertificateChain

log = structlog.get_logger(__name__)

PAUSE = timedelta(minutes=10)  # after a responder gave nothing of use
Ask = Callable[[str, CertificateChain], bytes]


class StapleCache:
    def __init__(self, storage: CertificateStorage, ask: Ask = ocsp_client.ask):
        self._storage = storage
        self._ask = ask
        self._known: dict[bytes, Staple] = {}
        self._not_before: dict[bytes, datetime] = {}

    def read(self, chains: Iterable[CertificateChain], now: datetime) -> None:
        """Read what the files hold, perhaps put there by another process."""
        for chain in chains:
            response, known = self._storage.staple(chain.fingerprint), self._known.get(chain.fingerprint)
            if response is None or (known is not None and known.response == response):
                continue
            try:
                self._known[chain.fingerprint] = ocsp_client.verify(response, chain, now)
            except UnverifiedStaple:
                continue  # of no use any more; it is fetched anew

    def due(self, chains: Iterable[CertificateChain], now: datetime) -> list[CertificateChain]:
        return [chain for chain in chains if chain.responder is not None and chain.issuer is not None and self._is_due(chain, now)]

    def _is_due(self, chain: CertificateChain, now: datetime) -> bool:
        known = self._known.get(chain.fingerprint)
        return (known is None or now >= known.refresh) and now >= self._not_before.get(chain.fingerprint, now)

    def fetch(self, chain: CertificateChain, now: datetime) -> None:
        """Fetch what is due; blocks.  A failure leaves what is known in place, for as long as it is good."""
        self._not_before[chain.fingerprint] = now + PAUSE
        try:
            response = self._ask(chain.responder or "", chain)
            staple = ocsp_client.verify(response, chain, now)
        except UnverifiedStaple as error:
            log.warning("OCSP request failed", host=chain.name, reason=str(error), retry_at=(now + PAUSE).isoformat())
            return
        self._known[chain.fingerprint] = staple
        self._storage.keep_staple(chain.fingerprint, response)
        if staple.is_revoked:
            log.error("certificate revoked", host=chain.name)
        else:
            log.info("OCSP response obtained", host=chain.name, expires_at=staple.ends.astimezone(UTC).isoformat())

    def is_revoked(self, chain: CertificateChain) -> bool:
        known = self._known.get(chain.fingerprint)
        return known is not None and known.is_revoked

    def shown(self, chains: Iterable[CertificateChain], now: datetime) -> dict[bytes, bytes]:
        """Staples that are good at the moment; the others are forgotten."""
        current = {chain.fingerprint for chain in chains}
        self._known = {key: staple for key, staple in self._known.items() if key in current and staple.ends > now}
        return {key: staple.response for key, staple in self._known.items() if not staple.is_revoked}
