"""Lint rules report risky settings at their keys, and nothing else."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import lint
from config.lint import LINT_RULES
from config.loader import ConfigCheck, check_configuration
from config.options import Options
from config.routes.route import Route
from tests.support.certs import certificate_files
from tests.support.options import MINIMAL

STRONG = {
    **MINIMAL,
    "cookie_secret": "cJ2sXq0n0c0m3H6wT1oQe9l5g7u8yBvKxZr4dFtPAhE=",
    "shared_secret": "v9Yq3m1Zk8Xw5Lr7Td2Bf6Hj4Np0Gs+QcVbEuIoAyKM=",
}
ROUTE = {"from": "https://a.example.com", "to": "https://u.example.net", "allow_any_authenticated_user": True}
CONFIG_CHECKS = [ConfigCheck("weak-setting", rule, warns=True) for rule in LINT_RULES]


def weak(directory: Path, *routes: dict[str, Any], **settings: Any) -> set[str]:
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**STRONG, "policy": list(routes), **settings}))
    return {problem.key for problem in check_configuration(path, {}, CONFIG_CHECKS).warnings}


def test_a_strong_configuration_is_left_alone(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE) == set()


@pytest.mark.parametrize(
    "settings",
    [
        {"cookie_secure": False},
        {"cookie_http_only": False},
        {"gate_debug": True},
        {"admin_password_login": True},
        {"cookie_expire": "2000h"},
        {"idp_provider_url": "http://localhost:9400"},
        {"cookie_secret": base64.b64encode(b"password" * 4).decode()},
        {"shared_secret": base64.b64encode(bytes(range(32))).decode()},
        {"cookie_secret": base64.b64encode(bytes(32)).decode()},
    ],
    ids=str,
)
def test_a_weak_setting_is_a_warning(tmp_path: Path, settings: dict[str, Any]) -> None:
    assert weak(tmp_path, ROUTE, **settings) == set(settings)


AZURE = {"idp_provider": "azure", "idp_provider_url": "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555"}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"trusted_proxies": ["10.0.0.0/8", "0.0.0.0/0"]}, "trusted_proxies[1]"),
        ({"trusted_proxies": ["::/0"]}, "trusted_proxies[0]"),
        ({"idp_client_secret": "${CLIENT_SECRET}"}, "idp_client_secret"),
        ({"idp_client_secret": "$CLIENT_SECRET"}, "idp_client_secret"),
        ({"idp_client_secret": "{{ vault_secret }}"}, "idp_client_secret"),
        ({"idp_client_secret": "changeme"}, "idp_client_secret"),
        ({"idp_client_id": "<your client id>"}, "idp_client_id"),
        ({"idp_provider_url": "https://idp.example.com/.well-known/openid-configuration"}, "idp_provider_url"),
        (AZURE, "idp_provider_url"),
    ],
    ids=str,
)
def test_placeholder_or_trust_in_all_is_a_warning(tmp_path: Path, settings: dict[str, Any], key: str) -> None:
    assert weak(tmp_path, ROUTE, **settings) == {key}


def test_filled_in_values_are_not_reported(tmp_path: Path) -> None:
    filled = {"idp_client_secret": "a$b{c}<d>", "trusted_proxies": ["10.0.0.0/8", "fd00::/8"]}
    assert weak(tmp_path, ROUTE, **filled, **AZURE | {"idp_provider_url": f"{AZURE['idp_provider_url']}/v2.0"}) == set()


def test_one_secret_for_two_purposes_is_a_warning(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE, shared_secret=STRONG["cookie_secret"]) == {"shared_secret"}


def test_no_tls_on_an_open_address_needs_a_trusted_proxy(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE, address=":80") == {"insecure_server"}
    assert weak(tmp_path, ROUTE, address="127.0.0.1:80") == set()
    assert weak(tmp_path, ROUTE, address=":80", trusted_proxies=["10.0.0.0/8"]) == set()


def test_weak_routes_are_warnings(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE, {**ROUTE, "tls_skip_verify": True}) == {"policy[1].tls_skip_verify"}
    tokens = {"pass_provider_tokens": True, "pass_provider_tokens_unencrypted": True, "set_request_headers": {"X-Token": "${id_token}"}}
    assert weak(tmp_path, {**ROUTE, **tokens, "to": "http://app.internal"}) == {"policy[0].pass_provider_tokens_unencrypted"}
    identified = {**ROUTE, "pass_identity_headers": True}
    assert weak(tmp_path, identified, identified) == {"policy[0].pass_identity_headers"}
    assert weak(tmp_path, {**identified, "to": "http://u.example.net"}) == {"policy[0].pass_identity_headers", "policy[0].to"}
    for private in ("http://10.1.2.3", "http://127.0.0.1", "http://[::1]", "http://app", "http://app.svc", "http://x.localhost"):
        assert weak(tmp_path, {**identified, "to": private}) == {"policy[0].pass_identity_headers"}


CLUSTER = {**ROUTE, "cluster_service_account_token": "the-cluster-token"}


@pytest.mark.parametrize(
    ("keys", "is_warned"),
    [({}, True), ({"allow_websockets": True}, False), ({"allow_spdy": True}, False), ({"allow_spdy": False}, True)],
)
def test_a_cluster_without_upgrades_is_a_warning(tmp_path: Path, keys: dict[str, Any], is_warned: bool) -> None:
    expected = {"policy[0].cluster_service_account_token"} if is_warned else set()
    assert weak(tmp_path, {**CLUSTER, **keys}, {**ROUTE, "from": "https://b.example.com"}) == expected


def test_cluster_token_in_file_is_a_warning_at_that_key(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("the-cluster-token")
    route = {**ROUTE, "cluster_service_account_token_file": str(tmp_path / "token")}
    assert weak(tmp_path, route) == {"policy[0].cluster_service_account_token_file"}


COOKIE = {**ROUTE, "set_request_headers": {"Cookie": "uid=${user}"}}
PUBLIC = {"from": "https://b.example.com", "to": ROUTE["to"], "allow_public_unauthenticated_access": True}


@pytest.mark.parametrize(
    ("identity", "other", "is_warned"),
    [
        ({}, {}, True),
        ({}, {"to": f"{ROUTE['to']}:443/below"}, True),
        ({}, {"to": "https://other.example.net"}, False),
        ({}, {"to": ["https://other.example.net", ROUTE["to"]]}, True),
        ({}, {"remove_request_headers": ["COOKIE"]}, False),
        ({}, {"set_request_headers": {"cookie": "uid=nobody"}}, False),
        ({"set_request_headers": {"cookie": "uid=${user}"}}, {}, True),
        ({"set_request_headers": {"Cookie": "uid=nobody"}}, {}, False),
        ({"set_request_headers": {"Cookie": "jwt=${assertion}"}, "pass_identity_headers": True}, {}, False),
        ({"set_request_headers": {"X-User": "${user}"}}, {}, False),
    ],
    ids=str,
)
def test_identity_cookie_alongside_route_leaving_cookies_is_a_warning(
    tmp_path: Path, identity: dict[str, Any], other: dict[str, Any], is_warned: bool
) -> None:
    found = weak(tmp_path, {**COOKIE, **identity}, {**PUBLIC, **other}) - {"policy[0].pass_identity_headers", "policy[0].to"}
    assert found == ({"policy[0].set_request_headers"} if is_warned else set())


def test_unverifiable_assertions_are_reported_for_any_signer(tmp_path: Path) -> None:
    route, unsigned = {**ROUTE, "pass_identity_headers": True}, {"signing_key": None, "signing_key_file": None}
    assert weak(tmp_path, route, **unsigned) == {"policy[0].pass_identity_headers"}
    elsewhere = {"databroker_service_url": "https://broker.example.com", "authorize_service_url": "https://authorize.example.com"}
    assert weak(tmp_path, route, **unsigned, services="authorize", **elsewhere) == {"policy[0].pass_identity_headers"}
    assert weak(tmp_path, route, **unsigned, services="proxy", **elsewhere) == set()


def test_a_signing_key_that_cannot_be_read_is_not_called_unset(tmp_path: Path) -> None:
    route = {**ROUTE, "pass_identity_headers": True}
    assert weak(tmp_path, route, signing_key=None, signing_key_file=str(tmp_path / "nothing.pem")) == set()


def test_errors_elsewhere_hide_no_weakness(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE, cookie_secure=False, timeout_read="x", gate_debug=True) == {"cookie_secure", "gate_debug"}


def test_every_key_of_the_tables_is_a_setting() -> None:
    assert lint.RISKY_SETTINGS.keys() <= {*Options.attributes()}
    assert lint.RISKY_ROUTE_KEYS.keys() <= Route.attributes().keys()


AUTOCERT = {"insecure_server": None, "autocert": True, "address": ":443"}


def weak_with_autocert(directory: Path, *routes: dict[str, Any], **settings: Any) -> set[str]:
    configured = {key: value for key, value in {**STRONG, **AUTOCERT, **settings}.items() if value is not None}
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**configured, "policy": list(routes)}))
    return {problem.key for problem in check_configuration(path, {}, CONFIG_CHECKS).warnings}


def test_with_autocert_public_names_on_known_ports_are_left_alone(tmp_path: Path) -> None:
    assert weak_with_autocert(tmp_path, ROUTE) == set()
    assert weak_with_autocert(tmp_path, ROUTE, address=":8443", http_redirect_addr=":80") == set()


@pytest.mark.parametrize("host", ["*.example.com", "192.0.2.1", "[2001:db8::1]", "intranet", "app.localhost", "app.internal"])
def test_a_host_that_gets_no_certificate_is_a_warning(tmp_path: Path, host: str) -> None:
    assert weak_with_autocert(tmp_path, ROUTE, {**ROUTE, "from": f"https://{host}"}) == {"policy[1].from"}


def test_an_authority_of_ones_own_vouches_for_private_names(tmp_path: Path) -> None:
    route = {**ROUTE, "from": "https://app.internal"}
    assert weak_with_autocert(tmp_path, route, autocert_ca="https://ca.internal/directory") == set()


def test_ports_that_no_authority_comes_to_are_a_warning(tmp_path: Path) -> None:
    assert weak_with_autocert(tmp_path, ROUTE, address=":8443") == {"autocert"}
    assert weak_with_autocert(tmp_path, ROUTE, address=":8443", http_redirect_addr=":8080") == {"autocert"}


def test_must_staple_is_for_authorities_that_have_ocsp(tmp_path: Path) -> None:
    assert weak_with_autocert(tmp_path, ROUTE, autocert_must_staple=True) == {"autocert_must_staple"}
    assert weak_with_autocert(tmp_path, ROUTE, autocert_must_staple=True, autocert_ca="https://ca.example.com/dir") == set()
    assert weak_with_autocert(tmp_path, ROUTE, autocert_use_staging=True) == {"autocert_use_staging"}


def tls(directory: Path, *names: str) -> dict[str, Any]:
    files = certificate_files(directory, *names)
    return {"insecure_server": False, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}


def at(host: str) -> dict[str, Any]:
    return {**ROUTE, "from": f"https://{host}"}


@pytest.mark.parametrize(
    ("names", "hosts", "uncovered"),
    [
        (("auth.example.com", "a.example.com"), ["a.example.com"], set()),
        (("*.example.com",), ["a.example.com"], set()),
        (("*.example.com",), ["*.example.com"], set()),
        (("*.example.com",), ["a.b.example.com"], {"policy[0].from"}),
        (("*.example.com",), ["example.com"], {"policy[0].from"}),
        (("auth.example.com",), ["a.example.com", "a.example.com", "b.example.com"], {"policy[0].from", "policy[2].from"}),
        (("auth.example.com", "a.example.com"), ["*.example.com"], {"policy[0].from"}),
        (("a.example.com",), ["a.example.com"], {"authenticate_service_url"}),
        (("auth.example.com",), ["192.0.2.1"], set()),
    ],
)
def test_host_without_certificate_is_reported(tmp_path: Path, names: tuple[str, ...], hosts: list[str], uncovered: set[str]) -> None:
    assert weak(tmp_path, *map(at, hosts), **tls(tmp_path, *names)) == uncovered


def test_every_certificate_counts(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = tls(tmp_path / "one", "auth.example.com"), tls(tmp_path / "two", "a.example.com")
    pairs = [{"cert": each["certificate_file"], "key": each["certificate_key_file"]} for each in (one, two)]
    assert weak(tmp_path, at("a.example.com"), insecure_server=False, certificates=pairs) == set()


@pytest.mark.parametrize(
    "settings",
    [
        {"insecure_server": True, "certificate_file": None, "certificate_key_file": None},
        {"forward_auth_url": "https://auth.example.com:444"},
        {"ext_authz_tokens": ["v9Yq3m1Zk8Xw5Lr7Td2Bf6Hj4Np0GsQcVbEuIoAyKM"], "grpc_address": "127.0.0.1:5443"},
    ],
)
def test_certificates_are_ignored_where_tls_ends_elsewhere(tmp_path: Path, settings: dict[str, Any]) -> None:
    configured = {key: value for key, value in {**tls(tmp_path, "auth.example.com"), **settings}.items() if value is not None}
    assert "policy[0].from" not in weak(tmp_path, at("a.example.com"), **configured)


@pytest.mark.parametrize(
    ("sign_in", "hosts", "warned"),
    [
        ("auth.example.com:8443", ["a.example.com:8443", "b.example.com"], {"policy[1].from"}),
        ("auth.example.com:8443", ["a.example.com:8444", "b.example.com:8443"], {"policy[0].from"}),
        ("auth.example.com", ["a.example.com:8443", "b.example.com"], {"policy[0].from"}),
        ("auth.example.com:8443", ["a.example.com", "b.example.com"], {"authenticate_service_url"}),
        ("auth.example.com:8443", ["a.example.com"], {"policy[0].from"}),
        ("auth.example.com", ["a.example.com:8443"], set()),
        ("auth.example.com:8443", ["a.example.com:8443"], set()),
        ("auth.example.com:1", ["a.example.com:2", "b.example.com:3"], set()),
        ("auth.example.com", ["a.example.com:8443", "b.example.com:8443", "c.example.com"], set()),
    ],
)
def test_differing_port_is_reported(tmp_path: Path, sign_in: str, hosts: list[str], warned: set[str]) -> None:
    assert weak(tmp_path, *map(at, hosts), authenticate_service_url=f"https://{sign_in}") == warned


def test_a_service_apart_has_a_port_of_its_own(tmp_path: Path) -> None:
    apart = {"services": "authenticate", "databroker_service_url": "http://127.0.0.1:1"}
    found = weak(tmp_path, at("a.example.com"), authenticate_service_url="https://auth.example.com:8444", **apart)
    assert "policy[0].from" not in found


def test_a_tunnel_has_a_port_of_its_own(tmp_path: Path) -> None:
    tunnel = {"from": "tcp+https://db.example.com:5432", "to": "tcp://db.internal:5432", "allow_any_authenticated_user": True}
    assert weak(tmp_path, at("a.example.com"), at("b.example.com"), tunnel) == set()


@pytest.mark.parametrize(
    "mistake", [{"cookie_expire": "x"}, {"certificate_key_file": "/nowhere"}, {"authenticate_service_url": "x"}, {"services": "x"}]
)
def test_advice_survives_any_mistake_elsewhere(tmp_path: Path, mistake: dict[str, Any]) -> None:
    weak(tmp_path, at("a.example.com"), **{**tls(tmp_path, "auth.example.com"), **mistake})
