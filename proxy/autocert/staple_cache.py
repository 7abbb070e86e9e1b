"""Cache of verified OCSP staples. One process fetches them and shares them in files."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import structlog

from proxy.autocert import ocsp_client
from proxy.autocert.certificate_storage import CertificateStorage
from proxy.autocert.ocsp_client import Staple, UnverifiedStaple
from proxy.autocert.stored_certificate import CertificateChain

log = structlog.get_logger(__name__)

RETRY_AFTER = timedelta(minutes=10)  # after a failed request
FetchResponse = Callable[[str, CertificateChain], bytes]


class StapleCache:
    """Verified staples by the SHA-256 fingerprint of their certificate."""

    def __init__(self, storage: CertificateStorage, fetch_response: FetchResponse = ocsp_client.fetch):
        self._storage = storage
        self._fetch_response = fetch_response
        self._staples: dict[bytes, Staple] = {}
        self._not_before: dict[bytes, datetime] = {}

    def read(self, chains: Iterable[CertificateChain], now: datetime) -> None:
        """Read the stored responses, which another process may have fetched."""
        for chain in chains:
            response, cached = self._storage.staple(chain.fingerprint), self._staples.get(chain.fingerprint)
            if response is None or (cached is not None and cached.response == response):
                continue
            try:
                self._staples[chain.fingerprint] = ocsp_client.verify(response, chain, now)
            except UnverifiedStaple:
                continue  # no longer valid; it is fetched again

    def due(self, chains: Iterable[CertificateChain], now: datetime) -> list[CertificateChain]:
        return [chain for chain in chains if chain.responder is not None and chain.issuer is not None and self._is_due(chain, now)]

    def _is_due(self, chain: CertificateChain, now: datetime) -> bool:
        staple = self._staples.get(chain.fingerprint)
        return (staple is None or now >= staple.refresh_at) and now >= self._not_before.get(chain.fingerprint, now)

    def fetch(self, chain: CertificateChain, now: datetime) -> None:
        """Fetch a response; blocks. After a failure the cached one is used while it is valid."""
        self._not_before[chain.fingerprint] = now + RETRY_AFTER
        try:
            response = self._fetch_response(chain.responder or "", chain)
            staple = ocsp_client.verify(response, chain, now)
        except UnverifiedStaple as error:
            log.warning("OCSP request failed", host=chain.name, reason=str(error), retry_at=(now + RETRY_AFTER).isoformat())
            return
        self._staples[chain.fingerprint] = staple
        self._storage.save_staple(chain.fingerprint, response)
        if staple.is_revoked:
            log.error("certificate revoked", host=chain.name)
        else:
            log.info("OCSP response obtained", host=chain.name, expires_at=staple.not_after.astimezone(UTC).isoformat())

    def is_revoked(self, chain: CertificateChain) -> bool:
        staple = self._staples.get(chain.fingerprint)
        return staple is not None and staple.is_revoked

    def valid_responses(self, chains: Iterable[CertificateChain], now: datetime) -> dict[bytes, bytes]:
        """Return the valid responses by fingerprint, and evict the others."""
        current = {chain.fingerprint for chain in chains}
        self._staples = {key: staple for key, staple in self._staples.items() if key in current and staple.not_after > now}
        return {key: staple.response for key, staple in self._staples.items() if not staple.is_revoked}
