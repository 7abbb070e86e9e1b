"""Rejected values of each setting and route key, with the messages. Rules over several keys are tested with their modules."""

from collections.abc import Iterator
from typing import Any

import pytest

from config.reference.setting_catalog import SettingKey, route_keys, settings_by_topic
from tests.unit.config.conftest import COMPANIONS, Complete, Problems

RANDOM = "head -c32 /dev/urandom"
SETTINGS: tuple[tuple[str, Any, str], ...] = (
    ("idp_provider", "gogle", "oidc, google, azure, okta, onelogin, github, gitlab, auth0"),
    ("idp_provider_url", "http://idp.example.com", "must be https"),
    ("idp_provider_url", "http://127.0.0.1.example.com", "must be https"),
    ("idp_provider_url", "https://idp.example.com/?", "query"),
    ("idp_provider_url", "https://idp.example.com/#", "fragment"),
    ("idp_provider_url", "idp.example.com", "scheme"),
    ("idp_scopes", ["email"], "must contain openid"),
    ("idp_scopes", ["openid email"], "scopes cannot contain spaces"),
    ("idp_scopes", ["openid", "a b"], "scopes cannot contain spaces"),
    ("idp_request_params", {"State": "x"}, "is set by gate"),
    ("idp_request_params", {"code_challenge": "x"}, "is set by gate"),
    ("idp_request_params", {"max_age": 5}, "must be text"),
    ("idp_request_params", "max_age=5", "Name:value pairs"),
    ("idp_client_id", 5, "must be text"),
    ("idp_service_account", "not base64!", "whitespace"),
    ("idp_service_account", "{}", '{"api_key": "..."}'),
    ("idp_service_account", "eyJjbGllbnRfaWQiOiAieCJ9", '{"api_key": "..."}'),
    *(("idp_directory_url", url, "scheme") for url in ("http://graph.example.com", "ftp://x.example.com", "x")),
    ("idp_directory_url", "https://x.example.com/?a", "query"),
    *(("idp_qps", value, "number") for value in (0, -1, "fast", 0.001)),
    ("authenticate_service_url", "https://auth.example.com/x", "a path"),
    ("authenticate_service_url", "ftp://auth.example.com", "scheme"),
    ("authenticate_callback_path", "callback", "must start with /"),
    ("authenticate_callback_path", "/callback?x", "query"),
    ("authenticate_callback_path", "/.gate/callback/", "conflicts with a path"),
    ("authenticate_callback_path", "/ping", "conflicts with a path"),
    ("signing_key", "c2hvcnQ=", "not valid PEM"),
    ("signing_key_algorithm", "HS256", "must be one of ES256, EdDSA, RS256"),
    ("signout_redirect_url", "javascript:alert(1)", "scheme"),
    ("signout_redirect_url", "/goodbye", "scheme"),
    *(("access_webhook_url", url, "must be https") for url in ("http://hooks.example.com/x", "ftp://c/")),
    *(
        ("access_webhook_url", url, "URL such as")
        for url in ("hooks.example.com", "https://", "https://a:b@c/", "https://c/#d", "https://c/ x")
    ),
    *(("access_webhook_secret", secret, "") for secret in ("", "s" * 31, "é" * 40)),
    ("services", "cache", "must be one of all, authenticate, authorize, databroker, proxy"),
    ("log_level", "trace", "must be one of debug, info, warn, error"),
    ("cookie_name", "a b", "RFC 6265"),
    ("cookie_name", "a;b", "RFC 6265"),
    ("cookie_name", "", "must not be empty"),
    ("cookie_domain", "exam ple.com", "letters, digits"),
    ("cookie_expire", 0, "longer than 0"),
    *((secret, None, f"`{RANDOM} | base64`") for secret in ("cookie_secret", "shared_secret")),
    *((secret, "c2hvcnQ=", "exactly 32 bytes, not 5") for secret in ("cookie_secret", "shared_secret")),
    *((secret, [], "must have at least") for secret in ("cookie_secret", "shared_secret")),
    ("timeout_idle", "5", "must be a duration"),
    *(("time_zone", zone, "") for zone in ("Berlin", "CEST+2", "../etc/passwd", "/etc/localtime", "", "Europe", "x" * 300, "a\0b")),
    ("trusted_proxies", ["10.0.0.1/8"], ""),
    ("headers", {"X-A": "b\r\nX-B: c"}, "control characters"),
    ("jwt_claims_headers", ["a b"], ""),
    *(("forward_auth_url", url, "") for url in ("fwd.example.com", "https://", "https://fwd.example.com/verify", "ftp://fwd.example.com")),
    ("forward_auth_url", "https://fwd.example.com?uri=x", "query"),
    ("forward_auth_cache", "5m1s", ""),
    *((key, value, "") for key in ("envoy_max_connections", "envoy_max_heap") for value in (0, -1, 1.5, "many", True, "1e3.5")),
    *(("database_url", url, "") for url in ("mysql://x", "sqlite://", "sqlite:///", "own.db", "sqlite:///a%00b")),
    ("databroker_storage_type", "etcd", "must be one of memory, kvstore"),
    ("grpc_address", "localhost", ""),
    ("grpc_client_timeout", "0", ""),
    ("grpc_server_max_connection_age", "0s", ""),
    ("override_certificate_name", "a b", ""),
    ("databroker_service_url", "https://broker.example.com/path", "path"),
    ("databroker_service_url", "kvstore://broker", "scheme"),
    *(
        (key, value, "")
        for key in ("tracing_monitor_address", "tracing_thrift_agent_endpoint")
        for value in (":8126", "localhost:0", "localhost", "http://localhost:8126", "")
    ),
    *(("tracing_sample_rate", value, "") for value in (1.5, -1, "often", "nan", True)),
    *(
        (key, value, "scheme")
        for key in ("tracing_span_endpoint", "tracing_thrift_collector_endpoint")
        for value in ("/api/v2/spans", "ftp://a/b", "localhost:9411")
    ),
)
ROUTE_KEYS: tuple[tuple[str, Any, str], ...] = (
    ("from", None, "is required"),
    ("from", "app.example.com", "scheme and a host"),
    ("from", "http://app.example.com", "tcp+https"),
    ("from", "https://app.example.com?x=y", "query"),
    ("from", "https://a*.example.com", "wildcard"),
    ("from", "https://app_1.example.com", "letters, digits"),
    ("to", [], "must be a URL"),
    ("to", "tcp://a:22", "tcp+https"),
    ("to", "ftp://a", "http or https"),
    ("to", "http://a/?x", "query"),
    ("to", "//a", "scheme"),
    ("path", "x", "must start with /"),
    ("prefix", "", "must not be empty"),
    ("prefix", "/a\r\nb", "control characters"),
    ("regex", "(a", "RE2"),
    ("regex", "a(?=b)", "RE2"),
    ("regex", r"(a)\1", "RE2"),
    ("prefix_rewrite", "x", "must start with /"),
    ("prefix_rewrite", "/a b", "ercent-encode"),
    ("prefix_rewrite", "/a?b", "query"),
    ("prefix_rewrite", "/a#b", "fragment"),
    ("prefix_rewrite", "/a\\b", "ercent-encode"),
    ("prefix_rewrite", "/%0", "ercent-encode"),
    ("allowed_users", [""], "must not be empty"),
    ("allowed_users", "a@b.c,,d@e.f", "must not be empty"),
    ("allowed_groups", [5], "must be text"),
    ("allowed_domains", ["a@example.com"], "contains an @. Write"),
    ("allowed_idp_claims", ["x"], "must be a map"),
    ("allowed_idp_claims", {"a": [None]}, "text, numbers"),
    ("allowed_idp_claims", {"a": ""}, "text, numbers"),
    ("allowed_idp_claims", {"a": [["x"]]}, "text, numbers"),
    *(("acr_values", value, "") for value in ([""], ["a b"], ['a"b'], ["a\\b"], ["é"], ["a\n"], ["x" * 256])),
    ("max_age", "59s", "at least 1m"),
    ("max_age", "0s", "longer than 0"),
    ("timeout", 30, "must be a duration"),
    ("timeout", "-1s", "must be a duration"),
    ("set_request_headers", {"X-Gate-Claim-Email": "x"}, "is an identity header"),
    ("set_request_headers", {"Content-Length": "5"}, "is a hop-by-hop header"),
    ("set_request_headers", {"X-A": "a\nb"}, "control characters"),
    ("remove_request_headers", ["Host"], "a valid request"),
    ("tls_server_name", "a b", "letters, digits"),
    ("tls_custom_ca", "c2hvcnQ=", "no valid PEM certificate"),
    ("tls_custom_ca", "not base64", "whitespace"),
    ("prefixx", "/", "Did you mean prefix?"),
    ("websocket_origins", ["app.example.com"], "needs a scheme"),
    ("websocket_origins", ["https://app.example.com/"], "not an origin"),
    ("websocket_origins", ["https://app.example.com?a"], "not an origin"),
    ("websocket_origins", ["wss://app.example.com"], "not an origin"),
    ("websocket_origins", ["capacitor://localhost/"], "not an origin"),
    ("websocket_origins", ["data://x"], "not an origin"),
    ("websocket_origins", ["https://ann@app.example.com"], "user name"),
    ("websocket_origins", ["null"], "every sandboxed frame"),
    ("websocket_origins", ["file://"], "every sandboxed frame"),
    ("websocket_origins", ["FILE:///x"], "every sandboxed frame"),
    ("websocket_origins", ["https://*.example.com"], "a wildcard"),
    ("websocket_origins", ["*"], "a wildcard"),
    ("websocket_origins", ["chrome-extension://*"], "a wildcard"),
    ("title", "x" * 61, "at most 60 characters"),
    ("title", "a\nb", "control characters"),
    ("title", "a\u202eb", "must not contain invisible"),
    ("description", "x" * 201, "at most 200 characters"),
    ("category", "x" * 41, "at most 40 characters"),
    ("refusal_message", "x" * 301, "at most 300 characters"),
    ("refusal_message", "a\u202eb", "must not contain invisible"),
    ("icon", "unicorn", "one of book, "),
    ("icon", "missing.png", "can't be read"),
    ("tls_downstream_client_ca", "x", "not valid base64"),
)
# By the type of a key, whatever it is for.
BY_KIND = {"bool": ("maybe", "true or false"), "duration": ("5", "must be a duration"), "file path": ("missing", "can't be read")}
# The first need not be there; without the file of another, a rule misses half a pair.
NOT_ALONE = {"data_dir", "autocert_dir", "autocert_eab_mac_key_file", "access_webhook_url_file", "access_webhook_secret_file"}
ALL_SETTINGS = [key for group in settings_by_topic().values() for key in group]


def by_kind(keys: list[SettingKey]) -> Iterator[tuple[str, Any, str]]:
    for key in keys:
        reader = key.field_type
        if reader is not None and (choices := reader.schema.get("enum")) and all(isinstance(choice, str) for choice in choices):
            yield key.name, "no such choice", "must be one of"
        elif reader is not None and reader.type_name in BY_KIND and key.name not in NOT_ALONE:
            yield (key.name, *BY_KIND[reader.type_name])


def identified(row: tuple[str, Any, str]) -> str:
    return f"{row[0]}-{str(row[1])[:40]}".encode("unicode_escape").decode()


def check(found: dict[str, str], key: str, message: str) -> None:
    (place,) = found
    assert place == key or place.startswith((f"{key}[", f"{key}."))
    assert message in found[place]


@pytest.mark.parametrize("row", [*by_kind(ALL_SETTINGS), *SETTINGS], ids=identified)
def test_a_setting_refuses(problems: Problems, complete: Complete, row: tuple[str, Any, str]) -> None:
    key, value, message = row
    check(problems(**{**complete(COMPANIONS.get(key, {})), key: value}), key, message)


@pytest.mark.parametrize("row", [*by_kind(list(route_keys())), *ROUTE_KEYS], ids=identified)
def test_a_route_refuses(route_problems: Problems, complete: Complete, row: tuple[str, Any, str]) -> None:
    key, value, message = row
    check(route_problems(**{**complete(COMPANIONS.get(key, {})), key: value}), key, message)
