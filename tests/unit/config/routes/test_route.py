"""One route: what is read, what is refused, and what makes its id."""

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from config.routes.route import Route
from config.routes.upstreams.urls import WeightedUrl
from foundation.values import Url
from tests.unit.config.conftest import Complete, Load, Problems

MINIMAL = {"from": "https://app.example.com", "to": "http://upstream:8000"}


def route(**keys: Any) -> Route:
    return Route.model_validate({**MINIMAL, **keys})


def test_a_minimal_route_lets_nobody_pass() -> None:
    minimal = route()
    assert minimal.from_ == Url("https", "app.example.com")
    assert minimal.to == (WeightedUrl(Url("http", "upstream", 8000)),)
    rules = {name: getattr(minimal, name) for name in Route.attributes().values() if name.startswith(("allow", "cors"))}
    assert len(rules) == 9
    assert not any(rules.values())
    assert (minimal.pass_identity_headers, minimal.preserve_host_header, minimal.tls_skip_verify) == (False, False, False)
    assert minimal.timeout is None


def test_a_timeout_of_0_is_not_an_unset_one() -> None:
    assert route(timeout="0").timeout == timedelta(0)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
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
        ("timeout", 30, "must be a duration"),
        ("timeout", "-1s", "must be a duration"),
        ("set_request_headers", {"X-Gate-Claim-Email": "x"}, "is an identity header"),
        ("set_request_headers", {"Content-Length": "5"}, "is a hop-by-hop header"),
        ("set_request_headers", {"X-A": "a\nb"}, "control characters"),
        ("remove_request_headers", ["Host"], "a valid request"),
        ("pass_identity_headers", "maybe", "true or false"),
        ("tls_server_name", "a b", "letters, digits"),
        ("tls_custom_ca", "c2hvcnQ=", "no valid PEM certificate"),
        ("tls_custom_ca", "not base64", "whitespace"),
        ("tls_custom_ca_file", "missing.pem", "can't be read"),
        ("prefixx", "/", "Did you mean prefix?"),
        ("allow_websockets", "maybe", "true or false"),
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
        ("websocket_origins", ["https://app.example.com"], "no effect without allow_websockets"),
        ("tls_downstream_client_ca", "x", "not valid base64"),
        ("tls_downstream_client_ca_file", "missing.pem", "can't be read"),
    ],
)
def test_a_wrong_value_is_refused(route_problems: Problems, key: str, value: Any, message: str) -> None:
    found = route_problems(**{key: value})
    assert list(found) == [key]
    assert message in found[key]


@pytest.mark.parametrize("everybody", ["allow_public_unauthenticated_access", "allow_any_authenticated_user"])
@pytest.mark.parametrize(
    "rule", [{"allowed_users": ["a@b.c"]}, {"allowed_groups": ["x"]}, {"allowed_domains": ["b.c"]}, {"allowed_idp_claims": {"a": "b"}}]
)
def test_a_route_for_everybody_has_no_lists(route_problems: Problems, everybody: str, rule: dict[str, Any]) -> None:
    assert next(iter(rule)) in route_problems(**{everybody: True}, **rule)[everybody]
    assert route_problems(**{everybody: True}) == {}


def test_a_route_leads_somewhere(route_problems: Problems) -> None:
    assert route_problems(to=None) == {"": "needs `to` or `redirect`"}


def test_a_custom_authority_is_base64_or_a_file(load: Load, route_problems: Problems, pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(pair[0])
    encoded = base64.b64encode(pair[0]).decode()
    for keys in ({"tls_custom_ca": encoded}, {"tls_custom_ca_file": "ca.pem"}):
        assert load(policy=[{**MINIMAL, **keys}]).policy[0].tls_custom_ca == pair[0]
    assert "one of them" in route_problems(tls_custom_ca=encoded, tls_custom_ca_file="ca.pem")["tls_custom_ca"]


def test_the_id_is_stable_and_says_what_is_matched_and_where_it_leads() -> None:
    assert route().id == route(allowed_users=["a@b.c"], timeout="5s", name="x").id
    assert len(route().id) == 16
    assert int(route().id, 16) >= 0
    changes: list[dict[str, Any]] = [
        {},
        {"path": "/x"},
        {"prefix": "/x"},
        {"regex": "/x"},
        {"from": "https://other.example.com"},
        {"to": "http://other"},
        {"redirect": {"https_redirect": True}},
        {"redirect": {"strip_query": True}},
    ]
    assert len({route(**change).id for change in changes}) == len(changes)


def test_a_client_certificate_is_whole_and_shown_to_https_upstreams(route_problems: Problems, complete: Complete) -> None:
    def found(**keys: Any) -> dict[str, str]:
        return route_problems(**complete({"to": "https://upstream.internal", **keys}))

    whole = {"tls_client_cert": "BASE64-OF-client.pem", "tls_client_key": "BASE64-OF-client-key.pem"}
    assert found(**whole) == {}
    assert found(tls_client_cert_file="client.pem", tls_client_key_file="client-key.pem") == {}
    assert found(tls_client_cert_file="client.pem", tls_client_key="BASE64-OF-client-key.pem") == {}
    assert found(tls_client_cert="BASE64-OF-client.pem") == {"tls_client_cert": "needs tls_client_key too"}
    assert found(tls_client_key_file="client-key.pem") == {"tls_client_key_file": "needs tls_client_cert too"}
    assert [(key, "https upstreams" in message) for key, message in found(**whole, to="http://u").items()] == [("tls_client_cert", True)]
    assert found(**{**whole, "tls_client_key": "BASE64-OF-signing-key.pem"}) == {}
    assert "private key" in found(**{**whole, "tls_client_key": "BASE64-OF-ca.pem"})["tls_client_cert"]
    assert "is set together with" in found(**whole, tls_client_cert_file="client.pem")["tls_client_cert"]
