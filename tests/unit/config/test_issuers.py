"""The issuer of a configuration, and the names that are equal to it."""

from pathlib import Path

import pytest

from config.issuers import TENANT, applies_to_issuer, matches_issuer
from tests.support.options import make_options

GUID = "11111111-2222-3333-4444-555555555555"
MICROSOFT = "https://login.microsoftonline.com"


@pytest.mark.parametrize(
    ("provider", "url", "issuer"),
    [
        ("oidc", "https://idp.example.com/", "https://idp.example.com/"),
        ("okta", "https://corp.okta.com", "https://corp.okta.com"),
        ("auth0", "https://corp.eu.auth0.com", "https://corp.eu.auth0.com/"),
        ("google", None, "https://accounts.google.com"),
        ("gitlab", None, "https://gitlab.com"),
        ("gitlab", "https://git.example.com", "https://git.example.com"),
        ("onelogin", None, "https://openid-connect.onelogin.com/oidc"),
        ("github", None, "https://github.com/login/oauth"),
        ("github", "https://git.example.com/", "https://git.example.com/login/oauth"),
        ("azure", None, f"{MICROSOFT}/{TENANT}/v2.0"),
        ("azure", f"{MICROSOFT}/organizations/v2.0", f"{MICROSOFT}/{TENANT}/v2.0"),
        ("azure", f"{MICROSOFT}/{GUID}/v2.0", f"{MICROSOFT}/{GUID}/v2.0"),
    ],
)
def test_each_provider_names_its_issuer(tmp_path: Path, provider: str, url: str | None, issuer: str) -> None:
    assert make_options(tmp_path, idp_provider=provider, idp_provider_url=url).first_provider.issuer == issuer


@pytest.mark.parametrize("named", [f"{MICROSOFT}/{GUID}/v2.0"])
def test_a_tenant_is_of_the_shared_endpoint(named: str) -> None:
    assert matches_issuer(f"{MICROSOFT}/{TENANT}/v2.0", named)
    for other in (
        "",
        f"{MICROSOFT}/common/v2.0",
        f"{MICROSOFT}/{TENANT}/v2.0",
        f"https://evil.example/{GUID}/v2.0",
        named.replace("login", "logon"),
        f"{named}/",
    ):
        assert not matches_issuer(f"{MICROSOFT}/{TENANT}/v2.0", other)


ONE_TENANT, SHARED = f"{MICROSOFT}/{GUID}/v2.0", f"{MICROSOFT}/{TENANT}/v2.0"


@pytest.mark.parametrize(
    ("claims_issuer", "issuer", "counts"),
    [
        ("", "https://idp.example.com", True),
        ("", "", True),
        ("https://idp.example.com", "https://idp.example.com", True),
        ("https://idp.example.com", "https://idp.example.com/", False),
        ("https://idp.example.com", "", False),
        (ONE_TENANT, ONE_TENANT, True),
        (SHARED, ONE_TENANT, True),
        (SHARED, SHARED, True),  # a token of which only its host is known
        (ONE_TENANT, SHARED, False),
        (ONE_TENANT, ONE_TENANT.replace("1", "9"), False),
    ],
)
def test_claims_of_one_issuer_apply_to_its_own_users(claims_issuer: str, issuer: str, counts: bool) -> None:
    assert applies_to_issuer(claims_issuer, issuer) is counts
