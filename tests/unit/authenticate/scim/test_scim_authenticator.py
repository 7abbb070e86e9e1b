"""The token, and nothing like it, lets a push in."""

import pytest

from authenticate.scim.scim_authenticator import MAX_BODY, PATH, ScimAccess
from foundation.values import SecretText

TOKEN, NEXT = "0123456789abcdefghijklmnopqrstuv", "vutsrqponmlkjihgfedcba9876543210"
OTHER = "partner-has-a-token-of-its-own-0"


@pytest.fixture
def access() -> ScimAccess:
    return ScimAccess({"corp": [SecretText(TOKEN), SecretText(NEXT)], "partner": [SecretText(OTHER)]})


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {NEXT}", f"BEARER  {TOKEN} "])
def test_each_token_of_the_setting_is_good(access: ScimAccess, header: str) -> None:
    assert access.pusher(header) == "corp"


def test_the_token_says_whose_users_it_pushes(access: ScimAccess) -> None:
    assert access.pusher(f"Bearer {OTHER}") == "partner"
    assert access.most_bytes(f"{PATH}Groups", f"Bearer {OTHER}", 64) == MAX_BODY


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN.upper()}", "Bearer é"],
)
def test_nothing_else_is(access: ScimAccess, header: str) -> None:
    assert access.pusher(header) is None


def test_without_a_token_nobody_is_let_in() -> None:
    for access in (ScimAccess({}), ScimAccess({"corp": ()})):
        assert not access
        assert access.pusher("Bearer ") is None


def test_only_who_has_the_token_may_send_much(access: ScimAccess) -> None:
    assert access.most_bytes(f"{PATH}Groups", f"Bearer {TOKEN}", 64) == MAX_BODY
    assert access.most_bytes(f"{PATH}Groups", "Bearer x", 64) == 64
    assert access.most_bytes("/.gate/admin/", f"Bearer {TOKEN}", 64) == 64
