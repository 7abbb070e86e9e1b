"""A gate whose table of file descriptors is full says so, keeps room for upstreams, and goes on when there is room again."""

import json
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import RawClient, RawResponse
from tests.support.upstream import RecordingUpstream

APP = "app.localhost"
CROWD = 200
SHORT = "out of file descriptors"


@pytest.fixture
def gate(tmp_path) -> Iterator[RunningGate]:
    with DevelopmentProvider() as provider, RecordingUpstream() as application:
        builder = GateBuilder(provider.url).setting(data_plane="embedded", metrics_address=f"127.0.0.1:{free_port()}")
        builder.route(APP, to=application.url, allow_public_unauthenticated_access=True)
        with builder.start(tmp_path) as running:
            yield running


def in_use(gate: RunningGate) -> list[int]:
    return sorted(int(name) for name in os.listdir(f"/proc/{gate.child.process.pid}/fd"))


def limit(gate: RunningGate, maximum: int) -> None:
    _, hard = resource.prlimit(gate.child.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(gate.child.process.pid, resource.RLIMIT_NOFILE, (maximum, hard))


def client(gate: RunningGate) -> RawClient:
    return RawClient(gate.port, tls=gate.certificates.client_context(), server_name=APP)


def ask(gate: RunningGate, browser: RawClient) -> RawResponse:
    return browser.send(f"GET /x HTTP/1.1\r\nHost: {APP}:{gate.port}\r\nAccept: application/json\r\n\r\n".encode()).response()


def counted(gate: RunningGate, recipient: str) -> float:
    page = httpx.get(f"http://{gate.builder.settings['metrics_address']}/metrics", trust_env=False).text
    lines = [line for line in page.splitlines() if line.startswith("gate_fd_exhausted_total{") and f'"{recipient}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_descriptor_exhaustion_is_reported(gate: RunningGate) -> None:
    _, before = resource.prlimit(gate.child.process.pid, resource.RLIMIT_NOFILE)
    with client(gate) as browser, ExitStack() as crowd:
        assert ask(gate, browser).status == 200
        maximum = in_use(gate)[-1] + 60
        limit(gate, maximum)
        for _ in range(CROWD):
            crowd.enter_context(socket.create_connection(("127.0.0.1", gate.port), 5))
        line = gate.wait_for_event(SHORT, lambda entry: entry["affected"] == "clients")
        assert (line["level"], line["limit"]) == ("error", maximum)
        assert len(in_use(gate)) < maximum, "there is room"
        assert ask(gate, browser).status == 200, "who is here gets an upstream"
        crowd.close()
        gate.child.wait_for(lambda: len(in_use(gate)) < maximum // 2, "the crowd is gone")

        with client(gate) as newcomer:
            assert ask(gate, newcomer).status == 200
            # Nothing is left at all: the connection of before to the upstream is used up first.
            gate.child.wait_for(lambda: _is_refused(gate, newcomer), "an upstream can't be asked")
            limit(gate, before)
            assert ask(gate, newcomer).status == 200
    assert gate.wait_for_event(SHORT, lambda entry: entry["affected"] == "upstreams")
    line = gate.wait_for_event("request", lambda entry: entry["status"] == 503)
    assert "out of file descriptors" in line["problem"]
    assert counted(gate, "clients") > 0
    assert counted(gate, "upstreams") > 0
    assert len([entry for entry in gate.log if entry.get("event") == SHORT]) < CROWD / 10


def _is_refused(gate: RunningGate, browser: RawClient) -> bool:
    """With a limit below what is open, nothing new opens; an idle connection to the upstream is used until it is closed."""
    limit(gate, 3)
    answer = ask(gate, browser)
    if answer.status == 200:
        return False
    assert (answer.status, answer.header("retry-after")) == (503, "5")
    assert json.loads(answer.body)["reason"] == "The service is overloaded."
    return True
