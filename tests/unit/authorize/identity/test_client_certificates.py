"""Client certificates that are accepted, and those that are refused."""

import base64
import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from authorize.identity.client_certificates import (
    MAX_CACHED_CHAIN_BYTES,
    MAX_CHAIN_LENGTH,
    CertificateHosts,
    ClientCertificates,
    _read,
    parse_certificate,
    verify,
)
from authorize.policy.compiled_route import ClientAuthority
from authorize.policy.decision import Outcome, decide
from authorize.policy.policy_request import ClientCertificate
from tests.support.client_certificates import CLIENT, SERVER, Issued, authority
from tests.unit.authorize.builders import make_route, request, table, user

NOW = datetime(2027, 1, 15, tzinfo=UTC)
DAY = timedelta(days=1)
ROOT = authority(now=NOW)
ANN = ROOT.issue(now=NOW)
MIDDLE = ROOT.issue("middle", is_authority=True, usages=(), now=NOW)
ROOT_CA = ClientAuthority.from_pem(ROOT.pem)


def problem(*chain: Issued, trusted: Issued = ROOT, now: datetime = NOW) -> str:
    return verify(tuple(each.der for each in chain), trusted.pem, now.timestamp()).problem


def usage(*, signs: bool = False, certifies: bool = False) -> tuple[x509.KeyUsage, bool]:
    return x509.KeyUsage(signs, False, False, False, False, certifies, False, False, False), True


def test_accepts_valid_certificates() -> None:
    assert problem(ANN) == ""
    assert problem(MIDDLE.issue(now=NOW), MIDDLE) == ""
    assert problem(MIDDLE.issue(now=NOW), ANN, MIDDLE, ROOT) == ""
    assert problem(MIDDLE.issue(now=NOW), trusted=MIDDLE) == ""
    for usages, extensions in (((CLIENT,), []), ((), [usage(certifies=True)])):
        middle = ROOT.issue("middle", is_authority=True, usages=usages, extensions=extensions, now=NOW)
        assert problem(middle.issue(now=NOW), middle) == ""
    assert problem(ROOT.issue(now=NOW, usages=(SERVER, CLIENT), extensions=[usage(signs=True)])) == ""


BAD = {
    "of another authority": ([authority("other", now=NOW).issue(now=NOW)], "no chain"),
    "of another authority of the same name": ([authority(now=NOW).issue(now=NOW)], "no chain"),
    "expired": ([ROOT.issue(now=NOW, begins=-9 * DAY, ends=-DAY)], "it expired on 2027-01-14"),
    "not valid yet": ([ROOT.issue(now=NOW, begins=DAY)], "not valid before 2027-01-16"),
    "for servers": ([ROOT.issue(now=NOW, usages=(SERVER,))], "not for clients"),
    "for nothing in particular": ([ROOT.issue(now=NOW, usages=())], "no chain"),
    "self-signed": ([authority("ann", now=NOW).issue(now=NOW)], "no chain"),
    "the authority's own": ([ROOT], "a CA certificate"),
    "another authority's": ([MIDDLE], "a CA certificate"),
    "without its intermediate": ([MIDDLE.issue(now=NOW)], "no chain"),
    "issued by one that is no authority": ([ANN.issue("bob", now=NOW), ANN], "no chain"),
    "a key that may not sign": ([ROOT.issue(now=NOW, extensions=[usage(certifies=True)])], "may not sign"),
    "with an unknown critical extension": (
        [ROOT.issue(now=NOW, extensions=[(x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"), True)])],
        "no chain",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_rejects_invalid_certificate_with_reason(kind: str) -> None:
    chain, reason = BAD[kind]
    found = problem(*chain)
    assert reason in found
    assert "ValueError" not in found


@pytest.mark.parametrize(
    "details",
    [
        {"begins": -9 * DAY, "ends": -DAY},
        {"usages": (SERVER,)},
        {"is_authority": False},
        {"extensions": [usage(signs=True)]},
    ],
    ids=["expired", "for servers", "no authority", "may not certify"],
)
def test_rejects_invalid_intermediate(details: dict) -> None:
    middle = ROOT.issue("middle", **{"is_authority": True, "usages": (), "now": NOW, **details})
    assert problem(middle.issue(now=NOW), middle)


def test_rejects_expired_or_constrained_authority() -> None:
    old = authority(now=NOW, begins=-9 * DAY, ends=-DAY)
    assert problem(old.issue(now=NOW), trusted=old)
    short = authority(now=NOW, path_length=0)
    middle = short.issue("middle", is_authority=True, usages=(), now=NOW)
    assert problem(middle.issue(now=NOW), middle, trusted=short)


def test_names_outside_the_authoritys_limits_are_refused() -> None:
    limits = x509.NameConstraints([x509.DNSName("corp.example")], None)
    limited = authority(now=NOW, extensions=[(limits, True)])
    inside, outside = (
        limited.issue(now=NOW, extensions=[(x509.SubjectAlternativeName([x509.DNSName(name)]), False)])
        for name in ("ann.corp.example", "ann.evil.example")
    )
    assert problem(inside, trusted=limited) == ""
    assert problem(outside, trusted=limited)


@pytest.mark.parametrize("chain", [(), (b"",), (b"not DER",), (ANN.der[:-9],), (ANN.der,) * (MAX_CHAIN_LENGTH + 1)], ids=len)
def test_unreadable_token_is_invalid(chain: tuple[bytes, ...]) -> None:
    assert verify(chain, ROOT.pem, NOW.timestamp()).problem


def test_the_facts_of_a_certificate() -> None:
    presented = parse_certificate((ANN.der,))
    assert presented is not None
    key = ANN.certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert (presented.fingerprint, presented.subject) == (hashlib.sha256(ANN.der).hexdigest(), "CN=ann")
    assert presented.spki_hash == base64.b64encode(hashlib.sha256(key).digest()).decode()
    assert (parse_certificate(()), parse_certificate((b"junk",))) == (None, None)


def test_large_certificate_of_unauthenticated_client_is_not_cached() -> None:
    """A handshake may contain a hundred kilobytes, and any client may start one."""
    before = _read.cache_info().currsize
    for number in range(5):
        large = (ANN.der, b"%d" % number + b"x" * MAX_CACHED_CHAIN_BYTES)
        presented = parse_certificate(large)
        assert presented is not None
        assert (presented.chain, presented.subject) == (large, parse_certificate((ANN.der,)).subject)
    assert _read.cache_info().currsize <= before + 1


def verdict(certificates: ClientCertificates, presented: ClientCertificate | None, ca: ClientAuthority, now: datetime = NOW) -> str:
    found = certificates.with_verification(request(client_certificate=presented), ca, now.timestamp()).client_certificate
    assert found is not None
    return found.verification_errors[ca.id]


def test_no_verdict_without_certificate_or_authority() -> None:
    certificates = ClientCertificates()
    for presented, ca in ((None, ROOT_CA), (parse_certificate((ANN.der,)), None)):
        bare = request(client_certificate=presented)
        assert certificates.with_verification(bare, ca, NOW.timestamp()) is bare
    assert problem(ANN, trusted=ANN)


def test_a_verdict_that_is_remembered_ends_with_the_certificate_and_counts_for_one_authority() -> None:
    certificates, presented = ClientCertificates(), parse_certificate((ANN.der,))
    other = ClientAuthority.from_pem(authority("other", now=NOW).pem)
    assert verdict(certificates, presented, ROOT_CA) == ""
    assert verdict(certificates, presented, ROOT_CA, NOW + 29 * DAY) == ""
    assert verdict(certificates, presented, other)
    assert verdict(certificates, presented, ROOT_CA, NOW + 31 * DAY).startswith("it expired")
    assert "not valid before" in verdict(certificates, presented, ROOT_CA, NOW - 2 * DAY)
    assert repr(certificates) == "<ClientCertificates 1 good chains>"


def test_previous_verdict_is_discarded() -> None:
    forged = ClientCertificate("00", "00", "CN=x", (b"junk",), {ROOT_CA.id: ""})
    assert verdict(ClientCertificates(), forged, ROOT_CA)


@pytest.mark.parametrize(
    ("own", "common", "presented_to", "outcome"),
    [
        (None, ROOT, ROOT, Outcome.ALLOWED),
        (ROOT, None, ROOT, Outcome.ALLOWED),
        (MIDDLE, ROOT, ROOT, Outcome.CERTIFICATE),
        (ROOT, None, MIDDLE, Outcome.CERTIFICATE),
        (ROOT, None, None, Outcome.CERTIFICATE),
    ],
    ids=["the common authority", "the route's own", "the route's own takes its place", "verified by another", "none shown"],
)
def test_a_requirement_outranks_every_grant(
    own: Issued | None, common: Issued | None, presented_to: Issued | None, outcome: Outcome
) -> None:
    keys = {"tls_downstream_client_ca": base64.b64encode(own.pem).decode()} if own else {}
    presented = presented_to and ClientCertificate("00", "00", "CN=x", (), {ClientAuthority.from_pem(presented_to.pem).id: ""})
    for grant in ("allow_public_unauthenticated_access", "allow_any_authenticated_user", "cors_allow_preflight"):
        facts = {"method": "OPTIONS", "origin": b"https://o", "access_control_request_method": b"PUT", "client_certificate": presented}
        routes = table(make_route(**{grant: True}, **keys), client_ca=common.pem if common else None)
        assert decide(request(**facts), user(), routes, NOW.timestamp()).outcome is outcome


def test_hosts_that_want_a_certificate_are_known_by_every_spelling() -> None:
    ca = base64.b64encode(ROOT.pem).decode()
    routes = table(
        make_route(prefix="/a", tls_downstream_client_ca=ca),
        make_route("*.b.example", tls_downstream_client_ca=ca),
        make_route("c.example"),
    )
    hosts = CertificateHosts(routes.routes())
    assert [hosts.requires_certificate(name) for name in ("APP.example.com", "app.example.com.", "x.b.example", None)] == [True] * 4
    assert [hosts.requires_certificate(name) for name in ("c.example", "b.example", "y.x.b.example", "")] == [False] * 4
    assert not CertificateHosts(table(make_route()).routes()).requires_certificate(None)
