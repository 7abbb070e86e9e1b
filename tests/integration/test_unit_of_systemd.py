"""gate under what the unit of systemd lets it do: its system calls, one writable directory, no capability."""

import sys
from pathlib import Path

import httpx
import pytest
import yaml

from examples.demo.loopback import LoopbackTransport
from tests.support.certs import certificate_files
from tests.support.children import ROOT, Child, clean_environment, free_ports
from tests.support.confinement import calls_of_unit, confined, write_filter
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder, sign_in
from tests.support.upstream import SampleUpstream

APP = "app.localhost"
UNIT = (ROOT / "deploy" / "systemd" / "gate@.service").read_text()


def test_the_unit_lets_no_call_through_that_is_for_others() -> None:
    allowed = calls_of_unit(UNIT)
    assert {"execve", "socket", "accept4", "fork", "memfd_create"} <= allowed
    assert not allowed & {
        "ptrace",
        "mount",
        "bpf",
        "setuid",
        "chown",
        "kexec_load",
        "init_module",
        "sched_setscheduler",
        "reboot",
    }


def test_operations_restricted_by_the_unit_fail(tmp_path: Path) -> None:
    write_filter(tmp_path / "calls", calls_of_unit(UNIT))
    report = "import os\ntry:\n    os.setpriority(os.PRIO_PROCESS, 0, 5)\nexcept PermissionError:\n    print('kept out')"
    with Child(*confined(readable=[tmp_path], writable=[], filter_of_calls=tmp_path / "calls"), sys.executable, "-c", report) as child:
        child.wait_for_line("kept out")


@pytest.mark.parametrize("settings", [{}, {"workers": "2"}, {"data_plane": "envoy"}], ids=["embedded", "workers", "envoy"])
async def test_gate_needs_nothing_that_the_unit_keeps_out(
    settings: dict[str, str], provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    write_filter(tmp_path / "calls", calls_of_unit(UNIT))
    certificates = certificate_files(tmp_path, AUTHENTICATE_HOST, APP)
    builder = GateBuilder(provider.url).route(APP, to=upstream.url, allow_any_authenticated_user=True, allow_websockets=True)
    metrics, grpc = (f"127.0.0.1:{port}" for port in free_ports(2))
    config = builder.setting(metrics_address=metrics, grpc_address=grpc, **settings).write(tmp_path, certificates)
    data = Path(yaml.safe_load(config.read_text())["data_dir"])
    before = confined(readable=[tmp_path], writable=[data], filter_of_calls=tmp_path / "calls")
    environment = clean_environment(PYTHONDONTWRITEBYTECODE="1")
    with Child(*before, sys.executable, "manage.py", "rungate", "-config", config, environment=environment) as gate:
        gate.wait_for_line("gate is ready")
        async with httpx.AsyncClient(transport=LoopbackTransport(verify=certificates.client_context()), timeout=30) as client:
            page = await sign_in(client, builder.url(APP, "/x"), "alice")
            assert page.status_code == 200, gate.output
            assert (await client.get(f"http://{metrics}/readyz")).status_code == 200
    assert not [event for event in gate.events if event["level"] == "error"]
