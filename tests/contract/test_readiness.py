"""`/readyz` reports each failure on both data planes and all stores, and recovers when the failure ends."""

import os
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import yaml

from examples.demo.certificates import Authority
from tests.support.certs import PERMITTED
from tests.support.children import clean_environment, free_port, wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import run
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder, RunningGate
from tests.support.network_faults import FaultyLink
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.reloading import reload, replace
from tests.support.upstream import SampleUpstream

HOST = "open.localhost"
PUBLIC = {"allow_public_unauthenticated_access": True}
STALENESS = 3
# Where none is given, httpx makes one for each client, which takes longer than to ask.
UNUSED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass
class Stage:
    gate: RunningGate
    provider: DevelopmentProvider
    line: FaultyLink | None  # to the store
    plane: str

    @property
    def address(self) -> str:
        return str(self.gate.builder.settings["metrics_address"])

    def requested(self, query: str = "?format=json", **headers: str) -> httpx.Response:
        return httpx.get(f"http://{self.address}/readyz{query}", headers=headers, trust_env=False, timeout=10, verify=UNUSED)

    def comes_to(self, status: int, part: str, state: str, reason: str = "") -> None:
        def is_there() -> bool:
            answer = self.requested()
            received = answer.json()
            found = received["components"].get(part, {"state": "absent", "reason": ""})
            assert (answer.status_code, answer.json()["ready"]) in ((200, True), (503, False))
            return (answer.status_code, found["state"], reason in found["reason"]) == (status, state, True)

        try:
            wait_until(is_there, f"{status}, {part} {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.requested('').text}") from None

    def public(self, path: str) -> httpx.Response:
        with httpx.Client(verify=False, trust_env=False, timeout=10) as client:
            url = f"https://127.0.0.1:{self.gate.port}{path}"
            return client.get(url, headers={"Host": f"{HOST}:{self.gate.port}"}, extensions={"sni_hostname": HOST})


def builder_of(provider: DevelopmentProvider, upstream: SampleUpstream, plane: str) -> GateBuilder:
    builder = GateBuilder(provider.url).setting(data_plane=plane, metrics_address=f"127.0.0.1:{free_port()}")
    return builder.route(HOST, to=upstream.url, **PUBLIC)


@pytest.fixture(
    scope="module",
    params=[(plane, store) for plane in ("embedded", "envoy") for store in ("memory", "kvstore", "postgresql")],
    ids="-".join,
)
def stage(
    request: pytest.FixtureRequest,
    provider: DevelopmentProvider,
    upstream: SampleUpstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    plane, store = request.param
    directory = tmp_path_factory.mktemp(plane)
    builder = builder_of(provider, upstream, plane).setting(session_staleness=f"{STALENESS}s")
    with ExitStack() as stack:
        line = None
        if store == "kvstore":
            line = FaultyLink(stack.enter_context(RedisServer(directory / "redis")).port)
            url = f"kvstore://localhost:{line.port}/0"
            builder.setting(databroker_storage_type="kvstore", databroker_storage_connection_string=url)
        elif store == "postgresql":
            server = stack.enter_context(PostgresServer())
            line = FaultyLink(server.port)
            builder.setting(databroker_storage_type="database", database_url=server.url.replace(str(server.port), str(line.port)))
        if line is not None:
            stack.enter_context(line)
        yield Stage(stack.enter_context(builder.start(directory)), provider, line, plane)


def test_healthy_gate_is_ready_in_text_and_json(stage: Stage) -> None:
    stage.comes_to(200, "provider", "ok")
    received = stage.requested().json()
    assert {part["state"] for part in received["components"].values()} == {"ok"}
    expected = {"config", "certificates", "data broker", "provider", "directory", *({"envoy"} & {stage.plane})}
    assert received["components"].keys() == expected
    assert stage.requested("", Accept="application/json").json()["ready"] is True
    text = stage.requested("")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.text.splitlines()[0] == "ready"
    assert {line.partition(":")[0] for line in text.text.splitlines()[1:]} == expected
    assert (stage.public("/.gate/readyz").text, stage.public("/.gate/readyz").status_code) == ("ready\n", 200)


def test_a_store_that_is_lost_makes_it_not_ready_until_it_is_back(stage: Stage) -> None:
    if stage.line is None:  # the memory of this process can't be away
        stage.comes_to(200, "data broker", "ok")
        return
    stage.line.cut()
    stage.comes_to(503, "data broker", "failing", "no change stream since ")
    public = stage.public("/.gate/readyz")
    assert (public.status_code, public.text) == (503, "not ready\n")
    assert stage.public("/ping").status_code == 200
    stage.line.restore()
    stage.comes_to(200, "data broker", "ok")


def test_refused_configuration_degrades_readiness(stage: Stage) -> None:
    valid = stage.gate.config_file.read_bytes()
    replace(stage.gate.config_file, yaml.safe_dump(yaml.safe_load(valid) | {"no_such_key": 1}).encode())
    stage.comes_to(200, "config", "degraded", "no_such_key")
    assert stage.gate.builder.settings["shared_secret"] not in stage.requested("").text
    replace(stage.gate.config_file, valid)
    stage.comes_to(200, "config", "ok")


def test_expired_certificate_degrades_readiness(stage: Stage) -> None:
    files, now = stage.gate.certificates, datetime.now(UTC)
    before = {path: path.read_bytes() for path in (files.key, files.certificate)}
    authority = Authority.create("another", permitted=PERMITTED, now=now)
    expired = authority.issue(AUTHENTICATE_HOST, HOST, now=now - timedelta(days=30), lifetime=timedelta(days=29))
    replace(files.key, expired.key_pem)
    replace(files.certificate, expired.certificate_pem + authority.certificate_pem)
    stage.comes_to(200, "certificates", "degraded", "certificate_file expired at ")
    for path, content in before.items():
        replace(path, content)
    stage.comes_to(200, "certificates", "ok")


def test_unavailable_provider_degrades_readiness(stage: Stage) -> None:
    reload(stage.gate, idp_provider_url=f"http://localhost:{free_port()}")
    stage.comes_to(200, "provider", "degraded", "sign-in is unavailable since ")
    assert stage.public("/").status_code == 200
    reload(stage.gate, idp_provider_url=stage.provider.url)
    stage.comes_to(200, "provider", "ok")


def test_without_a_live_envoy_it_is_not_ready(stage: Stage) -> None:
    if stage.plane != "envoy":
        assert "envoy" not in stage.requested().json()["components"]
        return
    for child in children_of(stage.gate.child.process.pid):
        if "envoy/_bin" in command_of(child) or command_of(child).split("\0")[0].endswith("/envoy"):
            os.kill(child, signal.SIGKILL)
    stage.comes_to(503, "envoy", "failing")
    stage.comes_to(200, "envoy", "ok")
    assert stage.public("/").status_code == 200


def children_of(pid: int) -> list[int]:
    """Children and theirs."""
    found = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return found + [each for child in found for each in children_of(child)]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def checkready(*arguments: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return run("manage.py", "checkready", *arguments, environment=clean_environment(**environment))


@pytest.mark.parametrize("plane", ["embedded", "envoy"])
def test_stopping_process_is_not_ready_but_serves_requests(
    plane: str, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    builder = builder_of(provider, upstream, plane).setting(shutdown_delay="10m")
    with builder.start(tmp_path) as gate:
        stage = Stage(gate, provider, None, plane)
        stage.comes_to(200, "provider", "ok")
        for done in (checkready("-config", gate.config_file), checkready(METRICS_ADDRESS=stage.address)):
            assert (done.returncode, done.stdout.splitlines()[0]) == (0, "ready"), done.stderr
        gate.child.process.send_signal(signal.SIGTERM)
        stage.comes_to(503, "process", "failing", "shutting down")
        assert stage.public("/").status_code == 200
        assert stage.public("/.gate/readyz").status_code == 503
        done = checkready("--at", stage.address)
        assert (done.returncode, "process: failing: shutting down" in done.stdout) == (1, True)
        assert gate.stop() == 0
    done = checkready("--at", stage.address)
    assert (done.returncode, f"no response from {stage.address}" in done.stdout) == (1, True)
