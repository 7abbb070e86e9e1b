import pytest
from cryptography import x509

from proxy.autocert.stored_certificate import CertificateChain, CertificateRequest, InvalidCertificate, StoredCertificate
from tests.support.issuing import NOW, Issuer

HOST = "a.example.com"


def made(host=HOST, *, must_staple=False, **how):
    request = CertificateRequest.create(host, must_staple=must_staple)
    return request.key.reveal() + Issuer().issue(request.csr, NOW, **how)


def test_request_is_for_one_host_with_new_key():
    first, second = (CertificateRequest.create(HOST, must_staple=False) for _ in range(2))
    csr = x509.load_pem_x509_csr(first.csr)
    assert csr.is_signature_valid
    (extension,) = csr.extensions
    assert extension.value.get_values_for_type(x509.DNSName) == [HOST]
    assert first.key != second.key
    assert "PRIVATE" not in repr(first)


def test_must_staple_is_in_the_request_and_then_in_the_certificate():
    csr = x509.load_pem_x509_csr(CertificateRequest.create(HOST, must_staple=True).csr)
    assert list(csr.extensions.get_extension_for_class(x509.TLSFeature).value) == [x509.TLSFeatureType.status_request]
    assert StoredCertificate.parse(made(must_staple=True), HOST).chain.must_staple
    assert not StoredCertificate.parse(made(), HOST).chain.must_staple


def test_parses_obtained_certificate():
    read = StoredCertificate.parse(made(days=90), HOST)
    assert ((read.chain.not_after - NOW).days, (read.chain.renew_at - NOW).days) == (90, 60)
    assert read.chain.issuer is not None
    assert "PRIVATE" not in repr(read)


def test_responder_comes_from_certificate():
    assert StoredCertificate.parse(made(responder="http://ocsp.example.com/x"), HOST).chain.responder == "http://ocsp.example.com/x"
    assert StoredCertificate.parse(made(), HOST).chain.responder is None


@pytest.mark.parametrize("host", ["b.example.com", "example.com", "b.a.example.com"])
def test_refuses_certificate_of_other_host(host):
    with pytest.raises(InvalidCertificate, match="another host"):
        StoredCertificate.parse(made(), host)


def test_refuses_certificate_of_other_key():
    key = CertificateRequest.create(HOST, must_staple=False).key.reveal()
    chain = made().partition(b"-----END PRIVATE KEY-----\n")[2]
    with pytest.raises(InvalidCertificate, match="do not match"):
        StoredCertificate.parse(key + chain, HOST)


@pytest.mark.parametrize("content", [b"", b"junk", made()[:300], made()[:700]])
def test_malformed_certificate_error_contains_no_data(content):
    with pytest.raises(InvalidCertificate) as raised:
        StoredCertificate.parse(content, HOST)
    assert "-----" not in str(raised.value)


def test_a_chain_without_an_issuer():
    chain = CertificateChain.parse(
        made().partition(b"-----END PRIVATE KEY-----\n")[2].partition(b"-----END CERTIFICATE-----\n")[0] + b"-----END CERTIFICATE-----\n"
    )
    assert chain.issuer is None
    assert len(chain.fingerprint) == 32
    assert chain.name == HOST
