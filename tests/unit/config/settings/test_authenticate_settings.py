"""The settings of sign-in."""

import base64
from pathlib import Path
from typing import Any

import pytest

from foundation.values import SecretText, Url
from tests.unit.config.conftest import Load, Problems


def test_the_specifications_scope_oidc_means_openid(load: Load) -> None:
    assert load(idp_scopes="oidc,email").idp_scopes == ("openid", "email")


def test_the_issuer_stays_as_it_is_written(load: Load) -> None:
    assert load(idp_provider_url="https://IDP.example.com:443/Realm/").idp_provider_url == "https://IDP.example.com:443/Realm/"


def test_the_url_of_a_provider_is_required_where_each_customer_has_another(load: Load, problems: Problems) -> None:
    for name in ("oidc", "okta", "auth0"):
        assert "is required" in problems(idp_provider=name, idp_provider_url=None)["idp_provider_url"]
    for name in ("google", "azure", "onelogin", "github", "gitlab"):
        assert load(idp_provider=name, idp_provider_url=None).idp_provider_url == ""


def test_github_has_scopes_of_its_own(load: Load) -> None:
    assert load(idp_provider="github", idp_scopes=["user:email"]).idp_scopes == ("user:email",)


@pytest.mark.parametrize("url", ["http://localhost:9400", "http://idp.localhost/", "http://127.0.0.9", "http://[::1]:80/x"])
def test_a_provider_on_this_machine_may_speak_http(load: Load, url: str) -> None:
    assert load(idp_provider_url=url).idp_provider_url == url


def test_the_client_secret_is_hidden(load: Load) -> None:
    options = load(idp_client_secret="hunter2")
    assert isinstance(options.idp_client_secret, SecretText)
    assert "hunter2" not in repr(options)


def test_the_service_url_is_an_origin(load: Load) -> None:
    assert load(authenticate_service_url="https://Auth.example.com:443/").authenticate_service_url == Url("https", "auth.example.com")


def test_the_service_url_may_be_http_with_insecure_server_only(problems: Problems, pair: tuple[bytes, bytes]) -> None:
    certificate, key = (base64.b64encode(half).decode() for half in pair)
    url = "http://auth.example.com"
    assert problems(authenticate_service_url=url, insecure_server=True) == {}
    found = problems(authenticate_service_url=url, insecure_server=None, certificate=certificate, certificate_key=key)
    assert "https" in found["authenticate_service_url"]


SCIM_TOKEN = "0123456789abcdefghijklmnopqrstuv"


def revealed(options: Any) -> list[str]:
    return [token.reveal() for token in options.scim_token]


def test_a_push_token_may_be_one_or_several_and_come_from_a_file(load: Load, tmp_path: Path) -> None:
    assert load().scim_token is None
    assert revealed(load(scim_token=SCIM_TOKEN)) == [SCIM_TOKEN]
    assert len(revealed(load(scim_token=[SCIM_TOKEN, SCIM_TOKEN[::-1]]))) == 2
    (tmp_path / "token").write_text(f"{SCIM_TOKEN}\n{SCIM_TOKEN[::-1]}\n")
    assert revealed(load(scim_token_file=str(tmp_path / "token"))) == [SCIM_TOKEN, SCIM_TOKEN[::-1]]
    assert SCIM_TOKEN not in repr(load(scim_token=SCIM_TOKEN))


@pytest.mark.parametrize("token", ["short", "a" * 40, "abcd" * 10, SCIM_TOKEN[:-1], SCIM_TOKEN + "é", [SCIM_TOKEN, "short"]])
def test_a_push_token_that_could_be_guessed_is_refused(problems: Problems, token: Any) -> None:
    message = problems(scim_token=token)["scim_token"]
    assert "head -c32 /dev/urandom" in message
    assert "abcd" not in message


def test_there_is_one_source_of_users_and_groups(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "directory.yaml").write_text("users: []")
    assert "one directory source" in problems(scim_token=SCIM_TOKEN, directory_file=str(tmp_path / "directory.yaml"))["scim_token"]


def test_pushed_groups_are_groups(load: Load, problems: Problems) -> None:
    route = {"from": "https://a.example.com", "to": "http://127.0.0.1:1", "allowed_groups": ["g"]}
    assert load(groups_claim="", scim_token=SCIM_TOKEN, policy=[route])
    assert "scim_token" in str(problems(groups_claim="", policy=[route]))


HOOK = {"access_webhook_url": "https://hooks.example.com/services/x?y=1", "access_webhook_secret": "s" * 32}


def test_a_webhook_is_a_secret_with_a_secret(load: Load, problems: Problems, tmp_path: Path) -> None:
    options = load(**HOOK)
    assert options.access_webhook_url == SecretText("https://hooks.example.com/services/x?y=1")
    assert "hooks" not in repr(options.access_webhook_url)
    (tmp_path / "secret").write_text("t" * 40 + "\n")
    held = load(access_webhook_url="http://127.0.0.1:9/x", access_webhook_secret_file=str(tmp_path / "secret"))
    assert held.access_webhook_secret == SecretText("t" * 40)
    assert "both or neither" in problems(access_webhook_url=HOOK["access_webhook_url"])["access_webhook_secret"]
    assert "both or neither" in problems(access_webhook_secret="s" * 32)["access_webhook_secret"]
