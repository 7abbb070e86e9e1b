"""Envoy trusts no client header, and keeps hosts and paths unchanged."""

from pathlib import Path
from typing import Any

import pytest

from proxy.envoy.resources.http_connection_manager import http_connection_manager, seconds, tls
from proxy.envoy.resources.internal_headers import PREFIX
from proxy.listener.listener_limits import ListenerLimits
from tests.support.options import make_options


@pytest.fixture
def manager(tmp_path: Path) -> dict[str, Any]:
    limits = ListenerLimits.from_options(make_options(tmp_path))
    found: dict[str, Any] = http_connection_manager("/log", limits, [], [{"name": "first"}], {"codec_type": "HTTP3"})["typed_config"]
    return found


def test_hosts_and_paths_are_not_touched_before_gate_has_read_them(manager: dict[str, Any]) -> None:
    assert (manager["normalize_path"], manager["merge_slashes"]) == (False, False)
    assert manager["path_with_escaped_slashes_action"] == "KEEP_UNCHANGED"
    (host,) = manager["route_config"]["virtual_hosts"]
    assert host["domains"] == ["*"]


def test_client_address_headers_are_ignored(manager: dict[str, Any]) -> None:
    assert (manager["use_remote_address"], manager["forward_client_cert_details"]) == (True, "SANITIZE")
    (early,) = manager["early_header_mutation_extensions"]
    assert PREFIX in str(early)


def test_router_is_last_and_overrides_are_applied(manager: dict[str, Any]) -> None:
    assert [each["name"] for each in manager["http_filters"]] == ["first", "envoy.filters.http.router"]
    assert manager["codec_type"] == "HTTP3"


def test_secrets_are_referenced_by_name(tmp_path: Path) -> None:
    made = tls(make_options(tmp_path, insecure_server=None, autocert=True), tmp_path, ["h3"], {"tls_minimum_protocol_version": "TLSv1_3"})
    assert made["alpn_protocols"] == ["h3"]
    assert made["tls_params"]["tls_minimum_protocol_version"] == made["tls_params"]["tls_maximum_protocol_version"] == "TLSv1_3"
    assert [each["name"] for each in made["tls_certificate_sds_secret_configs"]] == ["obtained-auth.example.com"]


def test_infinite_timeout_is_zero() -> None:
    assert (seconds(float("inf")), seconds(7)) == ("0s", "7.000s")
