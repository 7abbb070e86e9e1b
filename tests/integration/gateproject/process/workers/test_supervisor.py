"""Several processes are one command: one that dies is started again, and all end together."""

import asyncio
import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.certs import certificate_files
from tests.support.children import clean_environment, free_port, wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import manage, python
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.upstream import SampleUpstream
from tests.support.workers import HTML, WORKERS, client_for, metric, metrics_for, on_each, processes


async def test_dead_worker_is_restarted(gate: RunningGate, metrics_port: int) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "alice")
        stored = httpx.Cookies(client.cookies)
    counted = metric(metrics_for(metrics_port), "http_server_requests_total")
    async with client_for(gate, 1, stored) as of_first, client_for(gate, 2, stored) as of_second:
        os.kill(processes(gate)[1], signal.SIGKILL)
        ended = gate.wait_for_event("worker exited")
        assert (ended["worker_number"], ended["signal"], ended["worker"]) == (2, "SIGKILL", 1)
        assert (await of_first.get(gate.url("app.localhost"), headers=HTML)).status_code == 200
        with pytest.raises(httpx.TransportError):
            await of_second.get(gate.url("app.localhost"), headers=HTML, extensions={"timeout": {"connect": 0.0}})
    assert await on_each(gate, stored) == [200, 200]
    page = metrics_for(metrics_port)
    assert metric(page, "gate_worker_exits_total") == 1
    assert metric(page, "http_server_requests_total") >= counted
    assert metric(page, "gate_workers_serving") == WORKERS
    ready = httpx.get(f"http://127.0.0.1:{metrics_port}/readyz?format=json", trust_env=False)
    assert (ready.status_code, ready.json()["components"]["workers"]) == (200, {"state": "ok", "reason": ""})


async def test_gate_exits_with_its_first_process(gate: RunningGate) -> None:
    os.kill(processes(gate)[0], signal.SIGKILL)
    assert gate.child.ended() == 1
    (line,) = [entry for entry in gate.log if entry["event"] == "primary process exited"]
    assert line["signal"] == "SIGKILL"


async def test_all_end_with_the_command(gate: RunningGate) -> None:
    all_of_them = processes(gate)
    gate.child.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{id}").exists() for id in all_of_them), "no process is left")


async def test_a_stop_lets_the_requests_of_all_end(gate: RunningGate, upstream: SampleUpstream) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        async with client_for(gate, 1, client.cookies) as one, client_for(gate, 2, client.cookies) as other:
            requested = [asyncio.create_task(each.get(gate.url("app.localhost", "/slow?seconds=1"), headers=HTML)) for each in (one, other)]
            await asyncio.sleep(0.3)
            gate.child.process.send_signal(signal.SIGTERM)
            assert [(await each).status_code for each in requested] == [200, 200]
    assert await asyncio.to_thread(gate.child.ended) == 0
    assert sum(entry["event"] == "gate stopped" for entry in gate.log) == WORKERS


def test_two_gates_never_share_a_port(gate: RunningGate, tmp_path: Path) -> None:
    with manage("rungate", "-config", gate.config_file) as second:
        assert second.process.wait(30) == 1
    assert "startup failed" in second.output
    assert f"can't listen on 127.0.0.1:{gate.port}" in second.output
    assert "Traceback" not in second.output


def test_a_port_of_the_first_that_is_taken_starts_nothing(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    taken = urlsplit(upstream.url).netloc
    builder = GateBuilder(provider.url).route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
    builder.setting(workers=WORKERS, metrics_address=taken)
    file = builder.write(tmp_path, certificate_files(tmp_path, "authenticate.localhost", "app.localhost"))
    with manage("rungate", "-config", file) as child:
        assert child.process.wait(30) == 1
    assert f"metrics_address: can't listen on {taken}" in child.output
    assert "Traceback" not in child.output


def test_other_command_runs_one_process(gate: RunningGate) -> None:
    environment = clean_environment(GATE_CONFIG=str(gate.config_file))
    with python("-m", "daphne", "-p", str(free_port()), "gateproject.asgi:application", environment=environment) as child:
        assert child.process.wait(30) == 1
    assert "workers: requires `gate run`" in child.output
