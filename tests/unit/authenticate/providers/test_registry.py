"""Each name that the configuration accepts is a provider, with the URL, scopes and parameters that behaviour.md gives it."""

from pathlib import Path

import pytest

from authenticate.discovery import Discovery
from authenticate.providers.registry import PROVIDERS, provider_of
from gateproject.config import authenticate as config
from tests.support.options import make_options

DISCOVERY = Discovery("", "", "", "", frozenset())
OPENID = ("openid", "profile", "email")


def test_the_configuration_knows_the_same_providers() -> None:
    assert tuple(PROVIDERS) == config.PROVIDERS
    assert {name for name, provider in PROVIDERS.items() if not provider.default_url} == config.PROVIDERS_WITHOUT_URL


@pytest.mark.parametrize(
    ("name", "issuer", "scopes", "params"),
    [
        ("google", "https://accounts.google.com", OPENID, {"prompt": "select_account consent"}),
        ("azure", "https://login.microsoftonline.com/{tenantid}/v2.0", (*OPENID, "offline_access"), {"prompt": "select_account"}),
        ("onelogin", "https://openid-connect.onelogin.com/oidc", (*OPENID, "groups", "offline_access"), {}),
        ("github", "https://github.com/login/oauth", ("user:email", "read:org"), {}),
        ("gitlab", "https://gitlab.com", (*OPENID, "api"), {}),
        ("oidc", "https://idp.example", (*OPENID, "offline_access"), {}),
        ("okta", "https://idp.example", (*OPENID, "offline_access"), {}),
        ("auth0", "https://idp.example/", (*OPENID, "offline_access"), {}),
    ],
)
def test_defaults(tmp_path: Path, name: str, issuer: str, scopes: tuple[str, ...], params: dict[str, str]) -> None:
    url = "https://idp.example" if name in config.PROVIDERS_WITHOUT_URL else None
    provider = provider_of(make_options(tmp_path, idp_provider=name, idp_provider_url=url))
    assert (provider.name, provider.issuer, provider.asked_scopes(DISCOVERY)) == (name, issuer, scopes)
    assert provider.request_params == {"access_type": "offline", **params}


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_the_operator_writes_replaces_the_defaults(tmp_path: Path, name: str) -> None:
    written = {"idp_scopes": ["openid", "x"], "idp_request_params": {"hd": "corp.example"}, "idp_provider_url": "https://own.example/a"}
    provider = provider_of(make_options(tmp_path, idp_provider=name, **written))
    assert provider.asked_scopes(DISCOVERY) == ("openid", "x")
    assert provider.request_params == {"access_type": "offline", "hd": "corp.example"}
    assert provider.issuer.startswith("https://own.example/a")
    assert provider_of(make_options(tmp_path, idp_provider=name, **{**written, "idp_request_params": {}})).request_params == {
        "access_type": "offline"
    }
