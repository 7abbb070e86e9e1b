"""`gate status` of a gate that runs: once, and live at a terminal."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.children import ROOT, clean_environment, free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.terminal import terminal
from tests.support.upstream import SampleUpstream

APP = "app.localhost"


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    builder = GateBuilder(provider.url).route(APP, to=upstream.url, name="wiki", allow_any_authenticated_user=True)
    builder.setting(metrics_address=f"127.0.0.1:{free_port()}")
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


async def test_status_shows_parts_routes_sessions_and_certificates(gate: RunningGate) -> None:
    async with gate.client() as client:
        assert (await sign_in(client, gate.url(APP, "/"), "alice")).status_code == 200
    command = [sys.executable, "manage.py", "status", "--at", str(gate.builder.settings["metrics_address"])]
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["data", "broker", "ok"] in [line[:3] for line in lines]
    (route,) = (line for line in lines if line[:1] == ["wiki"])
    assert route[-1] == "1/1"
    (head,) = (line for line in done.stdout.splitlines() if line.startswith("gate "))
    assert "ready" in head
    assert "1 sessions" in head


def test_live_it_goes_on_until_ctrl_c(gate: RunningGate) -> None:
    address = str(gate.builder.settings["metrics_address"])
    with terminal("manage.py", "status", "--watch", "--every", "0.2", "--at", address) as user:
        user.sees("data broker", times=3)
        user.interrupt()
        assert user.ended() == 130
