"""The wheel, and the archive of sources that it may be made from: installed apart from the checkout, they are gate."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import httpx
import pytest
import yaml

from examples.demo.loopback import LoopbackTransport
from gateproject.command import COMMANDS
from tests.support.certs import certificate_files
from tests.support.children import ROOT, Child, clean_environment, free_port
from tests.support.confinement import confined
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder, sign_in
from tests.support.reloading import rewrite
from tests.support.upstream import SampleUpstream

PACKAGES = ("gateproject", "proxy", "authenticate", "authorize", "databroker", "config", "foundation", "examples/demo")
APP = "app.localhost"


def run(*command: str | Path, where: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=where, env=clean_environment(**environment), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files in a separate repository, because a build leaves folders behind."""
    copy = tmp_path_factory.mktemp("wheel") / "sources"
    for name in run("git", "ls-files", where=ROOT).splitlines():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "bench/", "docs/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    user = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    run("git", "init", "--quiet", where=copy)
    run("git", "add", "--all", where=copy)
    run("git", *user, "commit", "--quiet", "--message", "all", where=copy)
    return copy


@pytest.fixture(scope="module")
def revision(sources: Path) -> str:
    return run("git", "rev-parse", "--short=12", "HEAD", where=sources).strip()


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", "out", where=sources)
    (built,) = (sources / "out").glob("gate_proxy-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A folder with what the wheel holds, and nothing of the checkout near it."""
    folder = wheel.parent / "installed"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, wheel, where=wheel.parent)
    return folder


def test_all_that_git_knows_of_the_packages_is_in_the_wheel(sources: Path, wheel: Path) -> None:
    tracked = set(run("git", "ls-files", *PACKAGES, where=sources).splitlines())
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert sorted(tracked - packed) == []
    assert sorted(packed - tracked - {"examples/__init__.py"}) == []


def test_wheel_and_archive_know_the_revision_that_they_were_made_from(sources: Path, wheel: Path, installed: Path, revision: str) -> None:
    assert run(installed / "bin/gate", "--version", where=installed.parent, PYTHONPATH=str(installed)).strip().endswith(f"+{revision}")
    build = "from setuptools import build_meta; build_meta.build_sdist('out')"
    run(sys.executable, "-c", build, where=sources)
    (archive,) = (sources / "out").glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(sources / "out", filter="data")
    unpacked = archive.with_name(archive.name.removesuffix(".tar.gz"))
    assert (unpacked / "foundation/revision.txt").read_text().strip() == revision
    run(sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", "out", where=unpacked)
    (again,) = (unpacked / "out").glob("*.whl")
    with zipfile.ZipFile(again) as second, zipfile.ZipFile(wheel) as first:
        assert sorted(second.namelist()) == sorted(first.namelist())
        assert second.read("foundation/revision.txt").decode().strip() == revision


def test_extras_match_the_installation_of_the_checkout() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["demo"][0] in (ROOT / "requirements-demo.in").read_text()
    base = [line.partition("#")[0].strip() for line in (ROOT / "requirements.in").read_text().splitlines()]
    assert {*extras["kvstore"], *extras["postgresql"]} <= set(base)
    assert extras["envoy"][0].partition(">=")[0] in (ROOT / "requirements-dev.in").read_text()


def test_each_short_name_is_a_command_and_each_command_has_one(installed: Path) -> None:
    received = run(installed / "bin/gate", where=installed.parent, PYTHONPATH=str(installed))
    folder = ROOT / "gateproject/management/commands"
    there = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {command for _, command, _ in COMMANDS} == there
    assert all(f"  {short} " in received for short, _, _ in COMMANDS)


async def test_installed_wheel_is_served_by_one_command(
    installed: Path, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    builder = GateBuilder(provider.url).route(APP, to=upstream.url, allow_any_authenticated_user=True)
    # A script has its own folder on its path, not the one it is started in: nothing of the checkout is found.
    program = installed / "bin/gate"
    with builder.start(tmp_path, lambda *_: (program, "run"), PYTHONPATH=str(installed)) as gate:
        async with gate.client() as client:
            output = run(program, "check", "-config", gate.config_file, where=tmp_path, PYTHONPATH=str(installed))
            assert "0 errors" in output
            page = await sign_in(client, gate.url(APP, "/x"), "alice")
            assert page.status_code == 200
            style = await client.get(gate.url(AUTHENTICATE_HOST, "/.gate/static/gateproject/admin.css"))
            assert style.text == (ROOT / "gateproject/static/gateproject/admin.css").read_text()


async def test_it_runs_as_the_image_runs_it_on_a_read_only_root(
    installed: Path, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    """Run unprivileged with the environment and the health check of the Dockerfile; bubblewrap replaces the container."""
    dockerfile = (ROOT / "deploy" / "compose" / "Dockerfile").read_text()
    (environment,) = re.findall(r"^ENV (.+)$", dockerfile, re.MULTILINE)
    granted = dict(pair.split("=", 1) for pair in environment.replace("/data", str(tmp_path / "data")).split())
    granted |= {
        "METRICS_ADDRESS": f"127.0.0.1:{free_port()}",
        "PYTHONPATH": str(installed),
        "PATH": f"{installed}/bin:{os.environ['PATH']}",
    }
    (health_check,) = re.findall(r"^HEALTHCHECK .*CMD (\[.+\])$", dockerfile, re.MULTILINE)
    (tmp_path / "data").mkdir()
    builder = GateBuilder(provider.url).route(APP, to=upstream.url, allow_any_authenticated_user=True)
    certificates = certificate_files(tmp_path, AUTHENTICATE_HOST, APP)
    # Where the database is said, none is laid ready: this gate makes its own, where the image's environment says.
    config = builder.setting(database_url="sqlite:///unused").write(tmp_path, certificates)
    rewrite(config, data_dir=None, database_url=None)
    before = confined(readable=[installed, tmp_path], writable=[tmp_path / "data"])

    def is_healthy() -> bool:
        command = [*before, *json.loads(health_check)]
        return subprocess.run(command, cwd=tmp_path, env=clean_environment(**granted), capture_output=True, timeout=30).returncode == 0

    assert not is_healthy()
    with Child(*before, "gate", "run", "-config", config, environment=clean_environment(**granted)) as child:
        child.wait_for(is_healthy, "its health check")
        async with httpx.AsyncClient(transport=LoopbackTransport(verify=certificates.client_context())) as client:
            page = await sign_in(client, builder.url(APP, "/x"), "alice")
            assert page.status_code == 200
    assert {path.name for path in (tmp_path / "data").rglob("*.sqlite3")} == {"gate.sqlite3"}
    assert not [event for event in child.events if event["level"] in ("error", "warning")]


ANSWERS = (
    "domain: corp.localhost\ncertificates: balancer\nissuer: http://127.0.0.1:9\nclient_id: a\nclient_secret: b\nupstream: http://127.0.0.1:9\n"
    "who: everyone\n"
)
# Sizes of files that a process may write, in bytes, as a full disk has none left.
LITTLE = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); sys.argv = sys.argv[2:]; "
LITTLE += "runpy.run_path(sys.argv[0], run_name='__main__')"


def refused(installed: Path, where: Path, *arguments: str | Path, disk: int | None = None) -> str:
    """The one thing that it says, without a trace of Python; its status is 1."""
    program = [installed / "bin/gate"] if disk is None else [sys.executable, "-c", LITTLE, str(disk), installed / "bin/gate"]
    command, environment = [str(part) for part in (*program, *arguments)], clean_environment(PYTHONPATH=str(installed))
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def configured(installed: Path, tmp_path: Path) -> Path:
    """A configuration that `gate init` wrote, with changed ports."""
    (tmp_path / "answers.yaml").write_text(f"{ANSWERS}address: 127.0.0.1:{free_port()}\n")
    program = installed / "bin/gate"
    run(program, "init", "--offline", "--answers", "answers.yaml", "etc", where=tmp_path, PYTHONPATH=str(installed))
    path = tmp_path / "etc/config.yaml"
    path.write_text(path.read_text().replace("127.0.0.1:9090", f"127.0.0.1:{free_port()}") + 'grpc_address: ""\n')
    return path


def test_failed_write_leaves_nothing_behind(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "answers.yaml").write_text(ANSWERS)
    init = ("init", "--offline", "--answers", "answers.yaml")
    assert "full: file too large; nothing was written" in refused(installed, tmp_path, *init, "full", disk=0)
    assert list((tmp_path / "full").iterdir()) == []
    assert "not a directory; nothing was written" in refused(installed, tmp_path, *init, "answers.yaml/x")
    assert "; nothing was written" in refused(installed, tmp_path, *init, "/sys/gate")  # where no user may write, not even root


def test_a_disk_that_is_full_starts_nothing(installed: Path, configured: Path) -> None:
    output = refused(installed, configured.parent, "run", "-config", configured, disk=4096)
    assert "startup failed\n" in output
    assert "database_url: cannot use the database: " in output


def test_a_port_that_another_has_is_named_with_how_to_find_it(installed: Path, configured: Path) -> None:
    port = yaml.safe_load(configured.read_text())["address"].rpartition(":")[2]
    with socket.create_server(("127.0.0.1", int(port))):
        output = refused(installed, configured.parent, "run", "-config", configured)
    assert f"127.0.0.1:{port}: another process" in output


def test_unknown_setting_suggests_a_known_one(installed: Path, configured: Path) -> None:
    configured.write_text(configured.read_text() + "shiny: 1\ncookie_secrt: x\n")
    output = refused(installed, configured.parent, "run", "-config", configured)
    assert "shiny: unknown setting (gate v0." in output
    assert "cookie_secrt: unknown setting" in output


def test_demo_without_extra_names_it(installed: Path, tmp_path: Path) -> None:
    without = "import runpy, sys; sys.modules['oidc_provider_mock'] = None; sys.argv = sys.argv[1:]; "
    without += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command, environment = [sys.executable, "-c", without, installed / "bin/gate", "demo", "--folder", "demo"], clean_environment()
    environment["PYTHONPATH"] = str(installed)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install 'gate-proxy[demo]'" in done.stderr
    assert not (tmp_path / "demo").exists()


def test_a_unit_of_systemd_runs_this_installation(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "answers.yaml").write_text(ANSWERS)
    init = ("init", "--offline", "--answers", "answers.yaml", "etc", "--systemd", "gate.service")
    output = run(installed / "bin/gate", *init, where=tmp_path, PYTHONPATH=str(installed))
    assert "systemctl enable --now gate" in output
    unit = (tmp_path / "gate.service").read_text()
    assert f"ExecStart={installed}/bin/gate run --config {tmp_path}/etc/config.yaml\n" in unit
    assert "%" not in unit.replace("%H", "")
    assert "data_dir" not in yaml.safe_load((tmp_path / "etc/config.yaml").read_text())
    subprocess.run(["systemd-analyze", "verify", tmp_path / "gate.service"], check=True)
    assert "already exists" in refused(installed, tmp_path, *init[:-3], "other", *init[-2:])
    assert not (tmp_path / "other").exists()
    assert "ProtectHome=yes" in refused(installed, tmp_path, *init[:-3], "/root/gate", "--systemd", "other.service")
