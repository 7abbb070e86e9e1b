"""The container image: built, and used as its unprivileged user."""

import gzip
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.certs import certificate_files
from tests.support.children import free_ports
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import AUTHENTICATE_HOST, EverythingOnLoopback, GateBuilder, sign_in
from tests.support.image import Container, ImageBuilder
from tests.support.upstream import SampleUpstream

pytestmark = pytest.mark.timeout(900)  # the first test waits for the image: a minute, or more beside other tests
HOST = "app.localhost"
UID = 8443
STARTS = 120.0  # seconds
MAX_COMPRESSED = 75 << 20  # bytes that the image adds to its base


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> ImageBuilder:
    builder = ImageBuilder(tmp_path_factory.mktemp("images"))
    builder.build_base()
    builder.build("gate")
    return builder


@pytest.fixture(scope="module")
def container(builder: ImageBuilder) -> Iterator[Container]:
    with Container(builder, "gate") as container:
        yield container


def written(container: Container) -> list[str]:
    """Files of the root that its user has written, outside /data and /tmp: with a read-only root there could be none."""
    return [str(path) for path in container.root.glob("[!dpst]*/**/*") if path.lstat().st_uid == UID]


def test_it_is_gate_as_an_unprivileged_user(container: Container) -> None:
    assert re.fullmatch(r"v[0-9.]+\+[0-9a-f]{12}", container.run("gate", "--version"))
    assert container.run("id", "-u") == str(UID)


def test_it_is_small(container: Container) -> None:
    with subprocess.Popen(["tar", "-C", container.root / "opt", "-c", "gate"], stdout=subprocess.PIPE) as tar:
        assert tar.stdout is not None
        compressed = len(gzip.compress(content := tar.stdout.read(), 6))
    print(f"/opt/gate: {len(content) >> 20} MiB, {compressed >> 20} MiB compressed")
    assert compressed < MAX_COMPRESSED


def test_its_demo_runs(container: Container) -> None:
    port, provider = free_ports(2)
    with container.start("gate", "demo", "--address=0.0.0.0", f"--port={port}", f"--idp-port={provider}") as demo:
        demo.wait_for(lambda: "gate is ready" in demo.output, "the demo is ready", STARTS)
        container.run("gate", "ready")  # the health check
        assert demo.stop() == 0
    assert written(container) == []


async def test_its_main_job_is_a_protected_application(
    container: Container, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    builder = GateBuilder(provider.url).route(HOST, to=upstream.url, allow_any_authenticated_user=True)
    certificates = certificate_files(tmp_path, AUTHENTICATE_HOST, HOST)
    config = builder.write(tmp_path, certificates)
    seen = config.read_text().replace(str(tmp_path), "/etc/gate")
    config.write_text(yaml.safe_dump(yaml.safe_load(seen) | {"data_dir": "/data"}))
    for path in [tmp_path, *tmp_path.rglob("*")]:
        os.chown(path, UID, UID)
    with container.start("gate", "run", "--config", "/etc/gate/config.yaml", volumes={tmp_path: "/etc/gate"}) as gate:
        gate.wait_for(lambda: any(entry["event"] == "gate is ready" for entry in gate.events), "gate is ready", STARTS)
        container.run("gate", "ready", "--config", "/etc/gate/config.yaml")
        transport = EverythingOnLoopback(verify=certificates.client_context(), trust_env=False)
        async with httpx.AsyncClient(transport=transport, timeout=STARTS) as client:
            assert (await sign_in(client, builder.url(HOST), "alice")).status_code == 200
        assert gate.stop() == 0
    assert written(container) == []
