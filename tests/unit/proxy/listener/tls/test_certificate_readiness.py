from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from examples.demo.certificates import Authority
from foundation.readiness import ComponentStatus, ReadinessState
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.certificate_readiness import CertificateReadiness, configured_expiries
from tests.support.certs import PERMITTED
from tests.support.options import make_options

NOW = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
AUTHENTICATE, APP = "authenticate.localhost", "app.localhost"
AUTHORITY = Authority.create("tests", permitted=PERMITTED, now=NOW)


def read(
    tmp_path: Path, *hosts: str, lifetime: timedelta = timedelta(days=90), offset: datetime = NOW, **settings: object
) -> ComponentStatus:
    issued = AUTHORITY.issue(*hosts, now=NOW, lifetime=lifetime)
    (tmp_path / "key.pem").write_bytes(issued.key_pem)
    (tmp_path / "certificate.pem").write_bytes(issued.certificate_pem)
    files = {"certificate_file": str(tmp_path / "certificate.pem"), "certificate_key_file": str(tmp_path / "key.pem")}
    urls = {"authenticate_service_url": f"https://{AUTHENTICATE}", "policy": [{"from": f"https://{APP}", "to": "http://localhost:1"}]}
    options = make_options(tmp_path, **{**urls, **files, "insecure_server": None, **settings})
    return CertificateReadiness(options, AcmeState())(offset)


def test_certificates_for_all_hosts_are_in_order(tmp_path):
    assert read(tmp_path, AUTHENTICATE, APP) == ComponentStatus("certificates")


@pytest.mark.parametrize(
    ("lifetime", "passed", "prefix"),
    [
        (timedelta(days=90), timedelta(days=84), "expires at 2027-04-15T07:00:00Z"),
        (timedelta(days=90), timedelta(days=90), "expired at 2027-04-15T07:00:00Z"),
        (timedelta(days=90), timedelta(days=-30), "is not valid before "),
        (timedelta(days=5), timedelta(days=4, hours=1), "expires at 2027-01-20T07:00:00Z"),
    ],
)
def test_reports_expired_and_expiring_certificates(tmp_path, lifetime, passed, prefix):
    part = read(tmp_path, AUTHENTICATE, APP, lifetime=lifetime, offset=NOW + passed)
    assert part.state is ReadinessState.DEGRADED
    assert f"certificate_file {prefix}" in part.reason


@pytest.mark.parametrize(("lifetime", "passed"), [(timedelta(days=90), timedelta(days=82)), (timedelta(days=5), timedelta(days=3))])
def test_certificate_that_expires_later_is_not_reported(tmp_path, lifetime, passed):
    assert read(tmp_path, AUTHENTICATE, APP, lifetime=lifetime, offset=NOW + passed).state is ReadinessState.OK


def test_the_expiry_of_each_configured_certificate_is_known(tmp_path):
    files = []
    for number, (host, lifetime) in enumerate([(APP, 90), (APP, 30), (AUTHENTICATE, 60)]):
        issued = AUTHORITY.issue(host, now=NOW, lifetime=timedelta(days=lifetime))
        for kind, pem in (("cert", issued.certificate_pem), ("key", issued.key_pem)):
            (tmp_path / f"{number}.{kind}").write_bytes(pem)
        files.append({kind: str(tmp_path / f"{number}.{kind}") for kind in ("cert", "key")})
    options = make_options(tmp_path, certificates=files, insecure_server=None)
    ends = {host: datetime.fromtimestamp(seconds, UTC) - NOW for host, seconds in configured_expiries(options).items()}
    assert {host: round(left / timedelta(days=1)) for host, left in ends.items()} == {APP: 30, AUTHENTICATE: 60}


def test_a_host_without_a_certificate_is_named_and_of_many_a_few(tmp_path):
    routes = [{"from": f"https://app{number}.localhost", "to": "http://localhost:1"} for number in range(5)]
    part = read(tmp_path, AUTHENTICATE, policy=routes)
    assert part.state is ReadinessState.DEGRADED
    assert part.reason == "no certificate for app0.localhost, app1.localhost, app2.localhost and 2 more"


def test_reports_nothing_without_tls(tmp_path):
    assert read(tmp_path, AUTHENTICATE, insecure_server=True, certificate_file=None, certificate_key_file=None).state is ReadinessState.OK


def test_autocert_certificates_expire_and_pending_ones_are_listed(tmp_path):
    settings = {"autocert": True, "autocert_email": "ops@example.com", "certificate_file": None, "certificate_key_file": None}
    urls = {
        "authenticate_service_url": "https://authenticate.example.com",
        "policy": [{"from": "https://app.example.com", "to": "http://localhost:1"}],
    }
    options = make_options(tmp_path, **{**settings, **urls, "insecure_server": None, "address": ":443"})
    nothing = CertificateReadiness(options, AcmeState(is_enabled=True))(NOW)
    assert (nothing.state, "no certificate yet" in nothing.reason) == (ReadinessState.DEGRADED, True)
    authority = Authority.create("acme", permitted=["example.com"], now=NOW)
    leaves = {
        host: x509.load_pem_x509_certificate(authority.issue(host, now=NOW, lifetime=timedelta(days=90)).certificate_pem)
        for host in ("authenticate.example.com", "app.example.com")
    }
    acme_state = replace(AcmeState(is_enabled=True), leaf_certificates=leaves)
    readiness = CertificateReadiness(options, acme_state)
    assert readiness(NOW).state is ReadinessState.OK
    assert readiness(NOW + timedelta(days=91, seconds=1)).state is ReadinessState.DEGRADED
    assert readiness(NOW + timedelta(days=91)) is readiness(NOW + timedelta(days=91, seconds=9))
    assert "the one of app.example.com expired" in CertificateReadiness(options, acme_state)(NOW + timedelta(days=91)).reason
