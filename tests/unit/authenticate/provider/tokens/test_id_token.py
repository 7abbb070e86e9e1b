"""ID tokens: only the provider's token for gate and for this sign-in, within its lifetime, is accepted."""

import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from authenticate.provider.tokens.id_token import ExpectedIdToken, unverified_claims, verify, verify_userinfo
from authenticate.provider.tokens.signed_token import SigningKeyNotFound
from foundation.errors import ProviderError
from tests.support.fake_idp import ABSENT, EC_KEY, ED_KEY, OTHER_RSA_KEY, RSA_KEY, encoded, public_jwk, signed

NOW = 1_800_000_000.0
ISSUER = "https://idp.example.com"
P384_KEY, P521_KEY = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP521R1())
KEYS = (
    public_jwk(RSA_KEY, "RS256", "rsa"),
    public_jwk(EC_KEY, "ES256", "ec"),
    public_jwk(P384_KEY, "ES384", "p384"),
    public_jwk(P521_KEY, "ES512", "p521"),
    public_jwk(ED_KEY, "EdDSA", "ed"),
)
PRIVATE = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), (RSA_KEY, "rsa")),
    "ES256": (EC_KEY, "ec"),
    "ES384": (P384_KEY, "p384"),
    "ES512": (P521_KEY, "p521"),
    "EdDSA": (ED_KEY, "ed"),
}
ALL = frozenset(PRIVATE)
EXPECTED = ExpectedIdToken(ISSUER, "gate", "the-nonce", "the-access-token", ALL)
CLAIMS = {"iss": ISSUER, "aud": "gate", "sub": "alice", "exp": NOW + 600, "iat": NOW, "nonce": "the-nonce"}


def token(algorithm: str = "RS256", header: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
    default_key, kid = PRIVATE[algorithm]
    members = {"alg": algorithm, "kid": kid, "typ": "JWT", **(header or {})}
    members = {name: value for name, value in members.items() if value is not ABSENT}
    payload = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not ABSENT}
    return signed(members, payload, key or default_key, algorithm)


def accepted(text: str, keys: Any = KEYS, expected: ExpectedIdToken = EXPECTED) -> dict[str, Any]:
    return verify(text, tuple(keys), expected, NOW)


def refused(text: str, keys: Any = KEYS, expected: ExpectedIdToken = EXPECTED) -> str:
    with pytest.raises(ProviderError) as caught:
        verify(text, tuple(keys), expected, NOW)
    return str(caught.value)


@pytest.mark.parametrize("algorithm", sorted(ALL))
def test_a_token_of_the_provider_is_accepted_with_each_algorithm(algorithm: str) -> None:
    assert accepted(token(algorithm))["sub"] == "alice"


def test_a_refreshed_token_may_lack_the_nonce_and_must_not_have_another() -> None:
    refreshed = replace(EXPECTED, is_refreshed=True)
    assert accepted(token(nonce=ABSENT), expected=refreshed)["sub"] == "alice"
    assert accepted(token(), expected=refreshed)["sub"] == "alice"
    assert "nonce" in refused(token(nonce="another"), expected=refreshed)
    assert "nonce" in refused(token(nonce=ABSENT))


def test_verified_token_can_be_read_again() -> None:
    assert unverified_claims(token())["sub"] == "alice"
    assert unverified_claims("") == {}


TENANT = "11111111-2222-3333-4444-555555555555"
SHARED = replace(EXPECTED, issuer="https://login.example/{tenantid}/v2.0")


def test_a_shared_endpoint_has_an_issuer_for_each_tenant() -> None:
    assert accepted(token(iss=f"https://login.example/{TENANT}/v2.0", tid=TENANT), expected=SHARED)["sub"] == "alice"
    for iss, tid in (
        (f"https://login.example/{TENANT}/v2.0", "21111111-2222-3333-4444-555555555555"),
        ("https://login.example/{tenantid}/v2.0", TENANT),
        ("https://login.example/evil/v2.0", "evil"),
        (f"https://evil.example/{TENANT}/v2.0", TENANT),
    ):
        refused(token(iss=iss, tid=tid), expected=SHARED)


def test_the_key_of_one_tenant_signs_for_no_other() -> None:
    mine, other = f"https://login.example/{TENANT}/v2.0", "https://login.example/21111111-2222-3333-4444-555555555555/v2.0"
    valid = token(iss=mine, tid=TENANT)
    for owner in (mine, SHARED.issuer):
        assert accepted(valid, keys=[{**KEYS[0], "issuer": owner}], expected=SHARED)["sub"] == "alice"
    with pytest.raises(SigningKeyNotFound):
        verify(valid, ({**KEYS[0], "issuer": other},), SHARED, NOW)


@pytest.mark.parametrize("algorithm", sorted(ALL))
def test_an_algorithm_that_the_provider_does_not_offer_is_refused(algorithm: str) -> None:
    expected = ExpectedIdToken(ISSUER, "gate", "the-nonce", "the-access-token", ALL - {algorithm})
    assert "algorithm" in refused(token(algorithm), expected=expected)


@pytest.mark.parametrize(
    "name", ["none", "None", "nOnE", "NONE", "", None, 0, ["RS256"], ABSENT, "HS256", "HS512", "RS1", "ES256K", "rs256"]
)
def test_no_signature_and_foreign_algorithms_are_refused(name: Any) -> None:
    bent = token(header={"alg": name})
    assert "algorithm" in refused(bent)
    assert "algorithm" in refused(bent.rpartition(".")[0] + ".")


def _public_key_forms() -> list[bytes]:
    public = RSA_KEY.public_key()
    forms = [
        public.public_bytes(encoding, form)
        for encoding, form in (
            (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            (Encoding.PEM, PublicFormat.PKCS1),
            (Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            (Encoding.DER, PublicFormat.PKCS1),
            (Encoding.OpenSSH, PublicFormat.OpenSSH),
        )
    ]
    return [*forms, *(form.strip() for form in forms), json.dumps(KEYS[0]).encode(), KEYS[0]["n"].encode()]


@pytest.mark.parametrize("secret", _public_key_forms())
@pytest.mark.parametrize("kid", ["rsa", ABSENT])
def test_public_key_of_gate_is_no_shared_secret(secret: bytes, kid: Any) -> None:
    header = {name: value for name, value in {"alg": "HS256", "kid": kid, "typ": "JWT"}.items() if value is not ABSENT}
    signing_input = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(CLAIMS).encode())}"
    signature = hmac.digest(secret, signing_input.encode(), hashlib.sha256)
    refused(f"{signing_input}.{encoded(signature)}")


@pytest.mark.parametrize(("declared", "made"), [("RS256", "PS256"), ("PS256", "RS256")])
def test_swapped_algorithms_are_refused(declared: str, made: str) -> None:
    refused(token(made, header={"alg": declared}))


@pytest.mark.parametrize("kid", ["ec", "ed"])
def test_a_key_of_another_kind_is_refused(kid: str) -> None:
    refused(token("RS256", header={"kid": kid}))


def test_a_key_of_another_issuer_with_the_same_id_is_refused() -> None:
    with pytest.raises(SigningKeyNotFound):
        accepted(token(key=OTHER_RSA_KEY))


@pytest.mark.parametrize(
    "kid", ["unknown", "", "RSA", "../../../dev/null", "rsa' OR '1'='1", "http://127.0.0.1/key", "x" * 10_000, 0, ["rsa"], {"a": 1}, True]
)
def test_an_unknown_key_id_is_refused(kid: Any) -> None:
    refused(token(header={"kid": kid}))


def test_without_key_id_exactly_one_key_must_fit() -> None:
    assert accepted(token(header={"kid": ABSENT}))
    two = (*KEYS, public_jwk(OTHER_RSA_KEY, "RS256", "second"))
    with pytest.raises(SigningKeyNotFound):
        accepted(token(header={"kid": ABSENT}), keys=two)
    assert accepted(token(), keys=two)


def test_two_keys_with_one_id_are_ambiguous() -> None:
    with pytest.raises(SigningKeyNotFound):
        accepted(token(), keys=(*KEYS, public_jwk(OTHER_RSA_KEY, "RS256", "rsa")))


@pytest.mark.parametrize(
    "change", [{"use": "enc"}, {"alg": "RS512"}, {"kty": "EC"}, {"key_ops": ["encrypt"]}, {"key_ops": "verify"}, {"n": 5}, {"n": "AQAB"}]
)
def test_a_key_that_is_not_for_this_is_not_used(change: dict[str, Any]) -> None:
    with pytest.raises(SigningKeyNotFound):
        accepted(token(), keys=({**KEYS[0], **change},))


def test_an_rsa_key_of_1024_bits_is_not_used() -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.raises(SigningKeyNotFound):
        accepted(token(key=weak), keys=(public_jwk(weak, "RS256", "rsa"),))


def test_an_ec_key_of_another_curve_is_not_used() -> None:
    other = ec.generate_private_key(ec.SECP384R1())
    jwk = json.loads(jwt.get_algorithm_by_name("ES384").to_jwk(other.public_key())) | {"kid": "ec"}
    with pytest.raises(SigningKeyNotFound):
        accepted(token("ES256"), keys=(jwk,))


@pytest.mark.parametrize("signature", [bytes(64), bytes(63) + b"\x01", bytes(31) + b"\x01" + bytes(32), b"", b"\x00", bytes(65)])
def test_degenerate_ec_signatures_are_refused(signature: bytes) -> None:
    head = token("ES256").rpartition(".")[0]
    with pytest.raises(SigningKeyNotFound):
        accepted(f"{head}.{encoded(signature)}")
    with pytest.raises(SigningKeyNotFound):
        accepted(f"{head}.{encoded(encode_dss_signature(1, 1))}")


@pytest.mark.parametrize("part", [0, 1, 2])
def test_every_changed_part_is_refused(part: int) -> None:
    segments = token().split(".")
    for position in range(0, len(segments[part]), 7):
        changed = list(segments)
        text = changed[part]
        changed[part] = text[:position] + ("A" if text[position] != "A" else "B") + text[position + 1 :]
        refused(".".join(changed))


@pytest.mark.parametrize("name", ["jku", "x5u"])
def test_key_addresses_in_the_header_are_ignored(name: str) -> None:
    assert accepted(token(header={name: "http://127.0.0.1:1/evil"}))
    refused(token(key=OTHER_RSA_KEY, header={name: "http://127.0.0.1:1/evil"}))


def test_keys_in_the_header_are_ignored() -> None:
    refused(token(key=OTHER_RSA_KEY, header={"jwk": public_jwk(OTHER_RSA_KEY, "RS256", "rsa")}))
    refused(token(key=OTHER_RSA_KEY, header={"x5c": ["MIIB"]}))


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"crit": []}, {"b64": False}, {"b64": True}, {"zip": "DEF"}, {"enc": "A256GCM"}])
def test_headers_that_change_how_a_token_is_read_are_refused(header: dict[str, Any]) -> None:
    assert "header" in refused(token(header=header))


@pytest.mark.parametrize("kind", ["at+jwt", "logout+jwt", "JWE", "", 1, None])
def test_tokens_of_another_type_are_refused(kind: Any) -> None:
    assert "type" in refused(token(header={"typ": kind}))


@pytest.mark.parametrize("kind", ["jwt", "application/jwt", ABSENT])
def test_the_type_of_an_id_token_has_several_spellings(kind: Any) -> None:
    assert accepted(token(header={"typ": kind}))


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "...", "a.b.c", "a.b.c.d.e", "{}", " ".join(["x"] * 3), "\x00", "x" * 100_000],
)
def test_malformed_token_is_refused(text: str) -> None:
    refused(text)


def test_an_encrypted_token_is_refused() -> None:
    encrypted = ".".join([encoded(b'{"alg":"RSA-OAEP","enc":"A256GCM"}'), *["AAAA"] * 4])
    assert "ID token is encrypted (JWE)" in refused(encrypted)


def test_a_nested_token_is_refused() -> None:
    inner = token()
    header = encoded(json.dumps({"alg": "RS256", "kid": "rsa", "cty": "JWT"}).encode())
    signing_input = f"{header}.{encoded(inner.encode())}".encode()
    signature = jwt.get_algorithm_by_name("RS256").sign(signing_input, RSA_KEY)
    refused(f"{signing_input.decode()}.{encoded(signature)}")


@pytest.mark.parametrize("spoil", [" {}", "{} ", "\n{}", "{}\n", "{}=", "{}=="])
def test_whitespace_and_padding_are_refused(spoil: str) -> None:
    refused(spoil.format(token()))


def test_a_token_of_a_megabyte_is_refused() -> None:
    assert "too large" in refused(token(filling="x" * 1_000_000))


@pytest.mark.parametrize(
    "payload",
    [b'{"iss":"a","iss":"b"}', b"[]", b"null", b'"text"', b"{", b'{"exp":NaN}', b'{"exp":1e999}', b'{"a":"\\ud800"}', b"\xff", b"{}" * 2],
)
def test_a_payload_with_two_readings_is_refused(payload: bytes) -> None:
    header = encoded(json.dumps({"alg": "RS256", "kid": "rsa"}).encode())
    signing_input = f"{header}.{encoded(payload)}".encode()
    signature = jwt.get_algorithm_by_name("RS256").sign(signing_input, RSA_KEY)
    assert "read" in refused(f"{signing_input.decode()}.{encoded(signature)}")


@pytest.mark.parametrize(
    "issuer",
    [ABSENT, None, "", "https://idp.example.com/", "https://idp.example.com.evil.example", "https://idp.example", "HTTPS://IDP.EXAMPLE.COM",
     "http://idp.example.com", [ISSUER], {"iss": ISSUER}],
)  # fmt: skip
def test_another_issuer_is_refused(issuer: Any) -> None:
    assert "issuer" in refused(token(iss=issuer))


@pytest.mark.parametrize("audience", [ABSENT, None, "", "gat", "gate2", "GATE", [], ["other"], {"gate": 1}, 7, [["gate"]]])
def test_another_audience_is_refused(audience: Any) -> None:
    assert "audience" in refused(token(aud=audience))


def test_several_audiences_require_gate_as_authorized_party() -> None:
    assert accepted(token(aud=["gate"]))
    assert accepted(token(aud=["other", "gate"], azp="gate"))
    assert "client" in refused(token(aud=["other", "gate"]))
    assert "client" in refused(token(aud=["other", "gate"], azp="other"))


@pytest.mark.parametrize("party", ["other", "", None, ["gate"]])
def test_a_token_issued_to_another_client_is_refused(party: Any) -> None:
    assert "client" in refused(token(azp=party))


@pytest.mark.parametrize("subject", [ABSENT, None, "", 7, "x" * 256, "a\nb", "a\x00", ["alice"], "\u202ealice"])
def test_a_missing_or_malformed_subject_is_refused(subject: Any) -> None:
    assert "sub is missing" in refused(token(sub=subject))


@pytest.mark.parametrize("nonce", [ABSENT, None, "", "the-nonc", "the-nonce ", "THE-NONCE", 5, ["the-nonce"], "of another sign-in"])
def test_the_nonce_of_another_sign_in_is_refused(nonce: Any) -> None:
    assert "nonce" in refused(token(nonce=nonce))


@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
@pytest.mark.parametrize("value", ["1800000600", "soon", True, None, -1, 0, 1e300, 10**400, 1e11, [NOW], {}])
def test_times_that_are_no_times_are_refused(name: str, value: Any) -> None:
    assert "not a time" in refused(token(**{name: value}))


@pytest.mark.parametrize("name", ["exp", "iat"])
def test_times_must_be_there(name: str) -> None:
    assert "not a time" in refused(token(**{name: ABSENT}))


def test_clocks_may_differ_by_a_minute_and_no_more() -> None:
    assert accepted(token(exp=NOW - 59))
    assert "expired" in refused(token(exp=NOW - 60))
    assert accepted(token(iat=NOW + 60, nbf=NOW + 60))
    assert "future" in refused(token(iat=NOW + 61))
    assert "future" in refused(token(nbf=NOW + 61))
    assert accepted(token(exp=NOW + 0.5))


@pytest.mark.parametrize("algorithm", sorted(ALL))
def test_the_access_token_must_be_the_one_the_token_came_with(algorithm: str) -> None:
    bits = "512" if algorithm == "EdDSA" else algorithm[-3:]  # RFC 8037 3.1
    digest = hashlib.new(f"sha{bits}", b"the-access-token").digest()
    right = encoded(digest[: len(digest) // 2])
    assert accepted(token(algorithm, at_hash=right))
    for invalid in (encoded(digest), right[:-1], "", None, 7):
        assert "at_hash" in refused(token(algorithm, at_hash=invalid))


USERINFO = {"iss": ISSUER, "aud": "gate", "sub": "alice"}


def userinfo_of(algorithm: str = "RS256", key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> dict[str, Any]:
    default_key, kid = PRIVATE[algorithm]
    payload = {name: value for name, value in {**USERINFO, **claims}.items() if value is not ABSENT}
    text = signed({"alg": algorithm, "kid": kid, **(header or {})}, payload, key or default_key, algorithm)
    return verify_userinfo(text, KEYS, ISSUER, "gate", ALL - {"PS512"}, NOW)


@pytest.mark.parametrize(
    "claims",
    [{}, {"aud": ["other", "gate"]}, {"aud": ABSENT}, {"iss": ABSENT}, {"exp": NOW + 1, "iat": NOW, "nbf": NOW}],
    ids=lambda claims: ",".join(claims) or "as it is",
)
def test_signed_userinfo_of_the_provider_is_accepted(claims: dict[str, Any]) -> None:
    assert userinfo_of(**claims)["sub"] == "alice"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://evil.example"}, "userinfo response has another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"exp": NOW - 100}, "expired"),
        ({"iat": NOW + 100}, "future"),
        ({"nbf": NOW + 100}, "future"),
        ({"exp": "soon"}, "not a time"),
        ({"sub": ABSENT}, "sub is missing"),
        ({"key": OTHER_RSA_KEY}, "has an invalid signature"),
        ({"algorithm": "PS512"}, "signed with the algorithm 'PS512'"),
        ({"header": {"alg": "none"}}, "signed with the algorithm 'none'"),
        ({"header": {"typ": "logout+jwt"}}, "another type"),
        ({"header": {"kid": "another"}}, "does not publish"),
    ],
    ids=str,
)
def test_other_signed_userinfo_is_refused(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProviderError, match=reason):
        userinfo_of(**claims)
