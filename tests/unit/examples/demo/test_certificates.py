"""Certificates that the demo's authority can issue, and those that it cannot."""

import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from examples.demo.certificates import Authority, is_still_valid, private_key_pem, write_private
from examples.demo.people import HOSTS

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test", permitted=("localhost",), now=NOW)


def shake_hands(authority: Authority, directory: Path, *, certificate_for: str, server_name: str) -> None:
    """A TLS handshake in memory; raises ssl.SSLCertVerificationError as any OpenSSL client would."""
    issued = authority.issue(certificate_for, now=NOW)
    (directory / "both.pem").write_bytes(issued.key_pem + issued.certificate_pem + authority.certificate_pem)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(directory / "both.pem")
    client_context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=server_name)
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()


@pytest.mark.parametrize("name", HOSTS)
def test_clients_accept_each_host_of_the_demo(authority: Authority, tmp_path: Path, name: str) -> None:
    shake_hands(authority, tmp_path, certificate_for=name, server_name=name)


@pytest.mark.parametrize("name", ["bank.example", "localhost.example", "notlocalhost", "10.0.0.1"])
def test_clients_refuse_names_that_the_authority_may_not_certify(authority: Authority, tmp_path: Path, name: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
        shake_hands(authority, tmp_path, certificate_for=name, server_name=name)


def test_the_authority_can_vouch_for_servers_only(authority: Authority) -> None:
    usage = authority.certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_strict_verifier_accepts_the_chain(authority: Authority) -> None:
    leaf = authority.issue(*HOSTS, now=NOW).certificate
    verifier = PolicyBuilder().store(Store([authority.certificate])).time(NOW).build_server_verifier(x509.DNSName("hello.localhost"))
    chain = verifier.verify(leaf, [])
    assert chain[-1] == authority.certificate


def test_a_certificate_is_renewed_for_a_new_name_another_authority_or_its_end(authority: Authority) -> None:
    other = Authority.create("other", permitted=("localhost",), now=NOW)
    issued = authority.issue("a.localhost", now=NOW).certificate_pem
    assert is_still_valid(issued, ["a.localhost"], authority, NOW)
    assert not is_still_valid(issued, ["a.localhost", "b.localhost"], authority, NOW)
    assert not is_still_valid(issued, ["a.localhost"], other, NOW)
    assert not is_still_valid(issued, ["a.localhost"], authority, NOW + timedelta(days=370))


def test_a_key_of_another_authority_is_refused_at_load(authority: Authority, tmp_path: Path) -> None:
    other = Authority.create("other", permitted=("localhost",), now=NOW)
    write_private(tmp_path / "ca.pem", authority.certificate_pem)
    write_private(tmp_path / "key.pem", private_key_pem(other.key))
    with pytest.raises(ValueError, match="does not belong to"):
        Authority.load(tmp_path / "ca.pem", tmp_path / "key.pem")
