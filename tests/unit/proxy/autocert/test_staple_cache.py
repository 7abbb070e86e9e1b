from datetime import timedelta

import pytest
from cryptography.x509 import ocsp

from proxy.autocert.certificate_storage import CertificateStorage
from proxy.autocert.ocsp_client import UnverifiedStaple
from proxy.autocert.staple_cache import StapleCache
from proxy.autocert.stored_certificate import CertificateChain, CertificateRequest
from tests.support.issuing import NOW, Issuer

ISSUER = Issuer()
HOUR = timedelta(hours=1)


def build_chain(responder="http://ocsp.example.com"):
    return CertificateChain.parse(ISSUER.issue(CertificateRequest.create("a.example.com", must_staple=False).csr, NOW, responder=responder))


CHAIN = build_chain()


@pytest.fixture
def storage(tmp_path):
    storage = CertificateStorage(tmp_path, "https://ca.example.com/dir")
    storage.open()
    return storage


def of(storage, *responses):
    left = list(responses)

    def fetch(url, chain):
        if not left or (response := left.pop(0)) is None:
            raise UnverifiedStaple("away")
        return response

    return StapleCache(storage, fetch)


def test_staple_is_used_until_expiry_and_refreshed_at_half_life(storage):
    response = ISSUER.response(CHAIN, NOW)
    staples = of(storage, response)
    assert staples.due([CHAIN], NOW) == [CHAIN]
    staples.fetch(CHAIN, NOW)
    assert staples.valid_responses([CHAIN], NOW) == {CHAIN.fingerprint: response}
    assert staples.due([CHAIN], NOW + 47 * HOUR) == []
    assert staples.due([CHAIN], NOW + 48 * HOUR) == [CHAIN]
    staples.fetch(CHAIN, NOW + 48 * HOUR)
    assert staples.valid_responses([CHAIN], NOW + 48 * HOUR) == {CHAIN.fingerprint: response}, "a failure takes nothing away"
    assert staples.valid_responses([CHAIN], NOW + 96 * HOUR) == {}


def test_failed_responder_is_retried_later(storage):
    staples = of(storage, None, b"junk", ISSUER.response(CHAIN, NOW))
    staples.fetch(CHAIN, NOW)
    assert staples.due([CHAIN], NOW + timedelta(minutes=9)) == []
    assert staples.due([CHAIN], NOW + timedelta(minutes=10)) == [CHAIN]
    staples.fetch(CHAIN, NOW)
    assert staples.valid_responses([CHAIN], NOW) == {}
    assert storage.staple(CHAIN.fingerprint) is None


def test_other_process_reads_verified_staples(storage):
    of(storage, ISSUER.response(CHAIN, NOW)).fetch(CHAIN, NOW)
    other = of(storage)
    other.read([CHAIN], NOW)
    assert set(other.valid_responses([CHAIN], NOW)) == {CHAIN.fingerprint}
    for forged in (b"junk", Issuer().response(CHAIN, NOW), ISSUER.response(CHAIN, NOW - 100 * HOUR)):
        storage.save_staple(CHAIN.fingerprint, forged)
        careful = of(storage)
        careful.read([CHAIN], NOW)
        assert careful.valid_responses([CHAIN], NOW) == {}


def test_revoked_response_is_not_stapled(storage):
    staples = of(storage, ISSUER.response(CHAIN, NOW, status=ocsp.OCSPCertStatus.REVOKED))
    staples.fetch(CHAIN, NOW)
    assert staples.is_revoked(CHAIN)
    assert staples.valid_responses([CHAIN], NOW) == {}


def test_chain_without_responder_or_issuer_is_never_due(storage):
    assert of(storage).due([build_chain(None), CertificateChain(CHAIN.leaf, None)], NOW) == []


def test_unused_staples_are_evicted(storage):
    staples = of(storage, ISSUER.response(CHAIN, NOW))
    staples.fetch(CHAIN, NOW)
    assert staples.valid_responses([], NOW) == {}
    assert staples.valid_responses([CHAIN], NOW) == {}
