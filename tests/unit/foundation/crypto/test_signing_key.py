"""The signing key of identity assertions."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat, PublicFormat
from structlog.testing import capture_logs

from foundation.crypto.signing_key import SigningKey, thumbprint, validate_jwk
from foundation.errors import ConfigError
from tests.support.options import make_options

P256 = ec.generate_private_key(ec.SECP256R1())
ED25519 = ed25519.Ed25519PrivateKey.generate()
RSA = rsa.generate_private_key(65537, 2048)
SEC1 = PKCS1 = PrivateFormat.TraditionalOpenSSL
PKCS8 = PrivateFormat.PKCS8


def pem(key: Any, form: PrivateFormat = PKCS8, password: bytes | None = None) -> str:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return base64.b64encode(key.private_bytes(Encoding.PEM, form, encryption)).decode()


def signing_key(directory: Path, **settings: Any) -> SigningKey:
    return SigningKey.from_options(make_options(directory, **settings))


FORMS = [
    pytest.param(pem(P256, SEC1), "ES256", {"kty", "crv", "x", "y"}, id="SEC1"),
    pytest.param(pem(P256), "ES256", {"kty", "crv", "x", "y"}, id="P-256 in PKCS8"),
    pytest.param(pem(ED25519), "EdDSA", {"kty", "crv", "x"}, id="Ed25519"),
    pytest.param(pem(RSA, PKCS1), "RS256", {"kty", "n", "e"}, id="PKCS1"),
    pytest.param(pem(RSA), "RS256", {"kty", "n", "e"}, id="RSA in PKCS8"),
]


@pytest.mark.parametrize(("text", "algorithm", "members"), FORMS)
def test_a_stranger_verifies_a_signature_with_nothing_but_the_key_set(tmp_path: Path, text: str, algorithm: str, members: set[str]) -> None:
    key = signing_key(tmp_path, signing_key=text, signing_key_algorithm=algorithm)
    token = key.sign({"aud": "app.example.com", "sub": "1"})
    published = json.loads(json.dumps([key.jwk()]))
    assert [set(entry) for entry in published] == [{"use", "alg", "kid"} | members]
    assert jwt.get_unverified_header(token) == {"alg": algorithm, "kid": published[0]["kid"]}
    found = jwt.decode(token, jwt.PyJWK(published[0]), algorithms=[algorithm], audience="app.example.com")
    assert (found, key.is_configured) == ({"aud": "app.example.com", "sub": "1"}, True)


@pytest.mark.parametrize(("text", "algorithm", "members"), FORMS)
def test_the_key_set_holds_no_private_member(tmp_path: Path, text: str, algorithm: str, members: set[str]) -> None:
    published = signing_key(tmp_path, signing_key=text, signing_key_algorithm=algorithm).jwk()
    assert not set(published) & {"d", "p", "q", "dp", "dq", "qi", "k"}


@pytest.mark.parametrize(("text", "algorithm", "members"), FORMS)
def test_the_kid_is_the_thumbprint_in_hex(tmp_path: Path, text: str, algorithm: str, members: set[str]) -> None:
    published = signing_key(tmp_path, signing_key=text, signing_key_algorithm=algorithm).jwk()
    required = json.dumps({name: published[name] for name in sorted(members)}, separators=(",", ":"))
    assert published["kid"] == hashlib.sha256(required.encode()).hexdigest()


def test_the_thumbprint_is_that_of_the_standards_example() -> None:
    """RFC 8037, appendix A.3."""
    members = {"crv": "Ed25519", "kty": "OKP", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    assert thumbprint(members) == base64.urlsafe_b64decode("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k=").hex()


PUBLIC = base64.b64encode(P256.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)).decode()


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        pytest.param(pem(P256), "RS256", id="EC key for RS256"),
        pytest.param(pem(P256), "EdDSA", id="EC key for EdDSA"),
        pytest.param(pem(RSA), "ES256", id="RSA key for ES256"),
        pytest.param(pem(ec.generate_private_key(ec.SECP384R1())), "ES256", id="P-384"),
        pytest.param(pem(ec.generate_private_key(ec.SECP256K1())), "ES256", id="secp256k1"),
        pytest.param(pem(rsa.generate_private_key(65537, 1024)), "RS256", id="a short RSA key"),
        pytest.param(pem(P256, PKCS8, b"password"), "ES256", id="encrypted"),
        pytest.param(PUBLIC, "ES256", id="a public key"),
        pytest.param(base64.b64encode(b"not a key").decode(), "ES256", id="nonsense"),
    ],
)
def test_a_key_that_does_not_fit_is_a_problem_of_the_setting(tmp_path: Path, text: str, algorithm: str) -> None:
    with pytest.raises(ConfigError) as caught:
        signing_key(tmp_path, signing_key=text, signing_key_algorithm=algorithm)
    assert [problem.key for problem in caught.value.problems] == ["signing_key"]


def test_without_a_setting_a_key_is_made_and_its_public_half_logged(tmp_path: Path) -> None:
    with capture_logs() as logs:
        key = signing_key(tmp_path)
    assert not key.is_configured
    assert [(entry["event"], entry["log_level"], entry["kid"], entry["public_key"]) for entry in logs] == [
        ("signing key generated", "info", key.kid, key.public_key_base64())
    ]
    assert signing_key(tmp_path).kid != key.kid


def test_a_generated_key_survives_a_reload_and_a_configured_one_replaces_it(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    first = SigningKey.from_options(options)
    assert SigningKey.from_options(options, first) is first
    configured = SigningKey.from_options(make_options(tmp_path, signing_key=pem(P256)), first)
    assert configured.is_configured
    assert not SigningKey.from_options(options, configured).is_configured


@pytest.mark.parametrize(("algorithm", "kind"), [("ES256", "EC"), ("EdDSA", "OKP"), ("RS256", "RSA")])
def test_a_generated_key_is_one_for_the_algorithm_that_is_set(tmp_path: Path, algorithm: str, kind: str) -> None:
    key = signing_key(tmp_path, signing_key_algorithm=algorithm)
    assert (key.algorithm, key.jwk()["alg"], key.jwk()["kty"]) == (algorithm, algorithm, kind)
    public = jwt.PyJWK.from_dict(key.jwk()).key
    assert jwt.decode(key.sign({"sub": "ann"}), public, algorithms=[algorithm]) == {"sub": "ann"}


def test_a_generated_key_gives_way_to_one_of_another_algorithm(tmp_path: Path) -> None:
    first = signing_key(tmp_path)
    second = SigningKey.from_options(make_options(tmp_path, signing_key_algorithm="EdDSA"), first)
    assert (second.algorithm, second.is_configured) == ("EdDSA", False)


def test_a_key_does_not_show_itself(tmp_path: Path) -> None:
    key = signing_key(tmp_path, signing_key=pem(P256))
    assert repr(key) == f"<SigningKey ES256 {key.kid[:12]} configured>"
    assert repr(signing_key(tmp_path)).endswith(" generated>")


@pytest.mark.parametrize("change", [{"alg": "HS256"}, {"use": "enc"}, {"d": "x"}, {"kid": "x"}])
def test_nothing_but_a_public_key_under_its_own_name_is_a_key_of_gate(tmp_path: Path, change: dict[str, str]) -> None:
    jwk = signing_key(tmp_path).jwk()
    assert validate_jwk(jwk) == jwk
    with pytest.raises(ValueError, match="key"):
        validate_jwk({**jwk, **change})
