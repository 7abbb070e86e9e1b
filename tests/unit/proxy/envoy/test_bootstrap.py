"""What Envoy is started with leads to gate, and to nobody else."""

from pathlib import Path

from proxy.envoy.bootstrap import CLUSTERS, GATE, JUDGE, LISTENERS, bootstrap

MADE = bootstrap(Path("/files"), Path("/s/judge"), Path("/s/gate"), Path("/s/admin"))


def test_whoever_may_not_enter_the_directory_may_not_command_envoy() -> None:
    assert MADE["admin"]["address"] == {"pipe": {"path": "/s/admin", "mode": 0o600}}


def test_gate_is_reached_by_unix_sockets_alone() -> None:
    addresses = {
        cluster["name"]: cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
        for cluster in MADE["static_resources"]["clusters"]
    }
    assert addresses == {JUDGE: {"pipe": {"path": "/s/judge"}}, GATE: {"pipe": {"path": "/s/gate"}}}


def test_the_rest_is_read_from_files_that_are_watched() -> None:
    for key, name in (("lds_config", LISTENERS), ("cds_config", CLUSTERS)):
        source = MADE["dynamic_resources"][key]["path_config_source"]
        assert source == {"path": f"/files/{name}", "watched_directory": {"path": "/files"}}
