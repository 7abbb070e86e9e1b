"""A log reader that pauses: it is what a full disk of the collector, a stopped terminal or a hung container runtime look like from here."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from foundation.telemetry.output import DROPPED_MESSAGE
from tests.support.certs import certificate_files
from tests.support.children import Child, clean_environment, free_port, wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import python
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

APP = "app.localhost"
LONG = "/" + "x" * 7000  # each line of the log as long as that
MANY = 700  # more than wait to be read


class Running:
    """gate, however it was started: what is asked of it, and its child process."""

    def __init__(self, child: Child, ask: Callable[[str], httpx.Response], metrics: str):
        self.child, self.ask, self._metrics = child, ask, metrics

    def dropped(self) -> float:
        families = text_string_to_metric_families(httpx.get(f"http://{self._metrics}/metrics", trust_env=False, timeout=10).text)
        return sum(each.value for family in families for each in family.samples if each.name == "gate_log_lines_dropped_total")

    def is_requested_while_log_is_unread(self) -> None:
        self.child.is_read.clear()
        assert {self.ask(f"{LONG}{number}").status_code for number in range(MANY)} == {200}
        assert self.ask("/ping").status_code == 200


@contextmanager
def by_rungate(builder: GateBuilder, directory: Path, metrics: str) -> Iterator[Running]:
    with builder.start(directory) as gate, _client(gate) as client:
        host = {"Host": f"{APP}:{gate.port}"}
        named = {"sni_hostname": APP}
        yield Running(gate.child, lambda path: client.get(f"https://127.0.0.1:{gate.port}{path}", headers=host, extensions=named), metrics)


def _client(gate: RunningGate) -> httpx.Client:
    return httpx.Client(verify=gate.certificates.client_context(), trust_env=False, timeout=10)


@contextmanager
def by_daphne(builder: GateBuilder, directory: Path, metrics: str) -> Iterator[Running]:
    config = builder.write(directory, certificate_files(directory, APP))
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**settings, "insecure_server": True}))
    command = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(builder.port), "gateproject.asgi:application")
    with python(*command, environment=clean_environment(GATE_CONFIG=str(config))) as child, httpx.Client(trust_env=False) as client:

        def ask(path: str) -> httpx.Response:
            return client.get(f"http://127.0.0.1:{builder.port}{path}", headers={"Host": f"{APP}:{builder.port}"}, timeout=10)

        child.wait_for(lambda: _answers(ask), "gate answers through daphne")
        yield Running(child, ask, metrics)


def _answers(ask: Callable[[str], httpx.Response]) -> bool:
    try:
        return ask("/ping").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(
    ("start", "data_plane"), [(by_rungate, "embedded"), (by_rungate, "envoy"), (by_daphne, "embedded")], ids=["rungate", "envoy", "daphne"]
)
def test_unread_log_blocks_no_request(
    start: Callable[..., Running], data_plane: str, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    builder = GateBuilder(provider.url).setting(metrics_address=metrics, data_plane=data_plane)
    builder.route(APP, to=upstream.url, allow_public_unauthenticated_access=True)
    with start(builder, tmp_path, metrics) as gate:
        gate.is_requested_while_log_is_unread()
        assert (lost := gate.dropped()) > 0

        gate.child.is_read.set()
        gate.child.wait_for(lambda: any(line["event"] == DROPPED_MESSAGE for line in gate.child.events), "the lost lines are reported")
        # A line of Envoy's may have come after the count was read, and was lost as well.
        assert lost <= next(line for line in gate.child.events if line["event"] == DROPPED_MESSAGE)["lines"] == gate.dropped()
        assert gate.ask("/afterwards").status_code == 200
        gate.child.wait_for(lambda: any(line.get("path") == "/afterwards" for line in gate.child.events), "lines come again")
        paths = [line["path"] for line in gate.child.events if line.get("path", "").startswith(LONG)]
        assert paths == [f"{LONG}{number}" for number in range(len(paths))], "in order, the oldest of them"

        gate.is_requested_while_log_is_unread()
        gate.child.process.send_signal(signal.SIGTERM)
        wait_until(lambda: gate.child.process.poll() is not None, "SIGTERM ends it, though no process reads the log")
        assert gate.child.process.returncode == 0
