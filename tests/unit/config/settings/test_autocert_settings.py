"""Certificate authority that is used, and hosts that it issues certificates for."""

from pathlib import Path
from typing import Any

import pytest

from config.settings.autocert_settings import LETS_ENCRYPT, LETS_ENCRYPT_STAGING, acme_directory_url, acme_hosts
from tests.support.certs import certificate_files
from tests.support.options import make_options
from tests.unit.config.conftest import Problems

ON = {"insecure_server": None, "autocert": True}


def route(host: str) -> dict[str, Any]:
    return {"from": f"https://{host}", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, LETS_ENCRYPT),
        ({"autocert_use_staging": True}, LETS_ENCRYPT_STAGING),
        ({"autocert_ca": "https://ca.example.com/x"}, "https://ca.example.com/x"),
    ],
    ids=["public", "staging", "another"],
)
def test_the_authority(tmp_path: Path, settings: dict[str, Any], url: object) -> None:
    assert str(acme_directory_url(make_options(tmp_path, **ON, **settings))) == str(url)


def test_the_environments_of_the_public_authority_are_not_mixed_up() -> None:
    assert (LETS_ENCRYPT.host, LETS_ENCRYPT_STAGING.host) == ("acme-v02.api.letsencrypt.org", "acme-staging-v02.api.letsencrypt.org")


def test_every_host_gets_one_certificate_gates_own_first(tmp_path: Path) -> None:
    routes = [route("b.example.com"), route("a.example.com"), route("b.example.com"), route("a.example.com:8443")]
    options = make_options(tmp_path, **ON, policy=routes, forward_auth_url="https://fwd.example.com")
    assert acme_hosts(options) == ("auth.example.com", "fwd.example.com", "b.example.com", "a.example.com")


@pytest.mark.parametrize(
    "host", ["*.example.com", "192.0.2.1", "[2001:db8::1]", "intranet", "a.localhost", "a.local", "a.test", "a.home.arpa"]
)
def test_names_that_a_public_authority_cannot_certify_are_omitted(tmp_path: Path, host: str) -> None:
    assert acme_hosts(make_options(tmp_path, **ON, policy=[route(host)])) == ("auth.example.com",)


def test_private_names_are_left_to_their_authority(tmp_path: Path) -> None:
    options = make_options(
        tmp_path, **ON, autocert_ca="https://ca.internal/x", policy=[route("a.test"), route("*.a.test"), route("10.0.0.1")]
    )
    assert acme_hosts(options) == ("auth.example.com", "a.test")


def test_names_covered_by_configured_certificate_are_omitted(tmp_path: Path) -> None:
    files = certificate_files(tmp_path, "auth.example.com", "*.wild.example.com")
    routes = [route("a.wild.example.com"), route("b.a.wild.example.com"), route("wild.example.com")]
    options = make_options(tmp_path, **ON, certificate_file=str(files.certificate), certificate_key_file=str(files.key), policy=routes)
    assert acme_hosts(options) == ("b.a.wild.example.com", "wild.example.com")


@pytest.mark.parametrize(("services", "hosts"), [("authenticate", ("auth.example.com",)), ("proxy", ("fwd.example.com", "a.example.com"))])
def test_each_service_gets_its_required_settings(tmp_path: Path, services: str, hosts: tuple[str, ...]) -> None:
    options = make_options(
        tmp_path,
        **ON,
        services=services,
        grpc_insecure=True,
        databroker_service_url="http://127.0.0.1:1",
        authorize_service_url="http://127.0.0.1:2",
        forward_auth_url="https://fwd.example.com",
        policy=[route("a.example.com")],
    )
    assert acme_hosts(options) == hosts


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"autocert": True}, "autocert"),  # beside insecure_server
        ({**ON, "autocert_ca": "http://ca.example.com/dir"}, "autocert_ca"),
        ({**ON, "autocert_ca": "https://ca.example.com/dir", "autocert_use_staging": True}, "autocert_use_staging"),
        ({**ON, "autocert_eab_key_id": "kid"}, "autocert_eab_key_id"),
        ({**ON, "autocert_eab_mac_key": "a" * 32}, "autocert_eab_mac_key"),
        ({**ON, "autocert_eab_key_id": "kid", "autocert_eab_mac_key": "not base64!"}, "autocert_eab_mac_key"),
        ({**ON, "autocert_trusted_ca": "bm8gUEVN"}, "autocert_trusted_ca"),
        ({**ON, "grpc_address": ":5443", "grpc_insecure": False}, "autocert"),
    ],
    ids=str,
)
def test_unworkable_setting_is_an_error(problems: Problems, settings: dict[str, Any], key: str) -> None:
    assert key in problems(**settings)


@pytest.mark.parametrize("services", ["authorize", "databroker"])
def test_a_service_without_a_listener_gets_none(problems: Problems, services: str) -> None:
    url = {} if services == "databroker" else {"databroker_service_url": "http://127.0.0.1:1"}
    assert "autocert" in problems(**ON, services=services, grpc_address=":5443", grpc_insecure=True, **url)


def test_autocert_is_reason_enough_to_start_without_a_certificate(problems: Problems) -> None:
    assert problems(**ON) == {}
    assert "certificate" in problems(insecure_server=None)


def test_key_is_never_displayed(problems: Problems) -> None:
    key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
    assert key not in str(problems(**ON, autocert_eab_mac_key=key))
