"""One route: what is read, what is refused, and what makes its id."""

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from config.routes.route import Route
from config.routes.upstreams.upstream_urls import WeightedUrl
from foundation.values import Url
from tests.unit.config.conftest import Complete, Load, Problems

MINIMAL = {"from": "https://app.example.com", "to": "http://upstream:8000"}


def route(**keys: Any) -> Route:
    return Route.model_validate({**MINIMAL, **keys})


def test_minimal_route_denies_all() -> None:
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


@pytest.mark.parametrize("key", ["allow_public_unauthenticated_access", "allow_any_authenticated_user"])
@pytest.mark.parametrize(
    "rule", [{"allowed_users": ["a@b.c"]}, {"allowed_groups": ["x"]}, {"allowed_domains": ["b.c"]}, {"allowed_idp_claims": {"a": "b"}}]
)
def test_public_route_has_no_lists(route_problems: Problems, key: str, rule: dict[str, Any]) -> None:
    assert next(iter(rule)) in route_problems(**{key: True}, **rule)[key]
    assert route_problems(**{key: True}) == {}


def test_origins_need_websockets(route_problems: Problems) -> None:
    assert "no effect without allow_websockets" in route_problems(websocket_origins=["https://app.example.com"])["websocket_origins"]


def test_a_route_leads_somewhere(route_problems: Problems) -> None:
    assert route_problems(to=None) == {"": "needs `to` or `redirect`"}


def test_a_custom_authority_is_base64_or_a_file(load: Load, route_problems: Problems, pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(pair[0])
    encoded = base64.b64encode(pair[0]).decode()
    for keys in ({"tls_custom_ca": encoded}, {"tls_custom_ca_file": "ca.pem"}):
        assert load(policy=[{**MINIMAL, **keys}]).policy[0].tls_custom_ca == pair[0]
    assert "one of them" in route_problems(tls_custom_ca=encoded, tls_custom_ca_file="ca.pem")["tls_custom_ca"]


def test_id_is_stable_and_names_match_and_target() -> None:
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


def test_client_certificate_is_complete_and_presented_to_https_upstreams(route_problems: Problems, complete: Complete) -> None:
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
