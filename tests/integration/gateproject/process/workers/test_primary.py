"""Tasks of the first of several processes for all: reload, metrics, one log."""

import asyncio
import json
import os
import signal

import httpx
import pytest
import yaml

from tests.support.gate import RunningGate, sign_in
from tests.support.reloading import rewrite, wait_for_event
from tests.support.workers import HTML, WORKERS, client_for, metric, metrics_for, on_each, processes


async def test_reload_is_in_force_on_all_workers_when_logged(gate: RunningGate) -> None:
    policy = yaml.safe_load(gate.config_file.read_text())["policy"]
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        async with client_for(gate, 1, client.cookies) as one, client_for(gate, 2, client.cookies) as other:
            for groups, expected in ((["engineering"], 403), (["sales"], 200), (["engineering"], 403)):
                stricter = {"from": policy[0]["from"], "to": policy[0]["to"], "allowed_groups": groups}
                with wait_for_event(gate, "configuration reloaded") as lines:
                    rewrite(gate.config_file, policy=[stricter])
                answers = [await each.get(gate.url("app.localhost"), headers=HTML) for each in (one, other)]
                assert [answer.status_code for answer in answers] == [expected, expected]
                assert [line["worker"] for line in lines] == [1]


async def test_reload_refused_by_one_worker_is_refused_by_all(gate: RunningGate) -> None:
    """Of a worker that can't read what it is given; a stopped one is no reason for the others to keep the old policy."""
    policy = yaml.safe_load(gate.config_file.read_text())["policy"]
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        stored = httpx.Cookies(client.cookies)
        with wait_for_event(gate, "configuration rejected"):
            rewrite(gate.config_file, log_level="loud")
        os.kill(processes(gate)[1], signal.SIGKILL)
        gate.wait_for_event("worker exited")
        assert await on_each(gate, stored) == [200, 200]  # of a file that can't be read
        rewrite(gate.config_file, log_level="info", policy=[{**policy[0], "allow_any_authenticated_user": False, "allowed_groups": ["x"]}])
        gate.wait_for_event("configuration reloaded")
        assert await on_each(gate, stored) == [403, 403]


async def test_stalled_worker_is_killed_at_reload(gate: RunningGate) -> None:
    policy = yaml.safe_load(gate.config_file.read_text())["policy"]
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        async with client_for(gate, 2, client.cookies) as of_second:
            os.kill(processes(gate)[1], signal.SIGSTOP)
            requested = asyncio.create_task(of_second.get(gate.url("app.localhost"), headers=HTML, timeout=60))
            await asyncio.sleep(0.1)  # until it is sent
            rewrite(gate.config_file, policy=[{**policy[0], "allow_any_authenticated_user": False, "allowed_groups": ["x"]}])
            await asyncio.to_thread(gate.wait_for_event, "configuration reloaded")
            with pytest.raises(httpx.TransportError):
                await requested
            assert await on_each(gate, client.cookies) == [403, 403]


async def test_lines_of_all_processes_are_complete_in_one_log(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        async with client_for(gate, 1, client.cookies) as one, client_for(gate, 2, client.cookies) as other:
            long = gate.url("app.localhost", f"/{'x' * 6000}")  # more than what a pipe takes at once as a whole
            for _ in range(10):
                await asyncio.gather(*(each.get(long, headers=HTML) for each in (one, other) for _ in range(10)))

            def written() -> list[dict]:
                lines = [json.loads(line) for line in gate.child.lines if line.startswith('{"event": "request"')]
                return [line for line in lines if line["path"].startswith("/xxx")]

            gate.child.wait_for(lambda: len(written()) == 200, "a line for each request")
    assert {line["worker"] for line in written()} == {1, 2}
    assert all(json.loads(line) for line in gate.child.lines)


async def test_metrics_of_all_workers_are_summed(gate: RunningGate, metrics_port: int) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        before = metric(metrics_for(metrics_port), "http_server_requests_total", host="app.localhost")
        async with client_for(gate, 1, client.cookies) as one, client_for(gate, 2, client.cookies) as other:
            for each in (one, other, other):
                await each.get(gate.url("app.localhost"), headers=HTML)
            page = metrics_for(metrics_port)
    assert metric(page, "http_server_requests_total", host="app.localhost") - before >= 3
    assert metric(page, "envoy_cluster_upstream_rq_time_count") >= 3
    assert metric(page, "gate_workers_serving") == WORKERS
    for worker in ("1", "2"):
        assert metric(page, "process_resident_memory_bytes", worker=worker) > 0
        assert metric(page, "gate_config_last_reload_success", worker=worker) == 1
    samples = [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples)), "a series occurs once"
