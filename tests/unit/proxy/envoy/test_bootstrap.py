"""What Envoy is started with leads to gate, and to nobody else."""

from pathlib import Path

from proxy.envoy.bootstrap import ACME, CLUSTERS, GATE, JUDGE, LISTENERS, EnvoyLimits, bootstrap

MADE = bootstrap(
    Path("/files"), Path("/s/judge"), Path("/s/gate"), Path("/s/acme"), Path("/s/admin"), EnvoyLimits(heap=512, connections=77)
)


def test_whoever_may_not_enter_the_directory_may_not_command_envoy() -> None:
    assert MADE["admin"]["address"] == {"pipe": {"path": "/s/admin", "mode": 0o600}}


def test_gate_is_reached_by_unix_sockets_alone() -> None:
    addresses = {
        cluster["name"]: cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
        for cluster in MADE["static_resources"]["clusters"]
    }
    assert addresses == {name: {"pipe": {"path": f"/s/{file}"}} for name, file in ((JUDGE, "judge"), (GATE, "gate"), (ACME, "acme"))}


def test_the_rest_is_read_from_files_that_are_watched() -> None:
    for key, name in (("lds_config", LISTENERS), ("cds_config", CLUSTERS)):
        source = MADE["dynamic_resources"][key]["path_config_source"]
        assert source == {"path": f"/files/{name}"}


def test_memory_and_connections_are_bounded() -> None:
    overload = MADE["overload_manager"]
    heap, connections = (monitor["typed_config"] for monitor in overload["resource_monitors"])
    assert (heap["max_heap_size_bytes"], connections["max_active_downstream_connections"]) == (512 * 1024 * 1024, 77)
    actions = [action["name"].rpartition(".")[2] for action in overload["actions"]]
    assert {"shrink_heap", "reset_high_memory_stream", "stop_accepting_requests", "stop_accepting_connections"} <= set(actions)
    assert MADE["admin"]["ignore_global_conn_limit"], "gate still learns how it is"
