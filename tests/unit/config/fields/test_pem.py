"""Keys and certificates are checked when the configuration is read, not when the first person comes."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from config.fields.pem import check_ca_certificates, check_key_matches, check_signing_key
from tests.unit.config.conftest import pem


def test_a_certificate_and_its_key_belong_together(pair: tuple[bytes, bytes], other_key: bytes) -> None:
    check_key_matches(*pair)
    with pytest.raises(ValueError, match="do not match"):
        check_key_matches(pair[0], other_key)


def test_a_pair_must_be_pem(pair: tuple[bytes, bytes]) -> None:
    for certificate in (b"", b"x", pair[1], pair[0][:100]):
        with pytest.raises(ValueError, match=r"certificate .* PEM"):
            check_key_matches(certificate, pair[1])
    for key in (b"", b"x", pair[0], pair[1][:60]):
        with pytest.raises(ValueError, match=r"private key .* PEM"):
            check_key_matches(pair[0], key)


def test_a_key_with_a_password_is_refused(pair: tuple[bytes, bytes]) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2"))
    with pytest.raises(ValueError, match="without a password"):
        check_key_matches(pair[0], key)


def test_an_authority_holds_certificates(pair: tuple[bytes, bytes]) -> None:
    check_ca_certificates(pair[0])
    check_ca_certificates(pair[0] * 2)
    for content in (b"", b"x", pair[1]):
        with pytest.raises(ValueError, match="no valid PEM certificate"):
            check_ca_certificates(content)


def test_a_signing_key_fits_its_algorithm_only() -> None:
    keys = {
        "ES256": pem(ec.generate_private_key(ec.SECP256R1())),
        "EdDSA": pem(ed25519.Ed25519PrivateKey.generate()),
        "RS256": pem(rsa.generate_private_key(65537, 2048)),
        "none": pem(ec.generate_private_key(ec.SECP384R1())),
    }
    for kind, key in keys.items():
        for algorithm in ("ES256", "EdDSA", "RS256"):
            if kind == algorithm:
                check_signing_key(key, algorithm)
            else:
                with pytest.raises(ValueError, match=f"does not fit signing_key_algorithm {algorithm}"):
                    check_signing_key(key, algorithm)


def test_a_short_rsa_key_is_refused() -> None:
    with pytest.raises(ValueError, match="2048"):
        check_signing_key(pem(rsa.generate_private_key(65537, 1024)), "RS256")
