"""Logout tokens: only the provider's current token of this kind, for gate, signs a user out."""

from typing import Any

import pytest

from authenticate.provider.tokens.logout_token import EVENT, LogoutRequest, verify
from authenticate.provider.tokens.signed_token import SigningKeyNotFound
from foundation.errors import ProviderError
from tests.support.fake_idp import ABSENT, EC_KEY, ED_KEY, OTHER_RSA_KEY, RSA_KEY, encoded, public_jwk, signed

NOW = 1_800_000_000.0
ISSUER = "https://idp.example.com"
KEYS = (public_jwk(RSA_KEY, "RS256", "rsa"), public_jwk(EC_KEY, "ES256", "ec"), public_jwk(ED_KEY, "EdDSA", "ed"))
PRIVATE = {"RS256": (RSA_KEY, "rsa"), "PS256": (RSA_KEY, "rsa"), "ES256": (EC_KEY, "ec"), "EdDSA": (ED_KEY, "ed")}
CLAIMS = {"iss": ISSUER, "aud": "gate", "sub": "alice", "sid": "s1", "exp": NOW + 120, "iat": NOW, "jti": "j1", "events": {EVENT: {}}}


def token(algorithm: str = "RS256", header: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
    default_key, kid = PRIVATE[algorithm]
    members = {"alg": algorithm, "kid": kid, "typ": "logout+jwt", **(header or {})}
    members = {name: value for name, value in members.items() if value is not ABSENT}
    payload = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not ABSENT}
    return signed(members, payload, key or default_key, algorithm)


def read(text: str, now: float = NOW, issuer: str = ISSUER) -> LogoutRequest:
    return verify(text, KEYS, issuer, "gate", frozenset(PRIVATE), now)


@pytest.mark.parametrize("algorithm", sorted(PRIVATE))
def test_the_providers_word_is_taken_with_each_algorithm(algorithm: str) -> None:
    assert read(token(algorithm)) == LogoutRequest(ISSUER, "alice", "s1", "j1", NOW, NOW + 180)


@pytest.mark.parametrize(
    "payload",
    [
        {"sub": ABSENT},
        {"sid": ABSENT},
        {"aud": ["other", "gate"]},
        {"exp": NOW - 59},
        {"iat": NOW + 59},
        {"iat": NOW - 3599},
        {"events": {EVENT: {"any": "thing"}, "https://example.com/another": {}}},
        {"name": "Alice"},
    ],
)
def test_fields_left_open_by_the_standard_are_accepted(payload: dict[str, Any]) -> None:
    assert read(token(**payload)).issuer == ISSUER


@pytest.mark.parametrize("kind", ["logout+jwt", "application/logout+jwt", "LOGOUT+JWT", "JWT", ABSENT])
def test_its_type_is_the_recommended_one_or_none_in_particular(kind: Any) -> None:
    assert read(token(header={"typ": kind})).sid == "s1"


REFUSED: dict[str, dict[str, Any]] = {
    "iss of another": {"iss": "https://evil.example"},
    "iss with a slash": {"iss": ISSUER + "/"},
    "no iss": {"iss": ABSENT},
    "iss that is a list": {"iss": [ISSUER]},
    "aud of another": {"aud": "other"},
    "aud of others": {"aud": ["other", "gate2"]},
    "no aud": {"aud": ABSENT},
    "aud that is an object": {"aud": {"gate": 1}},
    "expired": {"exp": NOW - 61},
    "no exp": {"exp": ABSENT},
    "exp that is text": {"exp": str(NOW + 60)},
    "exp without end": {"exp": 1e300},
    "of the future": {"iat": NOW + 61},
    "not yet": {"nbf": NOW + 61},
    "no iat": {"iat": ABSENT},
    "iat that is true": {"iat": True},
    "of an hour ago": {"iat": NOW - 3600, "exp": NOW + 99},
    "no events": {"events": ABSENT},
    "no event": {"events": {}},
    "another event": {"events": {"https://schemas.openid.net/secevent/caep/event-type/session-revoked": {}}},
    "events as a list": {"events": [EVENT]},
    "an event that is no object": {"events": {EVENT: True}},
    "an event that is null": {"events": {EVENT: None}},
    "a nonce": {"nonce": "n"},
    "a nonce that is null": {"nonce": None},
    "neither sub nor sid": {"sub": ABSENT, "sid": ABSENT},
    "an empty sub": {"sub": ""},
    "an empty sid": {"sid": ""},
    "a sub that is null": {"sub": None},
    "a sid that is a list": {"sid": ["s1"]},
    "a sid with a newline": {"sid": "s1\n"},
    "a long sid": {"sid": "s" * 256},
    "no jti": {"jti": ABSENT},
    "an empty jti": {"jti": ""},
    "a jti that is a number": {"jti": 7},
}


@pytest.mark.parametrize("payload", REFUSED.values(), ids=REFUSED.keys())
def test_everything_else_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(ProviderError, match="logout token"):
        read(token(**payload))


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "RS512"},
        {"alg": ABSENT},
        {"crit": ["exp"]},
        {"typ": "at+jwt"},
        {"typ": "secevent+jwt"},
        {"typ": None},
    ],
)
def test_conflicting_header_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(ProviderError):
        read(token(header=header))


def test_only_the_providers_keys_sign() -> None:
    for forged in (token(key=OTHER_RSA_KEY), token(header={"kid": "ec"}), token(header={"kid": "unknown"}), token()[:-4] + "AAAA"):
        with pytest.raises(SigningKeyNotFound):
            read(forged)
    with pytest.raises(ProviderError):
        read(f"{token().rpartition('.')[0]}.")
    head, _, signature = token().split(".")
    with pytest.raises(ProviderError):
        read(f"{head}.{encoded(b'{}')}.{signature}")


def test_id_token_is_not_accepted_as_logout_token() -> None:
    payload = {"iss": ISSUER, "aud": "gate", "sub": "alice", "sid": "s1", "exp": NOW + 600, "iat": NOW, "jti": "j"}
    with pytest.raises(ProviderError, match="events"):
        read(signed({"alg": "RS256", "kid": "rsa", "typ": "JWT"}, payload, RSA_KEY, "RS256"))


def test_token_is_remembered_while_valid() -> None:
    for exp in (NOW - 30, NOW + 120, NOW + 3600, NOW + 1e9):
        text = token(exp=exp)
        expires = read(text).expires_at
        assert read(text, expires - 0.1) is not None
        with pytest.raises(ProviderError):
            read(text, expires)


TENANT = "11111111-2222-3333-4444-555555555555"


def test_a_shared_endpoint_speaks_for_each_of_its_tenants() -> None:
    shared, mine = "https://login.example/{tenantid}/v2.0", f"https://login.example/{TENANT}/v2.0"
    assert read(token(iss=mine), issuer=shared).issuer == mine
    others = ({**KEYS[0], "issuer": "https://login.example/21111111-2222-3333-4444-555555555555/v2.0"},)
    with pytest.raises(SigningKeyNotFound):
        verify(token(iss=mine), others, shared, "gate", frozenset(PRIVATE), NOW)
    for iss in (shared, "https://login.example/evil/v2.0", f"https://evil.example/{TENANT}/v2.0"):
        with pytest.raises(ProviderError):
            read(token(iss=iss), issuer=shared)
