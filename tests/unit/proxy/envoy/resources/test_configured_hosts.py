"""Hosts by the kind of connection that their routes need."""

from pathlib import Path
from typing import Any

import pytest

from proxy.envoy.resources.configured_hosts import all_hosts, client_certificate_hosts, http3_hosts, tunnel_hosts
from tests.support.client_certificates import authority
from tests.support.options import make_options

TO: dict[str, Any] = {"to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
TUNNEL = {**TO, "to": "tcp://127.0.0.1:1"}
APP, AUTHENTICATE = "app.example.com", "auth.example.com"


@pytest.fixture
def certified(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "ca.pem").write_bytes(authority().pem)
    return {"from": f"https://{APP}", "path": "/secret", **TO, "tls_downstream_client_ca_file": str(tmp_path / "ca.pem")}


HERE = [{"allow": {"user": "a@example.com"}}, {"mode": "shadow", "deny": {"not": {"source_ip": "10.0.0.0/8"}}}]
PAGES = {"from": f"https://{APP}", **TO}


@pytest.mark.parametrize(
    ("more", "tunnels", "http3"),
    [
        ([], set(), {APP, AUTHENTICATE}),
        ([{"from": "tcp+https://db.example.com:5432", **TUNNEL}], {"db.example.com"}, {APP, AUTHENTICATE}),
        ([{"from": f"tcp+https://{APP}:22", **TUNNEL}], set(), {APP, AUTHENTICATE}),
        ([{"from": f"https://{APP}", "path": "/in", **TO, "allow_any_authenticated_user": False, "policy": HERE}], set(), {AUTHENTICATE}),
        ([{"from": f"https://{APP}", "path": "/grpc", **TO, "upstream_http2": True}], set(), {AUTHENTICATE}),
    ],
)
def test_by_their_routes(more: list[dict[str, Any]], tunnels: set[str], http3: set[str], tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[*more, PAGES], data_plane="envoy", http3=True, insecure_server=None, autocert=True)
    assert (tunnel_hosts(options), http3_hosts(options), client_certificate_hosts(options)) == (tunnels, http3, set())
    assert all_hosts(options) == {APP, AUTHENTICATE} | tunnels


def test_one_route_with_certificates_is_enough(certified: dict[str, Any], tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[certified, PAGES], data_plane="envoy", http3=True, insecure_server=None, autocert=True)
    assert client_certificate_hosts(options) == {APP}
    assert http3_hosts(options) == {AUTHENTICATE}


def test_http3_listener_is_disabled_by_default(tmp_path: Path) -> None:
    assert http3_hosts(make_options(tmp_path, policy=[PAGES], data_plane="envoy", insecure_server=None, autocert=True)) == set()
