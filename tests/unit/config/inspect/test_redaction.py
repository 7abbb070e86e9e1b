"""Pages show effective values, and never a secret."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from config.inspect.redaction import HIDDEN, MAX_VALUE_LENGTH, effective_route, effective_settings, redact
from config.inspect.source_map import SourceMap
from config.options import Options
from config.reference.setting_catalog import SettingKey, declared_keys, nested_models, route_keys, settings_by_topic
from foundation.values import SecretBytes, SecretText, Url
from tests.unit.config.conftest import Load

# Texts that no page may contain; the last two are a payload of bytes.
SECRETS = ("hunter2", "50494E47", "PING")


def every_key() -> list[SettingKey]:
    above = [*(key for group in settings_by_topic().values() for key in group), *route_keys()]
    return above + [inner for _, model in nested_models(above) for inner in declared_keys(model)]


def texts_of(options: Options) -> str:
    texts = [value.value for _, values in effective_settings(options, SourceMap()) for value in values]
    texts += [value.value for index, route in enumerate(options.policy) for value in effective_route(route, index, SourceMap())]
    return "\n".join(texts)


SECRET_SETTINGS: dict[str, Any] = {
    "idp_client_secret": "hunter2",
    "database_url": "postgresql://gate:hunter2@db.internal/gate",
    "databroker_storage_type": "redis",
    "databroker_storage_connection_string": "kvstore://user:hunter2@store.internal:6379/0",
    "access_webhook_url": "https://hooks.example.com/services/hunter2",
    "access_webhook_secret": "hunter2" * 6,
    "scim_token": "hunter2-0123456789-abcdefghijklmnopqrstuvwxyz",
    "signout_redirect_url": "https://out.example.com/?key=hunter2",
    "idp_provider_url": "https://idp.example.com",
    "policy_tests": [{"url": "https://a.example.com/", "headers": {"X-Key": "hunter2"}, "expect": "sign-in"}],
    "policy": [
        {
            "from": "https://a.example.com",
            "to": "http://upstream:8000",
            "set_request_headers": {"X-Key": "hunter2"},
            "basic_auth": {"user": "gate", "password": "hunter2"},
            "policy": [{"allow": {"and": [{"http_header/X-Key": "hunter2"}, {"groups": "staff"}]}}],
            "health_checks": [
                {
                    "timeout": "1s",
                    "interval": "1s",
                    "unhealthy_threshold": 1,
                    "healthy_threshold": 1,
                    "tcp_health_check": {"send": {"text": "50494E47"}},
                }
            ],
        },
        {"from": "https://b.example.com", "to": "http://u", "cluster_service_account_token": "hunter2", "allowed_groups": ["x"]},
    ],
}


@pytest.fixture
def secretive(load: Load) -> Options:
    return load(**SECRET_SETTINGS)


def test_secrets_are_displayed_only_as_set_at_any_location(secretive: Options) -> None:
    text = texts_of(secretive)
    assert [secret for secret in SECRETS if secret in text] == []
    found = {value.key: value.value for _, values in effective_settings(secretive, SourceMap()) for value in values}
    assert found["idp_client_secret"] == found["cookie_secret"] == found["access_webhook_url"] == HIDDEN
    assert "db.internal" in found["database_url"]
    assert HIDDEN in found["database_url"]
    assert found["signout_redirect_url"] == "https://out.example.com/?…"
    route = {value.key: value.value for value in effective_route(secretive.policy[0], 0, SourceMap())}
    assert route["set_request_headers"] == "[X-Key]"
    assert route["basic_auth"] == f"{{user: gate, password: '{HIDDEN}'}}"
    assert route["policy"] == "['allow: (http_header/x-key … and groups is staff)']"


def test_every_key_that_is_named_like_a_secret_is_declared_as_one() -> None:
    markers = ("secret", "token", "password", "_key", "key_")
    bearer = {"bearer_token", "bearer_token_issuer", "bearer_token_audience", "bearer_token_jwks_url"}
    passed = {"pass_provider_tokens", "pass_provider_tokens_unencrypted"}
    open_ones = {"signing_key_algorithm", "autocert_eab_key_id", "admin_password_login", "token_url", *bearer, *passed}
    named = [key for key in every_key() if any(word in key.name for word in markers) and not key.name.endswith("_file")]
    declared = [key for key in named if "Secret" in str(key.field.annotation)]
    assert {key.name for key in named} - {key.name for key in declared} == open_ones


def test_effective_values_are_displayed_as_in_file(load: Load) -> None:
    options = load(cookie_expire="90m", trusted_proxies=["10.0.0.0/8"], admin_allowed_users=["a@example.com", "b@example.com"])
    found = {value.key: value.value for _, values in effective_settings(options, SourceMap()) for value in values}
    assert (found["cookie_expire"], found["trusted_proxies"]) == ("1h30m", "[10.0.0.0/8]")
    assert found["admin_allowed_users"] == "[a@example.com, b@example.com]"
    assert (found["insecure_server"], found["address"]) == ("true", "127.0.0.1:8443")
    assert set(found) == {key.name for group in settings_by_topic().values() for key in group} - {"policy"}


def test_unset_key_names_effective_value_and_explicit_empty_is_empty(load: Load) -> None:
    found = {value.key: value.value for _, values in effective_settings(load(grpc_address=None), SourceMap()) for value in values}
    assert found["databroker_service_url"] == "(this process, in mode all)"
    empty = {
        value.key: value.value for _, values in effective_settings(load(), SourceMap(settings={"grpc_address": 3})) for value in values
    }
    assert empty["grpc_address"] == ""


def test_route_is_displayed_with_its_fields(load: Load) -> None:
    (route,) = load(policy=[{"from": "https://a.example.com", "to": "http://u,3", "timeout": "5s", "allowed_groups": ["x"]}]).policy
    found = {value.key: value.value for value in effective_route(route, 0, SourceMap())}
    assert found == {"from": "https://a.example.com", "to": "['http://u,3']", "timeout": "5s", "allowed_groups": "[x]"}


def test_value_without_display_rule_is_hidden() -> None:
    class Unknown:
        def __str__(self) -> str:
            return "hunter2"

    assert redact(Unknown()) == redact(SecretText("hunter2")) == redact(SecretBytes(b"hunter2")) == HIDDEN
    assert redact({"a": Unknown(), "b": (SecretText("x"), SecretText("y"))}) == f"{{a: '{HIDDEN}', b: '(2 set, not shown)'}}"
    assert redact(b"hunter2") == "(7 bytes)"
    assert redact(Url("https", "a.example", path="/x", query="key=hunter2")) == "https://a.example/x?…"


def test_long_value_is_truncated_with_mark() -> None:
    text = redact(["x" * 100] * 100)
    assert len(text) < MAX_VALUE_LENGTH + 50
    assert text.endswith("… (truncated)")


def test_long_list_is_read_only_up_to_display_limit() -> None:
    class Names(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            for name in super().__iter__():
                looked_at.append(name)
                yield name

    looked_at: list[str] = []
    assert redact(Names(["x"] * 100_000)).endswith("… (truncated)")
    assert len(looked_at) < MAX_VALUE_LENGTH


def test_empty_values_are_displayed_as_empty() -> None:
    assert [redact(value) for value in (None, (), {}, timedelta(0), False)] == ["", "", "", "0", "false"]


def test_files_are_displayed_by_path(load: Load, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2")
    route = {"from": "https://a.example.com", "to": "http://u", "cluster_service_account_token_file": "token", "allowed_groups": ["x"]}
    found = {value.key: value.value for value in effective_route(load(policy=[route]).policy[0], 0, SourceMap())}
    assert found["cluster_service_account_token_file"] == str(tmp_path / "token")
    assert "hunter2" not in str(found)
