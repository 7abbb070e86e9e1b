"""The token, and nothing like it, lets a push in."""

import pytest

from authenticate.scim.scim_authenticator import MAX_BODY_BYTES, PATH, ScimAuthenticator
from foundation.values import SecretText

TOKEN, NEXT = "0123456789abcdefghijklmnopqrstuv", "vutsrqponmlkjihgfedcba9876543210"
OTHER = "partner-has-a-token-of-its-own-0"


@pytest.fixture
def access() -> ScimAuthenticator:
    return ScimAuthenticator({"corp": [SecretText(TOKEN), SecretText(NEXT)], "partner": [SecretText(OTHER)]})


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {NEXT}", f"BEARER  {TOKEN} "])
def test_accepts_each_configured_token(access: ScimAuthenticator, header: str) -> None:
    assert access.authenticate(header) == "corp"


def test_token_selects_the_provider(access: ScimAuthenticator) -> None:
    assert access.authenticate(f"Bearer {OTHER}") == "partner"
    assert access.body_limit(f"{PATH}Groups", f"Bearer {OTHER}", 64) == MAX_BODY_BYTES


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN.upper()}", "Bearer é"],
)
def test_nothing_else_is(access: ScimAuthenticator, header: str) -> None:
    assert access.authenticate(header) is None


def test_without_tokens_all_are_refused() -> None:
    for access in (ScimAuthenticator({}), ScimAuthenticator({"corp": ()})):
        assert not access
        assert access.authenticate("Bearer ") is None


def test_body_limit_needs_a_token(access: ScimAuthenticator) -> None:
    assert access.body_limit(f"{PATH}Groups", f"Bearer {TOKEN}", 64) == MAX_BODY_BYTES
    assert access.body_limit(f"{PATH}Groups", "Bearer x", 64) == 64
    assert access.body_limit("/.gate/admin/", f"Bearer {TOKEN}", 64) == 64
