"""Verification of OCSP responses."""

import http.server
import threading
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from proxy.autocert.ocsp_client import MAX_RESPONSE_BYTES, UnverifiedStaple, _verify, fetch, verify
from proxy.autocert.stored_certificate import CertificateChain, CertificateRequest
from tests.support.issuing import NOW, Issuer

ISSUER = Issuer()
SIGNS_OCSP = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING])


def build_chain(issuer=ISSUER):
    return CertificateChain.parse(issuer.issue(CertificateRequest.create("a.example.com", must_staple=False).csr, NOW))


CHAIN = build_chain()


def test_current_response_is_refreshed_at_half_life_and_stapled_until_expiry():
    staple = verify(ISSUER.response(CHAIN, NOW), CHAIN, NOW + timedelta(hours=1))
    assert (staple.refresh_at, staple.not_after, staple.is_revoked) == (NOW + timedelta(days=2), NOW + timedelta(days=4), False)


def test_accepts_delegated_responder():
    responder = ISSUER.named_responder(NOW - timedelta(days=1), SIGNS_OCSP)
    assert not verify(responder.response(CHAIN, NOW, shows_itself=True), CHAIN, NOW).is_revoked


def test_a_revoked_certificate_is_known_as_such():
    assert verify(ISSUER.response(CHAIN, NOW, status=ocsp.OCSPCertStatus.REVOKED), CHAIN, NOW).is_revoked


VALID = ISSUER.response(CHAIN, NOW)
FORGED = {
    "nothing": b"",
    "junk": b"junk",
    "half": VALID[:-20],
    "a changed byte": VALID[:-1] + bytes([VALID[-1] ^ 1]),
    "the responder is busy": ocsp.OCSPResponseBuilder.build_unsuccessful(ocsp.OCSPResponseStatus.TRY_LATER).public_bytes(Encoding.DER),
    "another issuer's signature": Issuer().response(CHAIN, NOW),
    "another issuer's signature, that shows itself": Issuer().response(CHAIN, NOW, shows_itself=True),
    "about another certificate": ISSUER.response(build_chain(), NOW),
    "over": ISSUER.response(CHAIN, NOW - timedelta(days=5)),
    "not yet": ISSUER.response(CHAIN, NOW + timedelta(hours=1)),
    "no expiry": ISSUER.response(CHAIN, NOW, days=None),
    "unknown": ISSUER.response(CHAIN, NOW, status=ocsp.OCSPCertStatus.UNKNOWN),
    "a responder without the right": ISSUER.named_responder(NOW).response(CHAIN, NOW, shows_itself=True),
    "a responder for servers": ISSUER.named_responder(NOW, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])).response(
        CHAIN, NOW, shows_itself=True
    ),
    "a responder that is over": ISSUER.named_responder(NOW - timedelta(days=60), SIGNS_OCSP).response(CHAIN, NOW, shows_itself=True),
    "a responder that another issuer named": Issuer().named_responder(NOW, SIGNS_OCSP).response(CHAIN, NOW, shows_itself=True),
    "a responder that does not show itself": ISSUER.named_responder(NOW, SIGNS_OCSP).response(CHAIN, NOW),
}


@pytest.mark.parametrize("response", FORGED.values(), ids=FORGED)
def test_refuses_unverified_response(response):
    with pytest.raises(UnverifiedStaple):
        verify(response, CHAIN, NOW)


@pytest.mark.parametrize("algorithm", [hashes.SHA1(), hashes.MD5()], ids=lambda algorithm: algorithm.name)
def test_refuses_weak_signature(algorithm):
    weak = SimpleNamespace(signature_hash_algorithm=algorithm)  # the library signs none
    with pytest.raises(UnverifiedStaple, match="weak"):
        _verify(ISSUER.certificate, weak)


def test_ocsp_needs_an_issuer():
    alone = CertificateChain(CHAIN.leaf, None)
    with pytest.raises(UnverifiedStaple, match="no issuer"):
        fetch("http://127.0.0.1:1", alone)
    with pytest.raises(UnverifiedStaple, match="no issuer"):
        verify(ISSUER.response(CHAIN, NOW), alone, NOW)


class Responder(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        received = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/ocsp-request"
        is_about = ocsp.load_der_ocsp_request(received).serial_number == CHAIN.leaf.serial_number
        body = {"/good": ISSUER.response(CHAIN, NOW), "/endless": b"x" * (MAX_RESPONSE_BYTES + 1)}.get(self.path, b"")
        self.send_response(200 if is_about and body else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Responder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_sends_ocsp_request_for_certificate(url):
    assert not verify(fetch(f"{url}/good", CHAIN), CHAIN, NOW).is_revoked


@pytest.mark.parametrize("path", ["/endless", "/none"])
def test_reports_invalid_response(url, path):
    with pytest.raises(UnverifiedStaple):
        fetch(url + path, CHAIN)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/", "ldap://127.0.0.1/", "nonsense", "http://[", ""])
def test_reports_unavailable_responder(address):
    with pytest.raises(UnverifiedStaple, match="unavailable"):
        fetch(address, CHAIN)
