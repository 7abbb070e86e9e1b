"""What Envoy is started with leads to gate, and to nobody else."""

from pathlib import Path

from proxy.envoy.resources.bootstrap import ACME, CLUSTERS, GATE, JUDGE, LISTENERS, UNCONNECTED, UNREAD, EnvoyLimits, GateSockets, bootstrap

MADE = bootstrap(Path("/files"), GateSockets.below(Path("/s")), Path("/s/admin"), EnvoyLimits(heap=512, connections=77))


def test_whoever_may_not_enter_the_directory_may_not_command_envoy() -> None:
    assert MADE["admin"]["address"] == {"pipe": {"path": "/s/admin", "mode": 0o600}}


def test_gate_is_reached_by_unix_sockets_alone() -> None:
    addresses = {
        cluster["name"]: cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
        for cluster in MADE["static_resources"]["clusters"]
    }
    files = {JUDGE: "judge", GATE: "gate", ACME: "acme", UNREAD: "unread", UNCONNECTED: "unconnected"}
    assert addresses == {name: {"pipe": {"path": f"/s/{file}"}} for name, file in files.items()}


def test_a_connection_that_envoy_has_not_read_begins_with_its_client() -> None:
    (unread,) = (each for each in MADE["static_resources"]["clusters"] if each["name"] == UNREAD)
    assert unread["transport_socket"]["typed_config"]["config"] == {"version": "V2"}


def test_the_rest_is_read_from_files_that_are_watched() -> None:
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
