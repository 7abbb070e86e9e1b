"""Each name that the configuration accepts is a provider, with the URL, scopes and parameters that behaviour.md gives it."""

from pathlib import Path

import pytest

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.registry import PROVIDERS, provider_of
from config.settings import authenticate as config
from tests.support.options import make_options

DISCOVERY = DiscoveryDocument("", "", "", "", frozenset())
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
    provider = provider_of(make_options(tmp_path, idp_provider=name, idp_provider_url=url).first_provider)
    assert (provider.id, provider.issuer, provider.asked_scopes(DISCOVERY)) == (name, issuer, scopes)
    assert provider.request_params == {"access_type": "offline", **params}


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_the_operator_writes_replaces_the_defaults(tmp_path: Path, name: str) -> None:
    written = {"idp_scopes": ["openid", "x"], "idp_request_params": {"hd": "corp.example"}, "idp_provider_url": "https://own.example/a"}
    provider = provider_of(make_options(tmp_path, idp_provider=name, **written).first_provider)
    assert provider.asked_scopes(DISCOVERY) == ("openid", "x")
    assert provider.request_params == {"access_type": "offline", "hd": "corp.example"}
    assert provider.issuer.startswith("https://own.example/a")
    assert provider_of(
        make_options(tmp_path, idp_provider=name, **{**written, "idp_request_params": {}}).first_provider
    ).request_params == {"access_type": "offline"}


LONG = "https://www.googleapis.com/auth/userinfo."
GRAPH = "https://graph.microsoft.com/User.Read"


@pytest.mark.parametrize(
    ("kind", "asked", "given", "needed", "other"),
    [
        *(("oidc", "openid profile email", given, "", "") for given in ("email,openid,profile", "email, profile", "profile\temail\n")),
        *((kind, "openid email profile", f"openid {LONG}email {LONG}profile", "", "") for kind in ("google", "oidc")),
        *((kind, "openid email profile", f"openid {LONG}profile", "email", "") for kind in ("google", "oidc")),
        ("google", "openid email", "email openid", "", ""),
        ("google", f"openid {LONG}email", "email openid", "", ""),
        ("oidc", "openid email groups offline_access", "email groups", "", ""),
        ("oidc", "openid email groups offline_access", "openid email", "groups", ""),
        ("oidc", "openid email", "openid", "email", ""),
        ("oidc", "openid email", "openid EMAIL my.email https://x.example/email", "email", ""),
        ("oidc", "openid profile email roles", "openid profile email", "", "roles"),
        ("oidc", "openid email roles", "openid roles", "email", ""),
        ("oidc", "openid email", ",", "email", ""),
        ("okta", "openid profile email groups", "openid profile email", "groups", ""),
        ("auth0", "openid profile email read:x", "openid profile", "email", "read:x"),
        ("onelogin", "openid profile email groups params", "openid profile email", "groups", "params"),
        ("azure", "openid profile email offline_access", f"openid profile email {GRAPH}", "", ""),
        ("azure", "openid profile email offline_access", f"openid profile {GRAPH}", "email", ""),
        ("azure", "openid email user.read", "email openid profile User.Read", "", ""),
        ("azure", "openid email User.Read", f"openid email {GRAPH}", "", ""),
        ("azure", f"openid email {GRAPH}", "openid Email user.read", "", ""),
        ("azure", f"openid email {GRAPH}", "openid User.Read", "email", ""),
        ("azure", f"openid email {GRAPH}", "openid email", "", GRAPH),
        ("azure", "openid email https://graph.microsoft.com/.default", f"{GRAPH} openid email", "", ""),
        ("azure", "openid email https://graph.microsoft.com/.default", f"{GRAPH} openid", "email", ""),
        ("azure", "openid email", "openid api://app/email https://graph.microsoft.com.evil.example/email", "email", ""),
        ("azure", "openid email api://app/read", "API://app/read", "", ""),
        ("azure", "openid email api://app/.default", "api://app/read", "", ""),
        ("azure", "openid email api://app/read api://app/write", "api://app/read", "", "api://app/write"),
        ("gitlab", "openid profile email api", "openid profile email api", "", ""),
        ("gitlab", "openid profile email api", "openid profile email", "read_api", "api"),
        ("gitlab", "openid profile email read_api", "openid profile email api", "", ""),
        ("gitlab", "openid profile email read_user", "openid profile email", "", "read_user"),
        ("github", "user:email read:org", "read:org,user:email", "", ""),
        ("github", "user:email read:org", "user, admin:org", "", ""),
        ("github", "user:email read:org", "user:email", "read:org", ""),
        ("github", "admin:org", "read:org", "", "admin:org"),
        ("github", "user:email read:org gist", "user:email read:org", "", "gist"),
        ("github", "user:email read:org", ",", "user:email read:org", ""),
    ],
)
def test_each_provider_names_what_it_gave_in_its_own_way(
    tmp_path: Path, kind: str, asked: str, given: str, needed: str, other: str
) -> None:
    missing = provider_of(make_options(tmp_path, idp_provider=kind).first_provider).missing_scopes(asked.split(), given)
    assert (" ".join(missing.needed), " ".join(missing.other)) == (needed, other)
