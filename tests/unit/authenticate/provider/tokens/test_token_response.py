"""Answers of token endpoints, good, odd and bad."""

import json
from typing import Any

import pytest

from authenticate.provider.provider_http import ProviderResponse
from authenticate.provider.tokens.token_response import InvalidGrant, Tokens, bearer_error, parse
from foundation.errors import ProviderError

VALID = {"access_token": "a", "id_token": "i", "refresh_token": "r", "token_type": "bearer", "expires_in": 60}


def parsed(status: int = 200, *, needs_id_token: bool = True, **members: Any) -> Tokens:
    document = {name: value for name, value in {**VALID, **members}.items() if value is not None}
    return parse(ProviderResponse(status, "application/json", json.dumps(document).encode()), 1000.0, needs_id_token=needs_id_token)


def test_tokens_are_read() -> None:
    assert parsed() == Tokens("a", "r", "i", 1060.0)


def test_only_a_refresh_may_come_without_an_id_token() -> None:
    assert parsed(id_token=None, needs_id_token=False).id_token == ""
    with pytest.raises(ProviderError, match="no ID token"):
        parsed(id_token=None)


@pytest.mark.parametrize(("expires_in", "expires"), [("60", 1060.0), (1.5, 1001.5), (None, None), (0, None), (-1, None), (True, None),
                                                     ("1e3", None), ("9" * 5000, None), (1e300, None), ([], None)])  # fmt: skip
def test_an_expiry_that_is_none_is_not_believed(expires_in: Any, expires: float | None) -> None:
    assert parsed(expires_in=expires_in).expires_at == expires


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "é", "a" * 70_000, 1, ["a"]])
def test_a_token_that_could_not_be_sent_is_none(token: Any) -> None:
    with pytest.raises(ProviderError):
        parsed(access_token=token)


@pytest.mark.parametrize(
    ("status", "error"), [(400, "invalid_grant"), (403, "invalid_grant"), (200, "bad_verification_code"), (200, "bad_refresh_token")]
)
def test_expired_grant_is_distinguished_from_outage(status: int, error: str) -> None:
    with pytest.raises(InvalidGrant):
        parsed(status, error=error)


@pytest.mark.parametrize(
    ("status", "error"), [(500, "invalid_grant"), (400, "invalid_client"), (200, "incorrect_client_credentials"), (503, None), (400, ["x"])]
)
def test_trouble_is_not_the_end_of_a_grant(status: int, error: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        parsed(status, error=error)
    assert not isinstance(caught.value, InvalidGrant)


@pytest.mark.parametrize(
    ("challenge", "body", "error"),
    [
        ('Bearer error="invalid_token"', b"", "invalid_token"),
        ('Bearer realm="a, error=x", error=insufficient_scope, scope="openid"', b"", "insufficient_scope"),
        ('Bearer realm="a", error_description="error=\\"invalid_token\\"", Error = "invalid_request"', b"", "invalid_request"),
        ('Basic realm="error"', b'{"error": "invalid_token"}', "invalid_token"),
        ("", b'{"error": {"code": 401}}', ""),
        ("", b"<html>", ""),
        ('Bearer error="invalid_token', b"", ""),
    ],
)
def test_why_a_bearer_token_was_not_taken(challenge: str, body: bytes, error: str) -> None:
    assert bearer_error(ProviderResponse(403, "application/json", body, {"www-authenticate": challenge})) == error


def test_another_type_of_token_is_refused() -> None:
    with pytest.raises(ProviderError, match="Bearer"):
        parsed(token_type="mac")


def test_tokens_do_not_show_themselves() -> None:
    assert "secret" not in repr(Tokens("secret1", "secret2", "secret3", None))
