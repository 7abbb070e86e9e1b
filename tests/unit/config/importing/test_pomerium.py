"""Pomerium: no key is dropped silently, and no route allows more users than before."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.importing.conversion import Conversion
from config.importing.foreign_file import read
from config.importing.pomerium import convert
from config.importing.yaml_output import render_yaml
from config.loader import load_options

SECRET = base64.b64encode(bytes(32)).decode()
TOP = {
    "authenticate_service_url": "https://authenticate.example.com",
    "idp_provider": "oidc",
    "idp_provider_url": "https://idp.example.com",
    "idp_client_id": "gate",
    "idp_client_secret": "s3cret",
    "shared_secret": base64.b64encode(bytes(range(32))).decode(),
    "cookie_secret": base64.b64encode(bytes(range(1, 33))).decode(),
    "insecure_server": True,
}


def converted(directory: Path, values: dict[str, Any]) -> Conversion:
    path = directory / "pomerium.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return convert(read(path))


def route(directory: Path, **keys: Any) -> dict[str, Any]:
    text = render_yaml(converted(directory, {**TOP, "routes": [{"from": "https://a.example.com", "to": "http://b", **keys}]}), "x")
    found: dict[str, Any] = yaml.safe_load(text)["policy"][0]
    return found


def test_typical_file_loads_as_gate_configuration(tmp_path: Path) -> None:
    values = {
        **TOP,
        "pomerium_debug": True,
        "jwt_claims_headers": {"X-Email": "email"},
        "pass_identity_headers": True,
        "codec_type": "auto",
        "routes": [
            {"from": "https://a.example.com", "to": "http://10.0.0.1:80", "allowed_domains": ["example.com"], "idle_timeout": "5s"},
            {
                "from": "https://b.example.com",
                "to": ["http://10.0.0.2"],
                "prefix": "/x",
                "policy": [{"allow": {"or": [{"email": {"is": "a@b.org"}}]}}],
            },
        ],
    }
    (tmp_path / "config.yaml").write_text(render_yaml(converted(tmp_path, values), "pomerium.yaml"))
    options = load_options(tmp_path / "config.yaml", {})
    assert options.gate_debug
    assert options.jwt_claims_headers == ("email",)
    assert [route.from_.host for route in options.policy] == ["a.example.com", "b.example.com"]
    assert options.policy[0].allowed_domains == ("example.com",)
    assert all(route.pass_identity_headers for route in options.policy)
    assert options.policy[1].prefix == "/x"


def test_every_key_of_the_file_is_in_the_output(tmp_path: Path) -> None:
    values = {
        **TOP,
        "unheard_of": 1,
        "administrators": ["a"],
        "cache_service_url": "http://x",
        "tracing_zipkin_endpoint": "http://z",
        "databroker_storage_type": "redis",
        "databroker_storage_connection_string": "redis://localhost:6379/0",
        "routes": [
            {"from": "https://a.example.com", "to": "http://b", "logo_url": "x", "unknown_key": 1, "kubernetes_service_account_token": "t"}
        ],
    }
    text = render_yaml(converted(tmp_path, values), "pomerium.yaml")
    for key in (*values, *values["routes"][0]):
        assert key in text.replace("policy:", "routes policy:"), key


def test_lost_data_is_counted_and_logged(tmp_path: Path) -> None:
    found = converted(tmp_path, {**TOP, "unheard_of": 1})
    assert found.lost == 1
    assert f"# LOST unheard_of (line {len(TOP) + 1}): it has no counterpart" in render_yaml(found, "x")


def test_unsupported_rule_admits_no_user(tmp_path: Path) -> None:
    found = route(tmp_path, policy=[{"allow": {"or": [{"device": {"is": "approved"}}]}}])
    assert found == {"from": "https://a.example.com", "to": "http://b"}


@pytest.mark.parametrize("operator", ["and", "or"])
def test_pomerium_terms_for_signed_in_and_all_users_are_recognized(tmp_path: Path, operator: str) -> None:
    assert route(tmp_path, policy=[{"allow": {operator: [{"authenticated_user": True}]}}])["allow_any_authenticated_user"] is True
    assert route(tmp_path, policy={"allow": {operator: [{"accept": True}]}})["allow_public_unauthenticated_access"] is True


def test_all_users_alongside_deny_grants_nothing(tmp_path: Path) -> None:
    deny = {"deny": {"or": [{"http_path": {"starts_with": "/admin"}}]}}
    for allow in ({"accept": True}, {"authenticated_user": True}):
        found = route(tmp_path, policy=[{"allow": {"or": [allow]}}, deny])
        assert not {"allow_any_authenticated_user", "allow_public_unauthenticated_access"} & set(found)
    assert found["policy"] == [{"allow": {"or": [{"claim/sub": {"exists": True}}]}}, deny]


def test_lost_refusal_closes_route_despite_other_rules(tmp_path: Path) -> None:
    found = route(tmp_path, allowed_domains=["example.com"], policy=[{"deny": {"or": [{"device": {"is": "lost"}}]}}])
    assert "allowed_domains" not in found
    assert "policy" not in found


def test_a_lost_permission_leaves_the_others(tmp_path: Path) -> None:
    found = route(tmp_path, allowed_domains=["example.com"], policy=[{"allow": {"or": [{"device": {"is": "x"}}]}}])
    assert found["allowed_domains"] == ["example.com"]


def test_display_texts_of_routes_are_converted(tmp_path: Path) -> None:
    assert route(tmp_path, description="Minutes and plans")["description"] == "Minutes and plans"


def test_membership_uses_gate_terms(tmp_path: Path) -> None:
    found = route(tmp_path, policy=[{"allow": {"or": [{"groups": {"has": "admins"}}]}}])
    assert found["policy"] == [{"allow": {"or": [{"groups": {"is": "admins"}}]}}]


@pytest.mark.parametrize("entry", ["text", 7, None])
def test_non_route_is_reported(tmp_path: Path, entry: Any) -> None:
    assert converted(tmp_path, {**TOP, "routes": [entry]}).lost == 1


def test_tcp_route_is_converted_without_http_options(tmp_path: Path) -> None:
    tcp = {"from": "tcp+https://db.example.com:5432", "to": "tcp://db.internal:5432", "allowed_users": ["ann@example.com"]}
    values = {**TOP, "pass_identity_headers": True, "routes": [{**tcp, "timeout": "1h", "idle_timeout": "30m", "allow_websockets": True}]}
    text = render_yaml(converted(tmp_path, values), "x")
    assert yaml.safe_load(text)["policy"] == [{**tcp, "timeout": "1h", "idle_timeout": "30m"}]
    assert "TCP route" in text
    (tmp_path / "ours.yaml").write_text(text)
    assert load_options(tmp_path / "ours.yaml", {}).policy[0].is_tcp


MTLS = {"ca": "AAAA", "enforcement": "policy", "max_verify_depth": 2}


def test_client_certificates_are_requested_here_too(tmp_path: Path) -> None:
    found = converted(tmp_path, {**TOP, "downstream_mtls": MTLS, "routes": [{"from": "https://a", "to": "http://b"}]})
    assert found.top.has("client_ca")
    assert found.lost == 2


@pytest.mark.parametrize(
    "refusal",
    [
        {"downstream_mtls": {**MTLS, "match_subject_alt_names": [{"dns": "x"}]}},
        {"downstream_mtls": {**MTLS, "crl": "x"}},
        {"client_ca": "AAAA", "client_crl_file": "crl.pem"},
    ],
)
def test_client_refused_by_certificate_is_not_admitted(tmp_path: Path, refusal: dict[str, Any]) -> None:
    open_route = {"from": "https://a.example.com", "to": "http://b", "allow_any_authenticated_user": True}
    found = converted(tmp_path, {**TOP, **refusal, "routes": [open_route]})
    assert not found.routes[0].has("allow_any_authenticated_user")
    assert "so all users are" in " ".join(note.text for note in found.top.notes())


def test_routes_of_the_environment_are_read(tmp_path: Path) -> None:
    listed = base64.b64encode(b"- {from: https://a.example.com, to: http://b}").decode()
    assert len(converted(tmp_path, {**TOP, "routes": listed}).routes) == 1
    assert converted(tmp_path, {**TOP, "routes": "?"}).lost == 1


@pytest.mark.parametrize(("written", "provider"), [("ping", "oidc"), ("cognito", "oidc"), ("google", "google"), ("apple", None)])
def test_providers_have_their_names_here(tmp_path: Path, written: str, provider: str | None) -> None:
    text = render_yaml(converted(tmp_path, {**TOP, "idp_provider": written}), "x")
    assert yaml.safe_load(text).get("idp_provider") == provider


@pytest.mark.parametrize(
    ("keys", "rewrite"),
    [
        ({"to": "http://b"}, None),
        ({"to": "http://b/"}, None),
        ({"to": "http://b", "prefix": "/x"}, None),
        ({"to": "http://b/", "prefix": "/x"}, "/"),
        ({"to": "http://b/base"}, "/base"),
        ({"to": ["http://b/base,3", "http://c/base,1"], "prefix": "/x"}, "/base"),
        ({"to": "http://b/base/", "regex": "/x/.*"}, "/base/"),
        ({"to": "http://b/base", "prefix": "/x", "prefix_rewrite": "/y"}, "/y"),
        ({"to": "http://[b/base"}, None),
        ({"to": []}, None),
        ({"to": "http://b/base", "regex_rewrite_pattern": "^/a", "regex_rewrite_substitution": "/b"}, None),
    ],
)
def test_the_path_of_an_upstream_goes_where_it_went(tmp_path: Path, keys: dict[str, Any], rewrite: str | None) -> None:
    assert route(tmp_path, **keys).get("prefix_rewrite") == rewrite
