"""Refusals that concern the client; test_online_checks.py also uses the table."""

import json

import pytest

from authenticate.provider.client_refusals import client_refusal
from authenticate.provider.provider_http import ProviderResponse

URI = "https://auth.example.com/oauth2/callback"


def answered(error: str, description: str, status: int) -> ProviderResponse:
    return ProviderResponse(status, "application/json", json.dumps({"error": error, "error_description": description}).encode())


@pytest.mark.parametrize(
    ("error", "description", "status"),
    [
        ("invalid_grant", "", 400),
        ("invalid_request", "", 400),
        ("bad_verification_code", "", 200),
        ("invalid_grant", "Code not valid", 401),
    ],
)
def test_other_code_errors_do_not_blame_the_client(error: str, description: str, status: int) -> None:
    assert client_refusal(answered(error, description, status), URI) is None


def test_unauthenticated_pushed_request_has_invalid_credentials() -> None:
    answer = answered("invalid_request", "Authentication failed.", 401)
    refusal = client_refusal(answer, URI, is_pushed=True)
    assert refusal is not None
    assert refusal.key == "client_secret"


def test_the_redirect_uri_to_register_is_named() -> None:
    refusal = client_refusal(answered("invalid_request", "Invalid parameter: redirect_uri", 400), URI, is_pushed=True)
    assert refusal is not None
    assert URI in refusal.advice
