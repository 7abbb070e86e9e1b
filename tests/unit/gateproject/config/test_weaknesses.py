"""What is weak is told, at the key where it is; what is not weak is left alone."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateproject.config import weaknesses
from gateproject.config.load import Judge, check_configuration
from gateproject.config.options import Options
from gateproject.config.route import Route
from gateproject.config.weaknesses import WEAKNESSES
from tests.support.options import MINIMAL

STRONG = {
    **MINIMAL,
    "cookie_secret": "cJ2sXq0n0c0m3H6wT1oQe9l5g7u8yBvKxZr4dFtPAhE=",
    "shared_secret": "v9Yq3m1Zk8Xw5Lr7Td2Bf6Hj4Np0Gs+QcVbEuIoAyKM=",
}
ROUTE = {"from": "https://a.example.com", "to": "https://u.example.net", "allow_any_authenticated_user": True}
JUDGES = [Judge("weak-setting", rule, warns=True) for rule in WEAKNESSES]


def weak(directory: Path, *routes: dict[str, Any], **settings: Any) -> set[str]:
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**STRONG, "policy": list(routes), **settings}))
    return {problem.key for problem in check_configuration(path, {}, JUDGES).warnings}


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


def test_one_secret_for_two_purposes_is_a_warning(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE, shared_secret=STRONG["cookie_secret"]) == {"shared_secret"}


def test_no_tls_on_an_open_address_needs_a_trusted_proxy(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE, address=":80") == {"insecure_server"}
    assert weak(tmp_path, ROUTE, address="127.0.0.1:80") == set()
    assert weak(tmp_path, ROUTE, address=":80", trusted_proxies=["10.0.0.0/8"]) == set()


def test_weak_routes_are_warnings(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE, {**ROUTE, "tls_skip_verify": True}) == {"policy[1].tls_skip_verify"}
    told = {**ROUTE, "pass_identity_headers": True}
    assert weak(tmp_path, told, told) == {"policy[0].pass_identity_headers"}
    assert weak(tmp_path, {**told, "to": "http://u.example.net"}) == {"policy[0].pass_identity_headers", "policy[0].to"}
    for private in ("http://10.1.2.3", "http://127.0.0.1", "http://[::1]", "http://app", "http://app.svc", "http://x.localhost"):
        assert weak(tmp_path, {**told, "to": private}) == {"policy[0].pass_identity_headers"}


def test_assertions_that_nobody_can_verify_are_told_of_whoever_signs_them(tmp_path: Path) -> None:
    route, unsigned = {**ROUTE, "pass_identity_headers": True}, {"signing_key": None, "signing_key_file": None}
    assert weak(tmp_path, route, **unsigned) == {"policy[0].pass_identity_headers"}
    elsewhere = {"databroker_service_url": "https://broker.example.com", "authorize_service_url": "https://authorize.example.com"}
    assert weak(tmp_path, route, **unsigned, services="authorize", **elsewhere) == {"policy[0].pass_identity_headers"}
    assert weak(tmp_path, route, **unsigned, services="proxy", **elsewhere) == set()


def test_a_signing_key_that_cannot_be_read_is_not_called_unset(tmp_path: Path) -> None:
    route = {**ROUTE, "pass_identity_headers": True}
    assert weak(tmp_path, route, signing_key=None, signing_key_file=str(tmp_path / "nothing.pem")) == set()


def test_what_is_wrong_elsewhere_hides_no_weakness(tmp_path: Path) -> None:
    assert weak(tmp_path, ROUTE, cookie_secure=False, timeout_read="x", gate_debug=True) == {"cookie_secure", "gate_debug"}


def test_every_key_of_the_tables_is_a_setting() -> None:
    assert weaknesses.SETTINGS.keys() <= {*Options.attributes()}
    assert weaknesses.ROUTE_KEYS.keys() <= Route.attributes().keys()


AUTOCERT = {"insecure_server": None, "autocert": True, "address": ":443"}


def weak_with_autocert(directory: Path, *routes: dict[str, Any], **settings: Any) -> set[str]:
    given = {key: value for key, value in {**STRONG, **AUTOCERT, **settings}.items() if value is not None}
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**given, "policy": list(routes)}))
    return {problem.key for problem in check_configuration(path, {}, JUDGES).warnings}


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
