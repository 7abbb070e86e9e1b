"""The schema accepts what the loader accepts, and refuses what the loader refuses by its shape."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator

from config.reference.schema import build_properties, json_schema
from config.reference.setting_catalog import SettingKey, declared_keys, nested_models, route_keys, settings_by_topic
from config.routes.policy.policy_tests import PolicyTest, PolicyTestMessage
from config.routes.route_access_requests import AccessRequestSettings, BreakGlassSettings
from config.routes.route_mcp import McpSettings
from config.routes.route_redirect import RouteRedirect
from config.routes.route_upstream_oauth import UpstreamOAuthSettings
from config.routes.upstreams.load_balancing import ActiveRequestBias, LeastRequestSettings, MaglevSettings, RingHashSettings
from config.routes.upstreams.upstream_credentials import BasicAuth
from config.routes.upstreams.upstream_health import (
    GrpcHealthCheck,
    HealthCheck,
    HttpHealthCheck,
    OutlierDetection,
    StatusRange,
    TcpHealthCheck,
    TcpPayload,
)
from config.settings.brand_settings import BrandSettings
from config.settings.common_settings import CertificateFiles
from config.settings.oauth_settings import OAuthClientEntry
from config.settings.provider_entry import IdentityProvider
from config.validation import Settings
from foundation.errors import ConfigError
from tests.support.options import MINIMAL, parse_options
from tests.unit.config.conftest import AROUND_ROUTES, COMPANIONS, Complete, completed_in

SCHEMA = json_schema()
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
SETTINGS = [key for group in settings_by_topic().values() for key in group]
ROUTE = {"from": "https://app.example.com", "to": "http://127.0.0.1:8001"}

# Values of every type; what a key makes of them is the same for the loader and the schema.
POOL: list[Any] = [
    *[True, False, 0, 1, 2, 443, 0.5, "", " ", "true", "Yes", "0", "30s", "1h45m", "5", "text", "/path", ":443", "a.example.com:80"],
    *["https://a.example.com", "http://a.example.com", "ftp://a.example.com", "10.0.0.0/8", "AAAA", "X-A:b", '{"X-A": "b"}'],
    *[[], ["a"], ["a", "b"], [1], [{}], {}, {"a": "b"}, {"a": 1}, {"disable": True}, {"disable": "x"}, [""], [["a"]], None],
]
Accepts = Callable[[dict[str, Any]], bool]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One instance for all tests, because it is never modified after its creation."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def complete(directory: Path, pair: tuple[bytes, bytes]) -> Complete:
    return completed_in(directory, pair)


@pytest.fixture
def accepts(directory: Path) -> Accepts:
    """Does the loader?"""

    def loads(configuration: dict[str, Any]) -> bool:
        try:
            parse_options(json.dumps(configuration).encode(), ".json", {}, directory)
        except ConfigError:
            return False
        return True

    return loads


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def configuration(key: SettingKey, value: Any) -> dict[str, Any]:
    """A whole configuration with this value, wherever the key belongs."""
    if key in SETTINGS:
        return {**MINIMAL, **COMPANIONS.get(key.name, {}), key.name: value}
    if key.owner in HOMES:
        return {**MINIMAL, **HOMES[key.owner]({key.name: value})}
    companions = COMPANIONS.get(key.name, {}) if key.name not in {setting.name for setting in SETTINGS} else {}
    return {**MINIMAL, **AROUND_ROUTES.get(key.name, {}), "policy": [{**ROUTE, **companions, key.name: value}]}


def balanced(policy: str, **config: Any) -> dict[str, Any]:
    return {"policy": [{**ROUTE, "lb_policy": policy, **config}]}


def checked(values: dict[str, Any]) -> dict[str, Any]:
    thresholds = {"timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 1}
    return {"policy": [{**ROUTE, "health_checks": [{**thresholds, **values}]}]}


UPSTREAM_OAUTH = {
    "client_id": "gate",
    "authorization_url": "https://login.example.org/authorize",
    "token_url": "https://login.example.org/token",
}
CLIENT = {"id": "build-agent", "name": "Build agent", "redirect_uris": ["http://127.0.0.1/callback"]}
A_PROVIDER = {"id": "corp", "provider": "oidc", "url": "https://idp.corp.example", "client_id": "gate", "client_secret": "secret"}


def a_provider_with(values: dict[str, Any]) -> dict[str, Any]:
    kind = {"provider": "okta"} if {"service_account", "service_account_file"} & values.keys() else {}
    made = A_PROVIDER | kind | values
    return {name: value for name, value in made.items() if name != "client_secret" or "client_secret_file" not in values}


def providers_with(values: dict[str, Any]) -> list[dict[str, Any]]:
    """One that has these keys, and where they link its people another with whose."""
    if not values.keys() & {"link_by", "trust_email"}:
        return [a_provider_with(values)]
    shared = {**A_PROVIDER, "domains": ["corp.example"], "link_by": "verified_email"}
    return [{**shared, **values}, {**shared, "id": "partner", "url": "https://idp.partner.example"}]


# Configuration that contains an object of each model, with the other keys that it requires.
HOMES: dict[type[Settings], Callable[[dict[str, Any]], dict[str, Any]]] = {
    BrandSettings: lambda values: {"brand": values},
    CertificateFiles: lambda values: {"certificates": [{"cert": "fullchain.pem", "key": "privkey.pem", **values}]},
    AccessRequestSettings: lambda values: {
        "policy": [{**ROUTE, "mcp": {}, "access_requests": {"approvers": [{"groups": "leads"}], **values}}]
    },
    OAuthClientEntry: lambda values: {"oauth_clients": [{**CLIENT, **values}]},
    McpSettings: lambda values: {"policy": [{**ROUTE, "to": "https://upstream.internal", "mcp": values}]},
    UpstreamOAuthSettings: lambda values: {
        "policy": [{**ROUTE, "to": "https://upstream.internal", "mcp": {"upstream_oauth": {**UPSTREAM_OAUTH, **values}}}]
    },
    BreakGlassSettings: lambda values: {
        "policy": [{**ROUTE, "access_requests": {"approvers": [{"groups": "a"}], "break_glass": {"allowed": [{"groups": "b"}], **values}}}]
    },
    IdentityProvider: lambda values: {**COMPANIONS["identity_providers"], "identity_providers": providers_with(values)},
    BasicAuth: lambda values: {
        "policy": [
            {
                **ROUTE,
                "basic_auth": {"user": "gate", **({} if "password" in values else {"password_file": "token"}), **values},
            }
        ]
    },
    RouteRedirect: lambda values: {"policy": [{"from": "https://a.example.com", "redirect": {"host_redirect": "b.example.com", **values}}]},
    LeastRequestSettings: lambda values: balanced("LEAST_REQUEST", least_request_lb_config=values),
    ActiveRequestBias: lambda values: balanced("LEAST_REQUEST", least_request_lb_config={"active_request_bias": values}),
    RingHashSettings: lambda values: balanced("RING_HASH", ring_hash_lb_config=values),
    MaglevSettings: lambda values: balanced("MAGLEV", maglev_lb_config=values),
    HealthCheck: lambda values: checked(
        values if {"http_health_check", "grpc_health_check"} & values.keys() else {"tcp_health_check": {}, **values}
    ),
    GrpcHealthCheck: lambda values: checked({"grpc_health_check": values}),
    HttpHealthCheck: lambda values: checked({"http_health_check": {"path": "/", **values}}),
    StatusRange: lambda values: checked({"http_health_check": {"path": "/", "expected_statuses": [{"start": 100, "end": 600, **values}]}}),
    TcpHealthCheck: lambda values: checked({"tcp_health_check": values}),
    TcpPayload: lambda values: checked({"tcp_health_check": {"send": values}}),
    OutlierDetection: lambda values: {"policy": [{**ROUTE, "outlier_detection": values}]},
    PolicyTestMessage: lambda values: {
        "policy_tests": [{"url": "https://a.example.com/", "expect": "allow", "user": "ann@example.com", "mcp": values}]
    },
    PolicyTest: lambda values: {
        "policy_tests": [{"url": "https://a.example.com/", "expect": "allow", "user": "ann@example.com", "client": "a", **values}]
    },
}
DECLARED = [*SETTINGS, *route_keys(), *(key for model in HOMES for key in declared_keys(model))]


def test_every_model_is_among_those_that_are_tried() -> None:
    assert {model for _, model in nested_models([*SETTINGS, *route_keys()])} == set(HOMES)


@pytest.mark.parametrize("key", DECLARED, ids=lambda key: f"{key.owner.__name__}.{key.name}")
def test_schema_and_loader_agree_on_shapes(key: SettingKey, complete: Complete, accepts: Accepts) -> None:
    verdicts = []
    for value in [*key.field.examples, *POOL]:
        whole = complete(configuration(key, value))
        verdicts.append((value, accepts(whole), VALIDATOR.is_valid(whole)))
    for example, is_loaded, is_valid in verdicts[: len(key.field.examples)]:
        assert is_loaded, f"the loader refuses the example {example!r}"
        assert is_valid, f"the schema refuses the example {example!r}"
    assert [value for value, is_loaded, is_valid in verdicts if is_loaded and not is_valid] == []
    types_loaded = {type(value) for value, is_loaded, _ in verdicts if is_loaded}
    types_loaded.add(type(None))  # a key with nothing behind it is unset, but the file alone may be too little then
    assert [value for value, _, is_valid in verdicts if is_valid and type(value) not in types_loaded] == []


@pytest.mark.parametrize("placeholder", ["PUT-A-SECRET-HERE", "BASE64-OF-ca.pem"])
def test_a_placeholder_is_no_value(placeholder: str) -> None:
    assert not VALIDATOR.is_valid({"cookie_secret": placeholder})
    assert not VALIDATOR.is_valid({"certificate_authority": placeholder})


def test_any_part_may_come_from_the_environment() -> None:
    assert VALIDATOR.is_valid({})
    assert VALIDATOR.is_valid({"policy": base64.b64encode(json.dumps([ROUTE]).encode()).decode()})


@pytest.mark.parametrize(
    "invalid",
    [
        {"cookie_nmae": "a"},
        {"policy": [{"to": "http://a"}]},
        {"policy": [{"from": "https://a"}]},
        {"policy": [{**ROUTE, "allowed_user": ["a"]}]},
        {"policy": [{"from": "https://a/path", "to": "http://a"}]},
        {"certificates": [{"cert": "a.pem"}]},
        {"policy": {}},
        [],
    ],
    ids=str,
)
def test_loader_rejections_by_shape(invalid: Any, accepts: Accepts) -> None:
    assert not VALIDATOR.is_valid(invalid)
    assert not accepts({**MINIMAL, **invalid} if invalid else invalid)


def test_a_key_that_has_neither_a_reader_nor_a_model_is_a_mistake_of_its_declaration():
    class Undescribed(Settings):
        colour: str = ""

    with pytest.raises(TypeError, match="colour"):
        build_properties(declared_keys(Undescribed), {}, nullable=False)
