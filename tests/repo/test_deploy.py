"""Files in deploy/ are well formed, run the configurations of examples/split, and grant each process only required privileges."""

import base64
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from config.loader import check_configuration, check_content
from gateproject.management.commands.checkconfig import ALL_CONFIG_CHECKS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = {"databroker", "authorize", "authenticate", "proxy"}
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_compose_runs_each_service_with_its_example(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["command"] == ["run", "--config", f"/etc/gate/{name}.yaml"]
    assert (ROOT / "examples" / "split" / f"{name}.yaml").exists()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["healthcheck"]["test"] == ["CMD", "gate", "ready"]
    volumes = [volume.split(":") for volume in service["volumes"]]
    assert volumes[0] == [f"./{name}", "/etc/gate", "ro"]
    assert volumes[1][0] in COMPOSE["volumes"]
    assert set(service["networks"]) <= set(COMPOSE["networks"])


def test_compose_starts_services_after_dependencies_with_health_checks() -> None:
    services = COMPOSE["services"]
    assert {name for name, service in services.items() if "healthcheck" not in service} == set()
    needs = {name: set(service.get("depends_on", {})) for name, service in services.items()}
    assert needs == {
        "store": set(),
        "db": set(),
        "databroker": {"store"},
        "authorize": {"databroker", "db"},
        "authenticate": {"databroker", "db"},
        "proxy": {"authorize", "authenticate"},
    }


def test_the_servers_have_their_secrets_from_files_and_may_do_nothing_more() -> None:
    for name, secret in (("store", "/etc/redis/password.conf"), ("db", "/etc/gate-db/superuser-password")):
        server = COMPOSE["services"][name]
        assert secret in f"{server['command']} {server.get('environment')}"
        assert (server["user"], server["read_only"], server["cap_drop"]) == ("999:999", True, ["ALL"])
        assert {volume.split(":")[0] for volume in server["volumes"]} & set(COMPOSE["volumes"])
        assert "ports" not in server
    for volume in COMPOSE["services"]["db"]["volumes"][2:]:
        assert (DEPLOY / "compose" / volume.split(":")[0]).exists()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("prepared")
    done = prepare(directory)
    assert done.returncode == 0, done.stderr
    return directory


def prepare(directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([DEPLOY / "compose" / "prepare.sh", directory], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_prepared_files_match_the_configuration_of_the_service(prepared: Path, name: str) -> None:
    path = prepared / name / f"{name}.yaml"
    assert "PUT-" not in path.read_text()
    checked = check_configuration(path, {}, ALL_CONFIG_CHECKS)
    assert [str(problem) for problem in (*checked.errors, *checked.warnings)] == []
    config = yaml.safe_load(path.read_text())
    named = {Path(value).name for key, value in config.items() if key.endswith("_file")}
    assert {file.name for file in path.parent.iterdir()} == {path.name, *named}


def test_prepared_files_are_private_and_never_overwritten(prepared: Path) -> None:
    before = {file: (file.stat().st_mode & 0o777, file.read_bytes()) for file in prepared.rglob("*") if file.is_file()}
    assert {mode for mode, _ in before.values()} == {0o600}
    again = prepare(prepared)
    assert (again.returncode, "already exists" in again.stderr) == (1, True)
    assert {file: file.read_bytes() for file in before} == {file: content for file, (_, content) in before.items()}


def test_secrets_are_mounted_only_where_used(prepared: Path) -> None:
    configs = {name: yaml.safe_load((prepared / name / f"{name}.yaml").read_text()) for name in SERVICES}
    assert len({config["shared_secret"] for config in configs.values()}) == 1
    assert len({configs[name]["cookie_secret"] for name in SERVICES - {"databroker"}}) == 1
    password = (prepared / "db" / "password").read_text().strip()
    assert all(f"gate:{password}@db.internal" in configs[name]["database_url"] for name in ("authorize", "authenticate"))
    store = (prepared / "store" / "password.conf").read_text().split()
    assert store[0] == "requirepass"
    assert f":{store[1]}@store.internal" in configs["databroker"]["databroker_storage_connection_string"]
    assert len({password, store[1], configs["proxy"]["shared_secret"], configs["proxy"]["cookie_secret"]}) == 4


@pytest.mark.parametrize(
    ("certificate", "host"),
    [
        ("databroker/databroker.pem", "databroker.internal"),
        ("authorize/authorize.pem", "authorize.internal"),
        ("store/store.pem", "store.internal"),
        ("db/db.pem", "db.internal"),
        ("authenticate/fullchain.pem", "authenticate.example.com"),
        ("proxy/fullchain.pem", "app.example.com"),
    ],
)
def test_prepared_certificate_is_valid_for_its_host(prepared: Path, certificate: str, host: str) -> None:
    roots = x509.load_pem_x509_certificates((prepared / "authority" / "internal-ca.pem").read_bytes())
    (leaf,) = x509.load_pem_x509_certificates((prepared / certificate).read_bytes())
    PolicyBuilder().store(Store(roots)).build_server_verifier(x509.DNSName(host)).verify(leaf, [])


def test_only_http_services_are_published_and_only_the_broker_reaches_the_store() -> None:
    services = COMPOSE["services"]
    assert {name for name, service in services.items() if "ports" in service} == {"authenticate", "proxy"}
    assert {name for name, service in services.items() if "records" in service["networks"]} == {"store", "databroker"}
    assert {name for name, service in services.items() if "tables" in service["networks"]} == {"db", "authorize", "authenticate"}
    assert COMPOSE["networks"]["records"] == COMPOSE["networks"]["tables"] == {"internal": True}


DOCKERFILE = (DEPLOY / "compose" / "Dockerfile").read_text()
PACKAGES = {"gateproject", "authenticate", "authorize", "databroker", "proxy", "config", "foundation", "examples"}


def test_image_contains_wheel_inputs_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    stored = {line.removeprefix("!") for line in lines if line.startswith("!")}
    files = {
        "requirements.in",
        "requirements.txt",
        "requirements-demo.txt",
        "pyproject.toml",
        "setup.py",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "manage.py",
    }
    assert stored == PACKAGES | files
    assert all((ROOT / name).exists() for name in stored)
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    # Packages that are installed in one image run in the other.
    assert bases == ["python:3.13-slim"] * 2
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.findall(r"^COPY (.+)$", last, re.MULTILINE) == ["--from=build /opt/gate /opt/gate"]


def test_image_runs_unprivileged_and_writes_below_data_only() -> None:
    lines = DOCKERFILE.splitlines()
    for line in ("USER gate", "VOLUME /data", 'ENTRYPOINT ["gate"]', 'CMD ["run", "--config", "/etc/gate/config.yaml"]'):
        assert line in lines
    assert any(line.startswith("HEALTHCHECK ") and line.endswith('CMD ["gate", "ready"]') for line in lines)
    (environment,) = re.findall(r"^ENV (.+)$", DOCKERFILE, re.MULTILINE)
    environment_values = dict(pair.split("=", 1) for pair in environment.split())
    assert (environment_values["XDG_DATA_HOME"], environment_values["AUTOCERT_DIR"]) == ("/data", "/data/autocert")
    assert lines.index("USER gate") > max(index for index, line in enumerate(lines) if line.startswith("RUN "))


@pytest.mark.parametrize("file", ["compose.yaml", "one.yaml", "home.yaml"])
def test_every_gate_in_compose_is_built_alike_and_confined(file: str) -> None:
    services = yaml.safe_load((DEPLOY / "compose" / file).read_text())["services"]
    own_files = {name: service for name, service in services.items() if service.get("image") == "gate"}
    assert own_files
    for service in own_files.values():
        context = (DEPLOY / "compose" / service["build"]["context"]).resolve()
        assert (context, (context / service["build"]["dockerfile"]).exists()) == (ROOT, True)
        assert (service["read_only"], service["cap_drop"], service["tmpfs"]) == (True, ["ALL"], ["/tmp"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service


def test_compose_persists_data_and_mounts_configuration_read_only() -> None:
    services = yaml.safe_load((DEPLOY / "compose" / "one.yaml").read_text())["services"]
    assert services["gate"]["volumes"] == ["./gate:/etc/gate:ro", "data:/data"]
    assert (services["init"]["command"], services["init"]["volumes"]) == (["init", "/etc/gate"], ["./gate:/etc/gate"])
    assert services["init"]["profiles"] == ["init"]


def test_passkey_example_configuration_is_valid() -> None:
    text = (DEPLOY / "compose" / "home-config.yaml").read_text()
    for number, name in enumerate(("PUT-A-SECRET-HERE", "PUT-ANOTHER-SECRET-HERE")):
        text = text.replace(name, base64.b64encode(bytes([number + 1]) * 32).decode())
    checked = check_content(text.encode(), ".yaml", {"XDG_DATA_HOME": "/data"}, DEPLOY / "compose", ALL_CONFIG_CHECKS)
    assert [str(problem) for problem in checked.errors] == []
    services = yaml.safe_load((DEPLOY / "compose" / "home.yaml").read_text())["services"]
    assert checked.options is not None
    provider = checked.options.policy[0]
    assert f"{provider.from_.host}" in services["gate"]["networks"]["people"]["aliases"][0]
    assert "pocket-id.internal" in services["pocket-id"]["networks"]["inside"]["aliases"]
    assert "ports" not in services["pocket-id"]
