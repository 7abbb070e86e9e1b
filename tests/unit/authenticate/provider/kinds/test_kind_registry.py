"""Each name that the configuration accepts is a provider, with the URL, scopes and parameters that behaviour.md gives it."""

from dataclasses import replace
from pathlib import Path

import pytest

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.kind_registry import PROVIDERS, build_provider
from config.issuers import DEFAULT_URLS
from config.settings import authenticate_settings as config
from tests.support.options import make_options

DISCOVERY = DiscoveryDocument("", "", "", "", frozenset())
OPENID = ("openid", "profile", "email")


def test_the_configuration_knows_the_same_providers() -> None:
    assert tuple(PROVIDERS) == config.PROVIDERS
    assert PROVIDERS.keys() - DEFAULT_URLS.keys() == config.PROVIDERS_WITHOUT_URL


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
    provider = build_provider(make_options(tmp_path, idp_provider=name, idp_provider_url=url).first_provider)
    assert (provider.id, provider.issuer, provider.requested_scopes(DISCOVERY)) == (name, issuer, scopes)
    assert provider.request_params == {"access_type": "offline", **params}


@pytest.mark.parametrize(
    ("kind", "url", "issuer"),
    [
        *(("auth0", f"https://corp.eu.auth0.example{slashes}", "https://corp.eu.auth0.example/") for slashes in ("", "/", "//")),
        *(("okta", f"https://corp.okta.example{path}", "") for path in ("", "/oauth2/default", "/oauth2/aus1")),
        ("gitlab", "https://git.corp.example", ""),
        ("azure", "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0", ""),
    ],
)
def test_a_server_of_ones_own_is_the_issuer(tmp_path: Path, kind: str, url: str, issuer: str) -> None:
    assert build_provider(make_options(tmp_path, idp_provider=kind, idp_provider_url=url).first_provider).issuer == (issuer or url)


@pytest.mark.parametrize("user_id", ["auth0/google-oauth2|1", "okta/00u1"])
def test_users_are_distinguished_from_those_of_other_providers(tmp_path: Path, user_id: str) -> None:
    kind, _, subject = user_id.partition("/")
    assert build_provider(make_options(tmp_path, idp_provider=kind).first_provider).user({"sub": subject}, 1.0).id == user_id


@pytest.mark.parametrize("kind", ["onelogin", "gitlab"])
def test_published_scopes_do_not_change_vendor_scopes(tmp_path: Path, kind: str) -> None:
    """GitLab refuses a sign-in that asks for a scope it does not know, and gives a refresh token anyway."""
    provider = build_provider(make_options(tmp_path, idp_provider=kind, idp_provider_url=None).first_provider)
    published = replace(DISCOVERY, scopes=frozenset({"openid", "offline_access"}))
    assert provider.requested_scopes(published) == provider.requested_scopes(DISCOVERY) == provider.default_scopes


@pytest.mark.parametrize("name", PROVIDERS)
def test_operator_values_replace_defaults(tmp_path: Path, name: str) -> None:
    written = {"idp_scopes": ["openid", "x"], "idp_request_params": {"hd": "corp.example"}, "idp_provider_url": "https://own.example/a"}
    provider = build_provider(make_options(tmp_path, idp_provider=name, **written).first_provider)
    assert provider.requested_scopes(DISCOVERY) == ("openid", "x")
    assert provider.request_params == {"access_type": "offline", "hd": "corp.example"}
    assert provider.issuer.startswith("https://own.example/a")
    assert build_provider(
        make_options(tmp_path, idp_provider=name, **{**written, "idp_request_params": {}}).first_provider
    ).request_params == {"access_type": "offline"}


LONG = "https://www.googleapis.com/auth/userinfo."
GRAPH = "https://graph.microsoft.com/User.Read"


@pytest.mark.parametrize(
    ("kind", "requested", "granted", "needed", "other"),
    [
        *(("oidc", "openid profile email", granted, "", "") for granted in ("email,openid,profile", "email, profile", "profile\temail\n")),
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
def test_each_provider_names_granted_scopes_in_its_own_way(
    tmp_path: Path, kind: str, requested: str, granted: str, needed: str, other: str
) -> None:
    missing = build_provider(make_options(tmp_path, idp_provider=kind).first_provider).missing_scopes(requested.split(), granted)
    assert (" ".join(missing.required), " ".join(missing.other)) == (needed, other)
