"""Envoy's bootstrap configuration only has clusters of gate."""

from pathlib import Path

import pytest

from proxy.envoy.resources.bootstrap import (
    ACME,
    CLUSTERS,
    EXT_AUTHZ,
    FAILOVER,
    GATE,
    LISTENERS,
    MAX_PENDING,
    PASSTHROUGH,
    EnvoyLimits,
    GateSockets,
    bootstrap,
)

MADE = bootstrap(Path("/files"), GateSockets.in_directory(Path("/s")), Path("/s/admin"), EnvoyLimits(heap=512, connections=77))


def test_control_socket_is_private() -> None:
    assert MADE["admin"]["address"] == {"pipe": {"path": "/s/admin", "mode": 0o600}}


def test_gate_clusters_use_unix_sockets() -> None:
    addresses = {
        cluster["name"]: cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
        for cluster in MADE["static_resources"]["clusters"]
    }
    files = {EXT_AUTHZ: "judge", GATE: "gate", ACME: "acme", PASSTHROUGH: "unread", FAILOVER: "unconnected"}
    assert addresses == {name: {"pipe": {"path": f"/s/{file}"}} for name, file in files.items()}


def test_passthrough_sends_proxy_protocol_v2() -> None:
    (passthrough,) = (each for each in MADE["static_resources"]["clusters"] if each["name"] == PASSTHROUGH)
    assert passthrough["transport_socket"]["typed_config"]["config"] == {"version": "V2"}


def test_dynamic_resources_are_read_from_watched_files() -> None:
    for key, name in (("lds_config", LISTENERS), ("cds_config", CLUSTERS)):
        source = MADE["dynamic_resources"][key]["path_config_source"]
        assert source == {"path": f"/files/{name}"}


def test_chunks_are_read_strictly() -> None:
    (layer,) = MADE["layered_runtime"]["layers"]
    assert layer["static_layer"]["envoy.reloadable_features.strict_chunk_parsing"] is True


def test_memory_and_connections_are_bounded() -> None:
    overload = MADE["overload_manager"]
    heap, connections = (monitor["typed_config"] for monitor in overload["resource_monitors"])
    assert (heap["max_heap_size_bytes"], connections["max_active_downstream_connections"]) == (512 * 1024 * 1024, 77)
    actions = [action["name"].rpartition(".")[2] for action in overload["actions"]]
    assert {"shrink_heap", "reset_high_memory_stream", "stop_accepting_requests", "stop_accepting_connections"} <= set(actions)
    assert MADE["admin"]["ignore_global_conn_limit"], "gate still learns how it is"


@pytest.mark.parametrize(
    ("descriptors", "connections", "to_ext_authz", "to_gate"),
    [(65_536, 20_000, 256, 16_384), (20_000, 7_324, 256, 5_000), (1_500, 421, 187, 375), (700, 171, 87, 175), (100, 2, 12, 25)],
)
def test_descriptors_are_enough_for_all_connections_at_once(descriptors: int, connections: int, to_ext_authz: int, to_gate: int) -> None:
    limits = EnvoyLimits.within(descriptors, 512, 20_000, 2)
    assert (limits.connections, limits.to_ext_authz, limits.to_gate) == (connections, to_ext_authz, to_gate)
    if descriptors > 200:
        assert limits.connections + limits.to_ext_authz + limits.to_gate + 2 * limits.to_upstream + 64 <= descriptors
    assert limits.to_ext_authz + 2 * limits.to_gate < descriptors * 3 / 4, "gate accepts them all"


def test_connections_to_gate_are_bounded() -> None:
    made = bootstrap(Path("/files"), GateSockets.in_directory(Path("/s")), Path("/s/admin"), EnvoyLimits(1, 2, to_ext_authz=3, to_gate=4))
    found = {each["name"]: each["circuit_breakers"]["thresholds"][0] for each in made["static_resources"]["clusters"]}
    assert {name: threshold["max_connections"] for name, threshold in found.items()} == {
        **dict.fromkeys((GATE, ACME, PASSTHROUGH, FAILOVER), 4),
        EXT_AUTHZ: 3,
    }
    assert all(threshold["max_pending_requests"] == MAX_PENDING for threshold in found.values())
