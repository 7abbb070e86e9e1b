"""HTTP/3 goes to gate only, for eligible hosts, and is advertised over TCP."""

from pathlib import Path
from typing import Any

import pytest

from proxy.envoy.resources.bootstrap import GATE
from proxy.envoy.resources.edge_listener import edge_listener
from proxy.envoy.resources.ext_authz_filter import ExtAuthzFilter
from proxy.envoy.resources.http3_listener import http3_listener
from proxy.envoy.resources.internal_headers import AUTHORIZED, PREFIX
from tests.support.certs import certificate_files
from tests.support.client_certificates import authority
from tests.support.options import make_options

MARK = "m" * 43
TO = {"to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
PAGES, CERTIFIED = {"from": "https://app.example.com", **TO}, {"from": "https://certified.example.com", **TO}
GRPC = {"from": "https://grpc.example.com", **TO, "upstream_http2": True}
OTHERS = ["certified.example.com", "db.example.com", "grpc.example.com"]
TCP = {"from": "tcp+https://db.example.com:5432", "to": "tcp://127.0.0.1:1", "allow_any_authenticated_user": True}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    files = certificate_files(tmp_path, "auth.example.com")
    certified = CERTIFIED | {"tls_downstream_client_ca_file": str(tmp_path / "ca.pem")}
    (tmp_path / "ca.pem").write_bytes(authority().pem)
    return {
        "data_plane": "envoy",
        "http3": True,
        "insecure_server": None,
        "certificate_file": str(files.certificate),
        "certificate_key_file": str(files.key),
        "policy": [PAGES, certified, GRPC, TCP],
    }


def test_http3_requests_go_to_gate_with_the_secret(tmp_path: Path, settings: dict[str, Any]) -> None:
    made = http3_listener(make_options(tmp_path, **settings), tmp_path, MARK, "/log")
    assert made is not None
    (chain,) = made["filter_chains"]
    assert chain["filter_chain_match"] == {"server_names": ["app.example.com", "auth.example.com"]}
    manager = chain["filters"][0]["typed_config"]
    host, others = manager["route_config"]["virtual_hosts"]
    assert host["domains"] == ["app.example.com", "auth.example.com"]
    assert (others["domains"], [route.get("direct_response") for route in others["routes"]]) == ([*OTHERS, "*"], [{"status": 421}])
    assert {route["route"]["cluster"] for route in host["routes"]} == {GATE}
    for route in host["routes"]:
        (secret_header,) = route["request_headers_to_add"]
        assert (secret_header["header"], secret_header["append_action"]) == (
            {"key": AUTHORIZED, "value": MARK},
            "OVERWRITE_IF_EXISTS_OR_ADD",
        )
    assert [each["name"] for each in manager["http_filters"]] == ["envoy.filters.http.router"]
    (early,) = manager["early_header_mutation_extensions"]
    assert PREFIX in str(early)
    assert chain["transport_socket"]["typed_config"]["enable_early_data"] is False


def test_alt_svc_is_sent_only_to_eligible_hosts(tmp_path: Path, settings: dict[str, Any]) -> None:
    settings["authenticate_service_url"] = "https://auth.example.com:9443"
    reported = {}
    for chain in chains(tmp_path, settings):
        if "transport_socket" in chain:
            names = tuple(chain.get("filter_chain_match", {}).get("server_names", ["?"]))
            secret_header = chain["filters"][0]["typed_config"]["route_config"].get("response_headers_to_add", [])
            reported[names] = [each["header"]["value"] for each in secret_header]
    assert reported == {
        ("app.example.com", "auth.example.com"): ['h3=":9443"; ma=86400'],
        ("certified.example.com",): [],
        ("grpc.example.com",): [],
        ("?",): [],
    }


def chains(directory: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    options = make_options(directory, **settings)
    found: list[dict[str, Any]] = edge_listener(options, directory, ExtAuthzFilter.from_options(options, "t" * 43, MARK, "/log"))[
        "filter_chains"
    ]
    return found


def test_http3_is_disabled_by_default(tmp_path: Path, settings: dict[str, Any]) -> None:
    del settings["http3"]
    assert http3_listener(make_options(tmp_path, **settings), tmp_path, MARK, "/log") is None
    assert "h3=" not in str(chains(tmp_path, settings))
