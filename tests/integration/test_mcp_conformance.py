"""The conformance suite of MCP gives the same results through gate as without it, on each data plane."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.children import ROOT, clean_environment, free_port, is_open
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import python
from tests.support.gate import GateBuilder

EMULATORS = ROOT / "tests" / "support" / "emulators" / "node_modules"
NODE = EMULATORS / "node" / "bin" / "node"
SUITE = EMULATORS / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
# The suite resolves names by the system's resolver, which does not know *.localhost everywhere.
HOST = "localhost"
# Scenarios that the server fails, because the SDK has no such feature (any more).
FAILED_BY_SERVER = {
    "elicitation-sep1330-enums",
    "logging-set-level",
    "resources-subscribe",
    "resources-unsubscribe",
    "tools-call-with-logging",
}
# It is for servers without TLS: its valid Origin is http, which gate refuses on an https route, and its TLS client rejects the other host.
WITHOUT_TLS = {"dns-rebinding-protection"}

Results = dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    port = free_port()
    with python("-m", "tests.support.mcp_conformance_server", str(port)) as child:
        child.wait_for(lambda: is_open(port), "the server listens")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def direct_results(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run_suite(f"{server_url}/mcp", tmp_path_factory.mktemp("direct"))


def run_suite(url: str, directory: Path, **environment: str) -> Results:
    """Return each check of each scenario with its status."""
    command = [NODE, SUITE, "server", "--url", url, "--output-dir", directory]
    done = subprocess.run(command, env=clean_environment(**environment), capture_output=True, text=True, timeout=100)
    results = {
        re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", folder.name): [
            (check["id"], check["status"]) for check in json.loads((folder / "checks.json").read_text())
        ]
        for folder in directory.iterdir()
    }
    assert len(results) == 30, done.stdout + done.stderr
    return {name: checks for name, checks in results.items() if name not in WITHOUT_TLS}


def test_server_passes_all_that_its_library_supports(direct_results: Results) -> None:
    failed = {name for name, checks in direct_results.items() if any(status == "FAILURE" for _, status in checks)}
    assert failed == FAILED_BY_SERVER


@pytest.mark.parametrize("plane", ["embedded", "workers", "envoy"])
def test_results_are_the_same_through_gate(
    plane: str, provider: DevelopmentProvider, server_url: str, direct_results: Results, tmp_path: Path
) -> None:
    builder = GateBuilder(provider.url).route(HOST, to=server_url, mcp={"path": "/mcp"}, allow_public_unauthenticated_access=True)
    builder.setting(data_plane="envoy" if plane == "envoy" else "embedded", workers="2" if plane == "workers" else "1")
    with builder.start(tmp_path) as gate:
        certificates = {"NODE_EXTRA_CA_CERTS": str(gate.certificates.authority)}
        assert run_suite(gate.url(HOST, "/mcp"), tmp_path / "results", **certificates) == direct_results
