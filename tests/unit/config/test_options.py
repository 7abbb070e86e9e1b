"""The rules that span groups of settings."""

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from tests.unit.config.conftest import Load, Problems, pem

ROUTE = {"from": "https://app.example.com", "to": "http://upstream"}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_options_do_not_change(load: Load) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load().cookie_name = "x"


def test_a_server_without_certificate_must_be_wanted(problems: Problems) -> None:
    message = problems(insecure_server=None)["certificate"]
    assert all(word in message for word in ("certificate_key", "_file", "certificates", "insecure_server"))


def test_certificates_of_all_forms_count_together(load: Load, pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_bytes(pair[0])
    (tmp_path / "key.pem").write_bytes(pair[1])
    options = load(
        insecure_server=None,
        certificate=encoded(pair[0]),
        certificate_key=encoded(pair[1]),
        certificate_file="cert.pem",
        certificate_key_file="key.pem",
        certificates=[{"cert": "cert.pem", "key": "key.pem"}],
    )
    assert [found.source for found in options.certificate_pairs] == ["certificate", "certificate_file", "certificates[0]"]
    assert all((found.certificate, found.key) == pair for found in options.certificate_pairs)
    assert "PRIVATE KEY" not in repr(options.certificate_pairs)
    assert "PRIVATE KEY" not in repr(options)


def test_half_a_pair_is_refused(problems: Problems, pair: tuple[bytes, bytes]) -> None:
    assert problems(certificate=encoded(pair[0])) == {"certificate": "needs certificate_key too"}
    assert problems(certificate_key=encoded(pair[1])) == {"certificate_key": "needs certificate too"}


def test_a_key_of_another_certificate_is_refused(problems: Problems, pair: tuple[bytes, bytes], other_key: bytes, tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_bytes(pair[0])
    (tmp_path / "other.pem").write_bytes(other_key)
    found = problems(certificate=encoded(pair[0]), certificate_key=encoded(other_key))
    mismatch = found["certificate"]
    assert list(found) == ["certificate"]
    assert "do not match" in mismatch
    assert problems(certificate_file="cert.pem", certificate_key_file="other.pem") == {"certificate_file": mismatch}
    assert problems(certificates=[{"cert": "cert.pem", "key": "other.pem"}]) == {"certificates[0]": mismatch}


def test_a_signing_key_must_fit_its_algorithm(load: Load, problems: Problems, other_key: bytes, tmp_path: Path) -> None:
    (tmp_path / "signing.pem").write_bytes(other_key)
    assert load(signing_key=encoded(other_key)).signing_key == other_key
    assert load(signing_key_file="signing.pem").signing_key == other_key
    assert "RS256" in problems(signing_key=encoded(other_key), signing_key_algorithm="RS256")["signing_key"]
    assert "EdDSA" in problems(signing_key_file="signing.pem", signing_key_algorithm="EdDSA")["signing_key_file"]
    assert "one of them" in problems(signing_key=encoded(other_key), signing_key_file="signing.pem")["signing_key"]


def test_an_authority_must_hold_certificates(load: Load, problems: Problems, pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(pair[0])
    (tmp_path / "no-ca.pem").write_bytes(b"x")
    assert load(certificate_authority_file="ca.pem").certificate_authority == pair[0]
    assert "no valid PEM" in problems(certificate_authority_file="no-ca.pem")["certificate_authority_file"]
    assert "no valid PEM" in problems(certificate_authority="c2hvcnQ=")["certificate_authority"]


@pytest.mark.parametrize(
    ("timeout_write", "timeout", "is_refused"),
    [("1m", "2m", True), ("1m", "0", True), ("1m", "1m", False), ("1m", None, False), ("0", "2m", False), (None, "0", False)],
)
def test_a_route_does_not_exceed_a_set_write_timeout(problems: Problems, timeout_write: Any, timeout: Any, is_refused: bool) -> None:
    found = problems(timeout_write=timeout_write, policy=[{**ROUTE, **({"timeout": timeout} if timeout else {})}])
    assert ("policy[0].timeout" in found) is is_refused


def test_groups_in_rules_must_come_from_somewhere(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "people.yaml").write_text("users: []")
    settings: dict[str, Any] = {"admin_allowed_groups": ["a"], "policy": [{**ROUTE, "allowed_groups": ["a"]}]}
    assert problems(**settings) == {}
    assert problems(**settings, groups_claim="", directory_file="people.yaml") == {}
    found = problems(**settings, groups_claim="")
    assert set(found) == {"admin_allowed_groups", "policy[0].allowed_groups"}
    assert all("directory_file or groups_claim" in message for message in found.values())


def test_an_ed25519_signing_key_is_accepted(load: Load) -> None:
    assert load(signing_key=encoded(pem(Ed25519PrivateKey.generate())), signing_key_algorithm="EdDSA").signing_key_algorithm == "EdDSA"


def test_client_certificates_need_tls_that_ends_here(problems: Problems, pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(pair[0])
    found = problems(client_ca=encoded(pair[0]))
    message = found["client_ca"]
    assert list(found) == ["client_ca"]
    assert "insecure_server" in message
    assert problems(client_ca_file="ca.pem") == {"client_ca_file": message}
    assert problems(policy=[{**ROUTE, "tls_downstream_client_ca_file": "ca.pem"}]) == {"policy[0].tls_downstream_client_ca_file": message}
    assert problems(client_ca_file="ca.pem", ext_authz_tokens=["x" * 32]) == {}  # an Envoy reports the client certificate


def test_an_authority_without_a_certificate_is_refused(problems: Problems, pair: tuple[bytes, bytes]) -> None:
    tls = {"insecure_server": None, "certificate": encoded(pair[0]), "certificate_key": encoded(pair[1])}
    assert "PEM" in problems(client_ca=encoded(b"x"), **tls)["client_ca"]
    found = problems(policy=[{**ROUTE, "tls_downstream_client_ca": encoded(b"x")}], **tls)
    assert "PEM" in found["policy[0].tls_downstream_client_ca"]


def test_a_rule_on_certificates_needs_one_that_is_verified(load: Load, problems: Problems, pair: tuple[bytes, bytes]) -> None:
    route = {**ROUTE, "policy": [{"allow": {"not": {"client_certificate": {"fingerprint": "ab" * 32}}}}]}
    assert "requires client_ca" in problems(policy=[route])["policy[0].policy"]
    tls = {"insecure_server": None, "certificate": encoded(pair[0]), "certificate_key": encoded(pair[1])}
    assert load(policy=[route], client_ca=encoded(pair[0]), **tls).client_ca == pair[0]


def test_a_rule_on_groups_needs_groups(problems: Problems) -> None:
    route = {**ROUTE, "policy": [{"allow": {"groups": "g"}}]}
    assert "no user has groups" in problems(policy=[route], groups_claim="")["policy[0].policy"]


def test_github_does_not_report_authentication_method(problems: Problems) -> None:
    route = {"from": "https://a.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
    found = problems(idp_provider="github", policy=[{**route, "acr_values": ["mfa"], "max_age": "5m"}])
    assert {"policy[0].acr_values", "policy[0].max_age"} <= found.keys()
