"""The edge listener checks every request with gate, and fails closed."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from proxy.envoy.resources.bootstrap import ACME, PASSTHROUGH
from proxy.envoy.resources.edge_listener import edge_listener
from proxy.envoy.resources.ext_authz_filter import FILTER, FINALIZE_FILTER, ExtAuthzFilter
from proxy.envoy.resources.internal_headers import LOCAL_REPLY_REASON
from proxy.envoy.resources.response_filter import FILTER as ANSWERS
from tests.support.certs import certificate_files
from tests.support.client_certificates import authority
from tests.support.options import make_options

TOKEN = "t" * 43
USERS = {"allow_any_authenticated_user": True}
PAGES = {"from": "https://app.example.com", "to": "http://127.0.0.1:1", **USERS}


def made(directory: Path, **settings: Any) -> dict[str, Any]:
    options = make_options(directory, data_plane="envoy", **settings)
    return edge_listener(options, directory, ExtAuthzFilter.from_options(options, TOKEN, "m" * 43, "/log"))


def manager(chain: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = chain["filters"][0]["typed_config"]
    return found


@pytest.fixture
def with_tls(tmp_path: Path) -> dict[str, Any]:
    files = certificate_files(tmp_path, "auth.example.com")
    return {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}


def test_every_route_is_checked_first_and_fails_closed(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    (tmp_path / "ca.pem").write_bytes(authority().pem)
    chains = made(tmp_path, policy=[PAGES], client_ca_file=str(tmp_path / "ca.pem"), **with_tls)["filter_chains"]
    assert len(chains) == 3
    for chain in chains:
        filters = manager(chain)["http_filters"]
        assert [each["name"] for each in filters] == [FILTER, FINALIZE_FILTER, ANSWERS, "gate-trailers", "envoy.filters.http.router"]
        assert filters[0]["typed_config"]["failure_mode_allow"] is False
        assert not any("disabled" in each for each in filters)
        idle_timeout, unannounced, mapper, *others = manager(chain)["local_reply_config"]["mappers"]
        added = [each["header"]["key"] for local in (idle_timeout, unannounced) for each in local.get("headers_to_add", ())]
        assert LOCAL_REPLY_REASON not in added, "the script for answers leaves it as it is"
        assert all("status_code_filter" in other["filter"] for other in others)
        log, *_ = manager(chain)["access_log"]
        _, ends = log["filter"]["and_filter"]["filters"]
        assert mapper["filter"] in ends["or_filter"]["filters"]


@pytest.mark.parametrize(
    ("proxies", "http2", "streams"), [([], True, {100}), (["10.0.0.0/8"], False, {100}), (["10.0.0.0/8"], True, {100, 1})]
)
def test_trusted_proxy_connections_to_http2_upstreams_have_one_stream(
    proxies: list[str], http2: bool, streams: set[int], tmp_path: Path, with_tls: dict[str, Any]
) -> None:
    chains = made(tmp_path, policy=[PAGES | {"upstream_http2": http2}], trusted_proxies=proxies, **with_tls)["filter_chains"]
    found = {manager(chain)["http2_protocol_options"]["max_concurrent_streams"]: chain for chain in chains}
    assert set(found) == streams
    if 1 in streams:
        assert found[1]["filter_chain_match"] == {"source_prefix_ranges": [{"address_prefix": "10.0.0.0", "prefix_len": 8}]}


@pytest.mark.parametrize(("read", "looks"), [("30s", "5.000s"), ("1200ms", "0.200s"), ("0s", None)])
def test_envoy_logs_bodies_often_enough_to_find_slow_clients(read: str, looks: str | None, tmp_path: Path) -> None:
    (chain,) = made(tmp_path, timeout_read=read)["filter_chains"]
    assert manager(chain).get("access_log_options", {}).get("access_log_flush_interval") == looks


def test_a_route_knows_no_host_and_no_path(tmp_path: Path) -> None:
    (chain,) = made(tmp_path)["filter_chains"]
    (host,) = manager(chain)["route_config"]["virtual_hosts"]
    assert host["domains"] == ["*"]
    targets = [{key: value for key, value in route["match"].items() if key != "headers"} for route in host["routes"]]
    assert all(target in ({"prefix": "/"}, {"safe_regex": {"regex": ".*"}}, {"connect_matcher": {}}) for target in targets)


def test_client_certificates_are_requested_per_host_without_resumption(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    (tmp_path / "ca.pem").write_bytes(authority().pem)
    chains = made(tmp_path, policy=[PAGES], client_ca_file=str(tmp_path / "ca.pem"), **with_tls)["filter_chains"]
    with_client_cert, others, nameless = chains
    assert with_client_cert["filter_chain_match"] == {"server_names": ["app.example.com"]}
    assert others["filter_chain_match"] == {"server_names": ["auth.example.com"]}
    assert "filter_chain_match" not in nameless
    for chain in (with_client_cert, nameless):
        context = chain["transport_socket"]["typed_config"]
        assert context["common_tls_context"]["validation_context"]["trust_chain_verification"] == "ACCEPT_UNTRUSTED"
        assert context["disable_stateless_session_resumption"]
        assert context["disable_stateful_session_resumption"]
        assert manager(chain)["forward_client_cert_details"] == "SANITIZE_SET"
    assert "validation_context" not in others["transport_socket"]["typed_config"]["common_tls_context"]
    assert manager(others)["forward_client_cert_details"] == "SANITIZE"


TUNNELS = [
    {"from": "tcp+https://db.example.com:5432", "to": "tcp://127.0.0.1:1", "idle_timeout": "9h", **USERS},
    {"from": "tcp+https://db.example.com:6379", "to": "tcp://127.0.0.1:1", **USERS},
    {"from": "tcp+https://both.example.com:22", "to": "tcp://127.0.0.1:1", **USERS},
    {"from": "https://both.example.com", "to": "http://127.0.0.1:1", **USERS},
]


def test_tunnel_only_hosts_are_passed_through(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    all_clients, tunnels = made(tmp_path, policy=TUNNELS, **with_tls)["filter_chains"]
    assert "filter_chain_match" not in all_clients
    assert tunnels["filter_chain_match"] == {"server_names": ["db.example.com"]}
    (proxy,) = tunnels["filters"]
    assert "transport_socket" not in tunnels
    assert (proxy["typed_config"]["cluster"], proxy["typed_config"]["idle_timeout"]) == (PASSTHROUGH, f"{9 * 3600 + 60}.000s")


def test_unlimited_idle_is_not_reset(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    for settings in ({"policy": [TUNNELS[0] | {"idle_timeout": "0s"}]}, {"policy": TUNNELS, "timeout_idle": "0s"}):
        (proxy,) = made(tmp_path, **settings, **with_tls)["filter_chains"][-1]["filters"]
        assert proxy["typed_config"]["idle_timeout"] == "0.000s"


def test_new_host_does_not_close_other_tunnels(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    """Envoy ends the connections of a chain that has changed."""
    another = {"from": "tcp+https://new.example.com:22", "to": "tcp://127.0.0.1:1", "idle_timeout": "0s", **USERS}
    before, after = (made(tmp_path, policy=policy, **with_tls)["filter_chains"] for policy in (TUNNELS, [*TUNNELS, another]))
    assert after[: len(before)] == before


def test_host_with_client_certificates_has_one_chain(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    (tmp_path / "ca.pem").write_bytes(authority().pem)
    settings = {"policy": TUNNELS, "client_ca_file": str(tmp_path / "ca.pem"), "autocert": True}
    chains = made(tmp_path, **settings, **with_tls)["filter_chains"]
    names = [chain.get("filter_chain_match", {}).get("server_names") for chain in chains]
    assert names == [["both.example.com"], ["auth.example.com"], None, ["db.example.com"]] * 2


def test_without_tls_no_host_is_known_before_the_request(tmp_path: Path) -> None:
    assert len(made(tmp_path, policy=TUNNELS)["filter_chains"]) == 1


def test_a_client_that_vanished_is_looked_for(tmp_path: Path) -> None:
    assert {"level": socket.SOL_SOCKET, "name": socket.SO_KEEPALIVE, "int_value": 1} in made(tmp_path)["socket_options"]


def test_keys_are_only_in_secrets(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    options = make_options(tmp_path, data_plane="envoy", **with_tls)
    key = options.certificate_pairs[0].key.reveal().decode()
    assert key not in json.dumps(edge_listener(options, tmp_path, ExtAuthzFilter.from_options(options, TOKEN, "m" * 43, "/log"))).replace(
        "\\n", "\n"
    )


def test_acme_validation_of_any_host_reaches_gate(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    (tmp_path / "ca.pem").write_bytes(authority().pem)
    chains = made(tmp_path, policy=[PAGES], autocert=True, client_ca_file=str(tmp_path / "ca.pem"), **with_tls)["filter_chains"]
    for chain, proofs in zip(chains[:3], chains[3:], strict=True):
        assert proofs["filter_chain_match"] == chain.get("filter_chain_match", {}) | {"application_protocols": ["acme-tls/1"]}
        (proxy,) = proofs["filters"]
        assert proxy["typed_config"]["cluster"] == ACME
        assert "transport_socket" not in proofs


def test_the_listener_shows_a_certificate_for_each_host_of_autocert(tmp_path: Path) -> None:
    route = {"from": "https://app.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
    chain = made(tmp_path, insecure_server=None, autocert=True, policy=[route])["filter_chains"][0]
    secrets = chain["transport_socket"]["typed_config"]["common_tls_context"]["tls_certificate_sds_secret_configs"]
    assert [each["name"] for each in secrets] == ["obtained-auth.example.com", "obtained-app.example.com"]
    assert len({each["sds_config"]["path_config_source"]["path"] for each in secrets}) == 2


def test_proxy_header_is_read_before_tls(tmp_path: Path, with_tls: dict[str, Any]) -> None:
    names = [each["name"] for each in made(tmp_path, use_proxy_protocol=True, **with_tls)["listener_filters"]]
    assert names == ["envoy.filters.listener.proxy_protocol", "envoy.filters.listener.tls_inspector"]


def test_listener_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    (chain,) = made(tmp_path, timeout_read="7s", timeout_idle="0s")["filter_chains"]
    assert manager(chain)["request_headers_timeout"] == "7.000s"
    assert manager(chain)["common_http_protocol_options"]["idle_timeout"] == "0s"


def test_a_silence_is_bounded_by_envoy_but_where_gate_knows_better(tmp_path: Path) -> None:
    (chain,) = made(tmp_path, timeout_idle="9s")["filter_chains"]
    assert (manager(chain)["stream_idle_timeout"], manager(chain)["stream_flush_timeout"]) == ("9.000s", "9.000s")
    (host,) = manager(chain)["route_config"]["virtual_hosts"]
    assert {route["route"]["flush_timeout"] for route in host["routes"] if "route" in route} == {"9.000s"}
