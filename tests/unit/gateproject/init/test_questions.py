"""Answers become settings, and unusable answers get a message."""

import pytest

from config.loader import check_content
from gateproject.init.initial_config import configuration, generate_secrets
from gateproject.init.questions import QUESTIONS, InvalidAnswer, build_settings, redirect_uri

ANSWERS = {
    "domain": "example.com",
    "certificates": "autocert",
    "address": ":443",
    "sign_in_url": "https://authenticate.example.com/",
    "provider": "oidc",
    "issuer": "https://idp.example.com",
    "client_id": "gate",
    "client_secret": "secret",
    "application": "https://app.example.com",
    "upstream": "http://10.0.0.5:8080",
    "who": "@example.com, bob@example.org, group:ops",
    "admin": "",
}


def test_the_redirect_uri_is_that_of_the_sign_in() -> None:
    assert redirect_uri(ANSWERS) == "https://authenticate.example.com/oauth2/callback"


@pytest.mark.parametrize(
    ("changed", "settings"),
    [
        ({}, {"autocert": True, "http_redirect_addr": ":80"}),
        ({"certificates": "balancer", "trusted_proxies": "10.0.0.1, 10.1.0.0/16"}, {"trusted_proxies": ["10.0.0.1", "10.1.0.0/16"]}),
        ({"certificates": "balancer"}, {"insecure_server": True}),
        ({"certificates": "files", "certificate_files": "a.pem, b.pem"}, {"certificate_file": "a.pem", "certificate_key_file": "b.pem"}),
        ({"admin": "a@example.com, b@example.com"}, {"admin_allowed_users": ["a@example.com", "b@example.com"]}),
    ],
)
def test_settings_follow_from_answers(changed: dict[str, str], settings: dict[str, object]) -> None:
    found = build_settings(ANSWERS | changed)
    assert {key: found.get(key) for key in settings} == settings


@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        ("everyone", {"allow_any_authenticated_user": True}),
        (
            "@example.com, bob@example.org , group: ops ",
            {"allowed_domains": ["example.com"], "allowed_users": ["bob@example.org"], "allowed_groups": ["ops"]},
        ),
    ],
)
def test_access_policy(answer: str, rules: dict[str, object]) -> None:
    (route,) = build_settings(ANSWERS | {"who": answer})["policy"]
    assert route == {"from": "https://app.example.com", "to": "http://10.0.0.5:8080"} | rules


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"who": "bob"}, "'bob' is neither"),
        ({"who": "everyone, @example.com"}, "cannot be combined with"),
        ({"who": " , "}, "list at least one"),
        ({"domain": "https://example.com"}, "write the domain only"),
        ({"domain": "intranet"}, "write the domain only"),
        ({"certificates": "yes"}, "autocert, files or balancer"),
        ({"certificates": "files", "certificate_files": "a.pem"}, "two files"),
    ],
)
def test_unconvertible_value_is_reported(changed: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidAnswer, match=message):
        build_settings(ANSWERS | changed)


def test_unused_answers_do_not_count() -> None:
    assert "idp_provider_url" not in build_settings(ANSWERS | {"provider": "google"})
    assert "certificate_file" not in build_settings(ANSWERS | {"certificate_files": "a.pem, b.pem"})


@pytest.mark.parametrize(
    ("changed", "sign_in", "address"),
    [
        ({}, "https://authenticate.example.com", ":443"),
        ({"address": ":8443"}, "https://authenticate.example.com:8443", ":443"),
        ({"certificates": "balancer", "address": ":8000"}, "https://authenticate.example.com", ":8000"),
    ],
)
def test_defaults_include_the_browser_port(changed: dict[str, str], sign_in: str, address: str) -> None:
    by_key = {question.key: question for question in QUESTIONS}
    assert by_key["sign_in_url"].default(ANSWERS | changed) == sign_in
    assert by_key["address"].default(ANSWERS | changed) == address


def test_the_settings_that_questions_name_are_settings(tmp_path) -> None:
    """A problem without a question would be reported at the end, when its answer cannot be changed."""
    text = configuration(ANSWERS, generate_secrets())
    options = check_content(text.encode(), ".yaml", {}, tmp_path).options
    assert options is not None
    names = {setting.partition("[")[0] for question in QUESTIONS for setting in question.settings} - {"certificate"}
    assert [name for name in sorted(names) if not hasattr(options, name)] == []
