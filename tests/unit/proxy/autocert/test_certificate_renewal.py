"""Certificate renewal with an in-process CA and real files."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from foundation.values import CertificatePair
from proxy.autocert.acme_client import AcmeSettings, AuthorityError
from proxy.autocert.certificate_renewal import CertificateRenewal, RequestedCertificates
from proxy.autocert.certificate_storage import CertificateStorage
from proxy.autocert.ocsp_client import UnverifiedStaple
from proxy.autocert.stored_certificate import CertificateChain, StoredCertificate
from proxy.listener.tls.acme_state import AcmeChallenge, AcmeState
from tests.support.issuing import DAY, AuthorityInMemory, Clock
from tests.support.options import make_options

A, B = "a.example.com", "b.example.com"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authority(clock: Clock) -> AuthorityInMemory:
    return AuthorityInMemory(clock)


@pytest.fixture
def log() -> Iterator[list]:
    with structlog.testing.capture_logs() as events:
        yield events


@pytest.fixture
def requested(tmp_path: Path) -> RequestedCertificates:
    return RequestedCertificates(
        hosts=(A,),
        acme_settings=AcmeSettings("https://ca.example.com/dir"),
        trusted_ca=None,
        storage=CertificateStorage(tmp_path, "https://ca.example.com/dir"),
        must_staple=False,
        has_http=False,
        configured=(),
    )


def renewal(requested: RequestedCertificates, clock: Clock, authority: AuthorityInMemory) -> CertificateRenewal:
    made = CertificateRenewal(requested, AcmeState(), clock, create_client=authority)
    made.open()
    return made


def active(stored: CertificateRenewal, host: str = A) -> x509.Certificate | None:
    """Return the certificate of the next handshake for the host."""
    context = stored.acme_state.contexts.get(host)
    served = stored._active.get(host)
    while served is not None:
        if served.context is context:
            return served.certificate.chain.leaf
        served = served.previous
    return None


def get_leaf(pair: CertificatePair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def test_each_host_gets_one_certificate(requested, clock, authority, log):
    stored = renewal(replace(requested, hosts=(A, B)), clock, authority)
    assert stored.acme_state.is_enabled
    stored.run_once()
    stored.run_once()
    assert authority.requests == [(A, "tls-alpn-01"), (B, "tls-alpn-01")]
    assert set(stored.acme_state.contexts) == {A, B}
    assert active(stored, A) != active(stored, B)
    assert [entry["host"] for entry in log if entry["event"] == "certificate obtained"] == [A, B]
    assert "PRIVATE" not in str(log)
    assert {host: get_leaf(pair) for host, pair in stored.acme_state.pairs.items()} == {host: active(stored, host) for host in (A, B)}


def test_a_challenge_is_pending_while_the_authority_looks_and_never_after(requested, clock, authority):
    stored = renewal(requested, clock, authority)
    during = []
    authority.on_published = lambda host: during.append(stored.acme_state.pending_challenge(host))
    authority.failures = [AuthorityError("no")]
    stored.run_once()
    assert during == [AcmeChallenge(A, "tls-alpn-01", "token", "token.thumbprint")]
    assert stored.acme_state.pending_challenge(A) is None


def test_certificate_is_renewed_after_two_thirds_of_its_lifetime(requested, clock, authority):
    stored = renewal(requested, clock, authority)
    stored.run_once()
    first = active(stored)
    clock.advance(59 * DAY)
    stored.run_once()
    assert active(stored) == first
    clock.advance(1.1 * DAY)
    stored.run_once()
    assert active(stored) != first
    assert len(authority.requests) == 2


def test_failed_renewal_keeps_certificate_and_logs_retry(requested, clock, authority, log):
    stored = renewal(requested, clock, authority)
    stored.run_once()
    first = active(stored)
    clock.advance(61 * DAY)
    authority.failures = [AuthorityError("dns: no such host")]
    stored.run_once()
    assert active(stored) == first
    (reported,) = (entry for entry in log if entry["event"] == "certificate request failed")
    assert (reported["log_level"], reported["host"], reported["reason"], reported["current_valid"]) == (
        "warning",
        A,
        "dns: no such host",
        True,
    )
    assert reported["retry_at"] == (clock.now + timedelta(minutes=1)).isoformat(timespec="seconds")


def test_backoff_holds_across_processes(requested, clock, authority):
    authority.failures = [AuthorityError("no")] * 2
    renewal(requested, clock, authority).run_once()
    again = renewal(requested, clock, authority)
    clock.advance(59)
    again.run_once()
    assert len(authority.requests) == 1
    clock.advance(2)
    again.run_once()
    assert len(authority.requests) == 2
    clock.advance(4.9 * 60)
    again.run_once()
    assert len(authority.requests) == 2
    clock.advance(12)
    again.run_once()
    assert len(authority.requests) == 3
    assert active(again) is not None


def test_failure_tries_other_challenge_and_success_is_stored(requested, clock, authority):
    authority.failures = [AuthorityError("no")]
    stored = renewal(replace(requested, has_http=True), clock, authority)
    stored.run_once()
    clock.advance(61)
    stored.run_once()
    clock.advance(80 * DAY)
    stored.run_once()
    assert [kind for _, kind in authority.requests] == ["tls-alpn-01", "http-01", "http-01"]


def test_retry_after_is_respected_globally(requested, clock, authority):
    authority.failures = [AuthorityError("rateLimited", retry_after=3600, is_global=True)]
    stored = renewal(replace(requested, hosts=(A, B)), clock, authority)
    stored.run_once()
    assert authority.requests == [(A, "tls-alpn-01")]
    clock.advance(14 * 60)
    stored.run_once()
    assert len(authority.requests) == 1
    clock.advance(2 * 60)  # a quarter of an hour: one host's limit is not the other's
    stored.run_once()
    assert authority.requests[1:] == [(B, "tls-alpn-01")]
    clock.advance(45 * 60)
    stored.run_once()
    assert authority.requests[2:] == [(A, "tls-alpn-01")]


def test_unavailable_authority_does_not_count_for_the_host(requested, clock, authority):
    authority.failures = [AuthorityError("away", is_global=True)] * 3
    stored = renewal(replace(requested, has_http=True), clock, authority)
    for _ in range(4):
        stored.run_once()
        clock.advance(16 * 60)
    assert [kind for _, kind in authority.requests] == ["tls-alpn-01"] * 4
    assert active(stored) is not None


def test_only_leader_requests_certificates(requested, clock, authority):
    first, second = (renewal(requested, clock, authority) for _ in range(2))
    authority.on_published = lambda host: second.run_once()  # while the first one is at it
    first.run_once()
    assert authority.requests == [(A, "tls-alpn-01")]
    assert active(second) is None
    second.run_once()
    assert len(authority.requests) == 1
    assert active(second) == active(first) is not None


@pytest.mark.parametrize(
    "broken",
    [b"", b"junk", b"-----BEGIN PRIVATE KEY-----\nxx\n-----END PRIVATE KEY-----\n", "half", "other host", "other key"],
    ids=str,
)
def test_malformed_file_is_logged_and_replaced(requested, clock, authority, log, broken, tmp_path):
    stored = renewal(replace(requested, hosts=(A, B)), clock, authority)
    stored.run_once()
    complete, other = (requested.storage.certificate(host) for host in (A, B))
    key_of_other = other.partition(b"-----BEGIN CERTIFICATE")[0]
    content = {"half": complete[: len(complete) // 3], "other host": other, "other key": key_of_other + complete[len(key_of_other) :]}.get(
        broken, broken
    )
    previous = active(stored)
    requested.storage.save_certificate(A, content)
    stored.run_once()
    assert active(stored) == previous, "what is shown is good still"
    again = renewal(requested, clock, authority)
    again.run_once()
    assert authority.requests[2:] == [(A, "tls-alpn-01")]
    assert active(again) not in (None, previous)
    assert any(entry["event"].startswith("stored certificate invalid") and entry["host"] == A for entry in log)
    StoredCertificate.parse(requested.storage.certificate(A), A)


def test_certificate_for_another_host_is_not_stored(requested, clock, authority, log):
    stored = renewal(requested, clock, authority)
    issue = authority.issuer.issue
    from proxy.autocert.stored_certificate import CertificateRequest

    authority.issuer.issue = lambda csr, *_, **more: issue(CertificateRequest.create(B, must_staple=False).csr, clock.now)
    stored.run_once()
    assert requested.storage.certificate(A) is None
    assert active(stored) is None
    assert any(entry["event"] == "certificate request failed" for entry in log)


def test_stop_ends_requests(requested, clock, authority):
    stored = renewal(replace(requested, hosts=(A, B)), clock, authority)
    stored.should_stop = lambda: bool(authority.requests)
    stored.run_once()
    assert authority.requests == [(A, "tls-alpn-01")]


def test_a_revoked_certificate_is_replaced_and_never_stapled(requested, clock, authority):
    authority.responder = "http://ocsp.example.com"
    stored = renewal(requested, clock, authority)
    status = [ocsp.OCSPCertStatus.GOOD]
    stored.staples._fetch_response = lambda url, chain: authority.issuer.response(chain, clock.now, status=status[0])
    stored.run_once()
    first = active(stored)
    assert len(stored.acme_state.staples) == 1
    status[0] = ocsp.OCSPCertStatus.REVOKED
    clock.advance(2.1 * DAY)
    stored.run_once()
    assert stored.acme_state.staples == {}
    status[0] = ocsp.OCSPCertStatus.GOOD
    stored.run_once()
    assert active(stored) != first
    assert len(stored.acme_state.staples) == 1


def test_must_staple_certificate_waits_for_staple(requested, clock, authority):
    renewal(requested, clock, authority).run_once()
    previous = CertificateChain.parse(requested.storage.certificate(A).partition(b"-----END PRIVATE KEY-----\n")[2]).leaf
    authority.responder = "http://ocsp.example.com"
    stored = renewal(replace(requested, must_staple=True), clock, authority)

    def is_away(url: str, chain: CertificateChain) -> bytes:
        raise UnverifiedStaple("away")

    stored.staples._fetch_response = is_away
    stored.run_once()
    assert len(authority.requests) == 1, "it takes effect at the next renewal only"
    clock.advance(61 * DAY)
    stored.run_once()
    assert x509.load_pem_x509_csr(authority.csr).extensions.get_extension_for_class(x509.TLSFeature)
    assert active(stored) == previous == get_leaf(stored.acme_state.pairs[A])
    stored.staples._fetch_response = lambda url, chain: authority.issuer.response(chain, clock.now)
    clock.advance(601)
    stored.run_once()
    assert active(stored) not in (previous, None)
    assert active(stored) == get_leaf(stored.acme_state.pairs[A])
    assert len(stored.acme_state.staples) == 1
    stored.staples._fetch_response = is_away
    clock.advance(20 * DAY)
    stored.run_once()
    assert active(stored) is not None
    assert stored.acme_state.pairs == {}, "without a staple it is of no use to who insists on it"


def test_certificates_of_the_configuration_are_stapled_too(requested, clock, authority, tmp_path):
    authority.responder = "http://ocsp.example.com"
    renewal(requested, clock, authority).run_once()
    content = requested.storage.certificate(A)
    pair = StoredCertificate.parse(content, A).pair
    stored = renewal(
        replace(requested, hosts=(), configured=(pair,), storage=CertificateStorage(tmp_path / "2", "https://x/")), clock, authority
    )
    stored.staples._fetch_response = lambda url, chain: authority.issuer.response(chain, clock.now)
    stored.run_once()
    assert set(stored.acme_state.staples) == {CertificateChain.parse(pair.certificate).fingerprint}


def test_requested_certificates_of_a_configuration(tmp_path):
    files = {}
    (tmp_path / "ca.pem").write_bytes(AuthorityInMemory(Clock()).issuer.certificate.public_bytes(Encoding.PEM))
    route = {"from": "https://app.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
    options = make_options(
        tmp_path,
        insecure_server=None,
        autocert=True,
        autocert_ca="https://ca.example.com/dir",
        autocert_trusted_ca_file=str(tmp_path / "ca.pem"),
        autocert_must_staple=True,
        autocert_email="a@example.com",
        http_redirect_addr=":80",
        policy=[route],
        **files,
    )
    requested = RequestedCertificates.from_options(options)
    assert requested.hosts == ("auth.example.com", "app.example.com")
    assert requested.acme_settings == AcmeSettings("https://ca.example.com/dir", "a@example.com")
    assert requested.trusted_ca == (tmp_path / "ca.pem").read_bytes()
    assert (requested.must_staple, requested.has_http) == (True, True)
    assert requested.storage.directory == tmp_path / "data" / "autocert" / "ca.example.com_dir"
