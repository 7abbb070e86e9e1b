"""OAuth client: which scopes, methods and grants it may use."""

from pathlib import Path

import pytest

from authenticate.oauth.oauth_client import OAuthClient, Registration
from authorize.protected_resources import ProtectedResources
from foundation.values import SecretText
from tests.support.agents import REDIRECT_URI, RESOURCE, ROUTES, SECRET
from tests.support.options import make_options

PUBLIC = OAuthClient("https://client.example.com:8443/id.json", "Client", (REDIRECT_URI,), Registration.METADATA_DOCUMENT)
CONFIDENTIAL = OAuthClient("build-agent", "Build agent", (REDIRECT_URI,), Registration.CONFIGURED, SecretText(SECRET))


@pytest.mark.parametrize(
    ("requested", "granted"),
    [
        (None, "tickets:read tickets:write"),
        ("", "tickets:read tickets:write"),
        ("tickets:read", "tickets:read"),
        ("tickets:read tickets:read", "tickets:read"),
        ("tickets:write offline_access", "tickets:write"),
        ("admin", None),
        ("tickets:read admin", None),
        ("Tickets:read", None),
        (" tickets:read  tickets:write", "tickets:read tickets:write"),
        ("tickets:read\ttickets:write", None),
        ("tickets:read\u00a0tickets:write", None),
        ("\x1f", None),
    ],
)
def test_scopes_are_those_of_the_resource(tmp_path: Path, requested: str | None, granted: str | None) -> None:
    resource = ProtectedResources(make_options(tmp_path, policy=ROUTES).policy).find(RESOURCE)
    assert resource is not None
    assert PUBLIC.at(resource).get_allowed_scope(requested) == granted
    assert PUBLIC.get_allowed_scope("tickets:read") is None


@pytest.mark.parametrize(
    ("client", "secret", "is_accepted"),
    [
        (CONFIDENTIAL, SECRET, True),
        (CONFIDENTIAL, SECRET[:-1], False),
        (CONFIDENTIAL, "", False),
        (PUBLIC, "", False),
        (PUBLIC, "None", False),
    ],
)
def test_secret(client: OAuthClient, secret: str, is_accepted: bool) -> None:
    assert client.check_client_secret(secret) is is_accepted
    assert SECRET not in repr(client)


def test_secret_may_be_form_encoded() -> None:
    client = OAuthClient("x", "x", (), Registration.CONFIGURED, SecretText("a+b/c=" * 6))
    assert client.check_client_secret("a%2Bb%2Fc%3D" * 6)
    assert client.check_client_secret("a+b/c=" * 6)


def test_authentication_methods() -> None:
    methods = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
    assert [PUBLIC.check_endpoint_auth_method(method, "token") for method in methods] == [True, False, False, False]
    assert [CONFIDENTIAL.check_endpoint_auth_method(method, "token") for method in methods] == [False, True, True, False]


def test_registration() -> None:
    assert (PUBLIC.verified_host, PUBLIC.remembers_consent) == ("client.example.com:8443", False)
    assert (CONFIDENTIAL.verified_host, CONFIDENTIAL.remembers_consent) == ("", True)
    assert [PUBLIC.check_grant_type(grant) for grant in ("authorization_code", "refresh_token", "client_credentials", "password")] == [
        True,
        True,
        False,
        False,
    ]
    assert [PUBLIC.check_response_type(kind) for kind in ("code", "token")] == [True, False]
    assert PUBLIC.get_default_redirect_uri() == ""
