"""gate with each Python that it says it runs on, as far as they are on this machine (.ci/other_pythons.py makes their environments).

They differ in parts that no unit test of gate covers: their event loop, their TLS, their processes. Whole suites run on
another one by `GATE_TESTED_PYTHON=.venv/python3.13/bin/python` in the environment (tests/support/fork_server.py).
"""

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import ROOT
from tests.support.cookies import client_cookies
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, follow, sign_in
from tests.support.reloading import reload
from tests.support.upstream import SampleUpstream
from tests.support.websockets import TEXT, RawWebSocket, SocketUpstream

APP, SOCKETS, LATER = "app.localhost", "sockets.localhost", "later.localhost"
BODY = "a line of a body\n" * 20_000
PLANES: dict[str, dict[str, Any]] = {
    "embedded": {},
    "workers": {"workers": "2"},
    "envoy": {"data_plane": "envoy"},
}


def supported() -> list[str]:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    first, end = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", required).groups()
    return [f"3.{minor}" for minor in range(int(first), int(end))]


@pytest.fixture(params=supported())
def interpreter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    is_gate_s = request.param == f"3.{sys.version_info.minor}"
    python = Path(sys.executable) if is_gate_s else Path(sys.prefix) / f"python{request.param}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no Python {request.param} on this machine when `make test` looked for it")
    monkeypatch.setenv("GATE_TESTED_PYTHON", str(python))
    # Envoy is one of the things that only the tests need.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return python


@pytest.mark.parametrize("plane", PLANES)
async def test_systemd_unit_runs_reloads_and_stops(
    plane: str, interpreter: Path, provider: DevelopmentProvider, upstream: SampleUpstream, sockets: SocketUpstream, tmp_path: Path
) -> None:
    builder = (
        GateBuilder(provider.url)
        .route(APP, to=upstream.url, allowed_groups=["engineering"], pass_identity_headers=True)
        .route(SOCKETS, to=sockets.url, allowed_groups=["engineering"], allow_websockets=True)
        .setting(groups_claim="groups", **PLANES[plane])
    )
    with builder.start(tmp_path) as gate:
        assert os.path.realpath(f"/proc/{gate.child.process.pid}/exe") == os.path.realpath(interpreter)
        async with gate.client() as client:
            assert (await sign_in(client, gate.url(APP, "/first"), "alice")).status_code == 200
            for number in range(5):
                response = await client.get(gate.url(APP, f"/again/{number}"))
                assert "x-gate-jwt-assertion" in dict(response.json()["headers"])
            assert (await client.post(gate.url(APP, "/form"), content=BODY)).json()["body"] == BODY
            refused = await client.get(gate.url(SOCKETS, "/not-here"), headers={"Accept": "text/html"})
            assert (await follow(client, refused)).status_code == 404
            assert echoed(gate, client_cookies(client, SOCKETS)) == b"hello"
            reload(gate, policy=[*builder.policy, {**builder.policy[0], "from": gate.url(LATER, "")}])
            assert (await client.get(gate.url(LATER))).status_code == 401
            assert (await client.get(gate.url(APP, "/after"))).status_code == 200
        assert gate.stop() == 0, gate.child.output
    assert not [event for event in gate.log if event["level"] in ("error", "critical")]
    # A warning of the interpreter is no JSON line.
    assert not [line for line in gate.child.lines if not line.startswith("{")]


def echoed(gate: RunningGate, cookie: str) -> bytes:
    with RawWebSocket(gate.port, tls=gate.certificates.client_context(), server_name=SOCKETS) as client:
        assert client.open(f"{SOCKETS}:{gate.port}", "/polite", f"Cookie: {cookie}").status == 101
        client.send_frame(TEXT, b"hello")
        return client.frame().payload
