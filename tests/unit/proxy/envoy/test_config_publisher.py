"""Publication of Envoy's configuration: waiting, rejection and retries."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.options import Options
from foundation.errors import ConfigError
from proxy.envoy import config_publisher
from proxy.envoy.config_publisher import EnvoyConfigPublisher
from proxy.envoy.proxied.active_requests import ActiveRequests
from proxy.envoy.resources import file_discovery
from proxy.envoy.resources.bootstrap import Json
from proxy.envoy.resources.certificate_secrets import EnvoyCertificates
from proxy.envoy.resources.file_discovery import ConfigurationRejected, Discovery, DiscoveryTimeout
from proxy.listener.tls.acme_state import AcmeState
from proxy.upstreams.outgoing_request import Upstream
from tests.support.client_certificates import authority
from tests.support.eventually import eventually
from tests.support.options import make_options
from tests.unit.proxy.envoy.stage import NoConnections

OPEN = {"from": "https://app.example.com", "allow_public_unauthenticated_access": True}


class AnswersOfEnvoy:
    """Fake discovery that returns `said` in turn for each wait; None means applied, and the last one repeats."""

    def __init__(self, discovery: Discovery):
        self._discovery = discovery
        self.payload: list[Exception | None] = [None]
        self.refuses = "no such upstream"  # in what is waited for
        self.waited = 0

    async def wait_applied(self, expected: dict[str, str], **_: bool) -> None:
        await asyncio.sleep(0)
        self.waited += 1
        if self.refuses in str(expected):
            raise ConfigurationRejected("no such authority")
        answer = self.payload.pop(0) if len(self.payload) > 1 else self.payload[0]
        if answer is not None:
            raise answer
        self._discovery.applied_clusters |= frozenset(expected)


class Recorder:
    """A configuration whose Envoy says what a test wants."""

    def __init__(self, directory: Path, listening: socket.socket):
        self.directory = directory
        files = Discovery(directory, directory / "admin")
        self.envoy = AnswersOfEnvoy(files)
        files.wait_applied = self.envoy.wait_applied  # type: ignore[assignment, method-assign]
        self.forwarded = ActiveRequests(NoConnections(), lambda: 0.0)
        certificates = EnvoyCertificates(AcmeState(), listening)
        self.configuration = EnvoyConfigPublisher(self.options(1000), files, certificates, self.forwarded, self._listeners, 1000)
        self.configuration.publish()

    def options(self, *ports: int, headers: str = "", **of_route: Any) -> Options:
        policy = [{**OPEN, "prefix": f"/{port}/", "to": f"{of_route.get('scheme', 'http')}://127.0.0.1:{port}"} for port in ports]
        more = {key: value for key, value in of_route.items() if key != "scheme"}
        settings = {"headers": {"X-Of": headers}} if headers else {}
        return make_options(self.directory, data_plane="envoy", policy=[{**route, **more} for route in policy], **settings)

    def _listeners(self, options: Options) -> list[Json]:
        return [{"name": "edge", "of": dict(options.headers)}]

    def ports(self) -> set[int]:
        """Published upstreams."""
        resources = json.loads((self.directory / "clusters.json").read_text())["resources"]
        return {int(json.dumps(each["load_assignment"]).partition('"port_value": ')[2].partition("}")[0]) for each in resources}

    async def settled(self) -> None:
        await eventually(lambda: self.configuration._retry_task is None or self.configuration._retry_task.done())

    def knows(self, options: Options) -> bool:
        (route,) = options.policy
        return self.configuration.find_cluster(Upstream.build(route, 0), route) is not None


@pytest.fixture
def reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.setattr(config_publisher, "RETRY_INTERVAL", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Recorder(tmp_path, listening)


async def test_unchanged_configuration_is_not_published(reported: Recorder) -> None:
    before = {path.name: path.stat().st_ino for path in reported.directory.glob("*.json")}
    assert await reported.configuration.prepare(reported.options(1000, allow_websockets=True)) == ""
    assert reported.envoy.waited == 0
    assert {path.name: path.stat().st_ino for path in reported.directory.glob("*.json")} == before


async def test_new_upstream_is_forwarded_by_gate_until_applied(reported: Recorder) -> None:
    changed = reported.options(1001)
    assert await reported.configuration.prepare(changed) == ""
    assert (reported.envoy.waited, reported.ports(), reported.knows(changed)) == (0, {1000}, False)
    await eventually(lambda: reported.knows(changed))
    assert (reported.configuration.pending_reason, reported.ports()) == ("", {1000, 1001})


async def test_successive_reloads_publish_clusters_once(reported: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(config_publisher, "RETRY_INTERVAL", 1000.0)
        for port in (1001, 1002, 1003):
            changed = reported.options(port)
            await reported.configuration.prepare(changed)
        await asyncio.sleep(0)
        assert reported.ports() == {1000}
        reported.configuration.stop()
        await reported.settled()
    reported.configuration._schedule_retry()
    await eventually(lambda: reported.knows(changed))
    assert (reported.envoy.waited, reported.ports()) == (1, {1000, 1001, 1002, 1003})
    await reported.settled()
    await reported.configuration.prepare(reported.options(1003, allow_websockets=True))
    await eventually(lambda: reported.ports() == {1003})
    assert reported.knows(changed)


async def test_failed_write_is_retried(reported: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(file_discovery, "write", full)
        changed = reported.options(1001)
        await reported.configuration.prepare(changed)
        await eventually(lambda: reported.configuration.pending_reason == "no space")
    assert reported.knows(reported.options(1000)) is False
    await eventually(lambda: reported.knows(changed))
    assert (reported.configuration.pending_reason, reported.ports()) == ("", {1000, 1001})


async def test_waits_for_operator_certificates_and_listeners(reported: Recorder, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(authority("upstreams").pem)
    for number, options in enumerate(
        (reported.options(1001, scheme="https", tls_custom_ca_file=str(tmp_path / "ca.pem")), reported.options(1000, headers="x"))
    ):
        await reported.configuration.prepare(options)
        assert reported.envoy.waited == number + 1


async def test_rejected_configuration_is_rolled_back_pending_one_stays(reported: Recorder) -> None:
    assert await reported.configuration.prepare(reported.options(1001, headers="1")) == ""
    await eventually(lambda: 1001 in reported.ports())
    reported.envoy.payload = [ConfigurationRejected("cannot bind")]
    with pytest.raises(ConfigError, match="cannot bind"):
        await reported.configuration.prepare(reported.options(1002, headers="2"))
    assert dict(reported.configuration.options.headers)["X-Of"] == "1"
    reported.envoy.payload = [DiscoveryTimeout("not in time")]
    assert await reported.configuration.prepare(reported.options(1003, headers="3")) == "not in time"
    await eventually(lambda: {1001, 1003} <= reported.ports())
    assert 1002 not in reported.ports()
    reported.envoy.payload = [OSError("no descriptors")]
    with pytest.raises(ConfigError, match="cannot publish the configuration"):
        await reported.configuration.prepare(reported.options(1004, headers="4"))
    assert dict(reported.configuration.options.headers)["X-Of"] == "3"
    reported.configuration.stop()


async def test_rejected_cluster_is_removed_during_publish(reported: Recorder, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(authority("upstreams").pem)
    reported.envoy.refuses = '"port_value": 1002}'
    await reported.configuration.prepare(reported.options(1001))
    with pytest.raises(ConfigError, match="no such authority"):
        await reported.configuration.prepare(reported.options(1002, scheme="https", tls_custom_ca_file=str(tmp_path / "ca.pem")))
    await eventually(lambda: reported.knows(reported.options(1001)))
    await reported.settled()
    assert (reported.ports(), reported.configuration.pending_reason) == ({1000, 1001}, "")


async def test_rejected_cluster_is_forwarded_by_gate_and_reported(reported: Recorder) -> None:
    reported.envoy.payload = [ConfigurationRejected("no such thing")]
    changed = reported.options(1001)
    await reported.configuration.prepare(changed)
    await eventually(lambda: reported.configuration.pending_reason == "no such thing")
    assert not reported.knows(changed)
    assert await reported.configuration.prepare(changed) == "no such thing", "the next reload reports it, too"
    reported.envoy.payload = [None]
    await eventually(lambda: reported.configuration.pending_reason == "")
    assert reported.knows(changed)


async def test_rollback_publishes_previous_without_waiting(reported: Recorder) -> None:
    await reported.configuration.prepare(reported.options(1001))
    reported.configuration.rollback()
    assert reported.knows(reported.options(1000))
    assert not reported.knows(reported.options(1001))


async def test_cluster_of_incomplete_body_is_retained(reported: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    (route,) = reported.configuration.options.policy
    used = reported.configuration.find_cluster(Upstream.build(route, 0), route)
    monkeypatch.setattr(reported.forwarded, "clusters", lambda: {used})
    for port in (1001, 1002, 1003):
        await reported.configuration.prepare(reported.options(port))
        await eventually(lambda port=port: {1000, port} <= reported.ports())  # type: ignore[misc]
        await reported.settled()
    monkeypatch.setattr(reported.forwarded, "clusters", lambda: set[str]())
    await reported.configuration.prepare(reported.options(1004))
    await eventually(lambda: reported.ports() == {1003, 1004})
    reported.configuration.stop()


def test_repr_has_its_directory(reported: Recorder) -> None:
    assert repr(reported.configuration) == "<EnvoyConfigPublisher <EnvoyClusters of 1 upstreams>>"
