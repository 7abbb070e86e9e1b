"""A token type accepts no other type, and names itself in its errors; the tests of each type cover the rest."""

from typing import Any

import pytest

from authenticate.provider.tokens.signed_token import MAX_TOKEN, TokenType
from foundation.errors import ProviderError
from tests.support.fake_idp import RSA_KEY, signed

KIND = TokenType("letter", frozenset({"letter+jwt"}))


@pytest.mark.parametrize("kind", ["letter+jwt", "application/letter+jwt", "Letter+JWT"])
def test_its_own_type_is_taken_in_each_spelling(kind: str) -> None:
    assert KIND.algorithm({"alg": "RS256", "typ": kind}, frozenset({"RS256"})) == "RS256"


@pytest.mark.parametrize("header", [{}, {"typ": "JWT"}, {"typ": "at+jwt"}, {"typ": None}, {"typ": ["letter+jwt"]}])
def test_any_other_type_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(ProviderError, match="the letter has another type"):
        KIND.algorithm({"alg": "RS256", **header}, frozenset({"RS256"}))


def test_a_token_is_read_in_one_way_or_not_at_all() -> None:
    token = signed({"alg": "RS256"}, {"sub": "alice"}, RSA_KEY, "RS256")
    assert KIND.split(token) == ({"alg": "RS256"}, {"sub": "alice"})
    for bent in ("", "a.b", token + ".", token + "A" * MAX_TOKEN, "." + token, token.replace(".", "..", 1)):
        with pytest.raises(ProviderError, match="the letter"):
            KIND.split(bent)


@pytest.mark.parametrize("value", [None, "", 1, True, ["x"], {"x": 1}, "x" * 256, "a\nb", "a\x00"])
def test_a_name_is_text_of_a_sensible_length(value: Any) -> None:
    with pytest.raises(ProviderError, match="missing or malformed"):
        KIND.string_claim({"name": value}, "name")
    assert KIND.string_claim({"name": "x" * 255}, "name") == "x" * 255
