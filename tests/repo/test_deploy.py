"""What deploy/ holds is well formed, runs the configurations of examples/split, and gives no process more than it needs."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = {"databroker", "authorize", "authenticate", "proxy"}
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "gate.yaml").read_text()))
UNIT = DEPLOY / "systemd" / "gate@.service"


def port_of(services: str) -> int:
    config = yaml.safe_load((ROOT / "examples" / "split" / f"{services}.yaml").read_text())
    return int((config.get("grpc_address") or config["address"]).rpartition(":")[2])


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_compose_runs_each_service_with_its_example(name: str) -> None:
    service = COMPOSE["services"][name]
    (path,) = service["command"]
    assert (ROOT / "examples" / "split" / Path(path).name).exists()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    volumes = [volume.split(":") for volume in service["volumes"]]
    assert (DEPLOY / "compose" / volumes[0][0]).resolve() == ROOT / "examples" / "split"
    assert volumes[1][0] in COMPOSE["volumes"]
    assert set(service["networks"]) <= set(COMPOSE["networks"])
    assert all(other in COMPOSE["services"] for other in service["depends_on"])


def test_only_who_serves_people_has_a_port_outside_and_only_the_broker_reaches_the_store() -> None:
    services = COMPOSE["services"]
    assert {name for name, service in services.items() if "ports" in service} == {"authenticate", "proxy"}
    assert {name for name, service in services.items() if "records" in service["networks"]} == {"store", "databroker"}
    assert COMPOSE["networks"]["records"] == {"internal": True}


def test_the_image_holds_what_runs_and_nothing_of_the_tests() -> None:
    copied = re.findall(r"^COPY (\S+)", (DEPLOY / "compose" / "Dockerfile").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in copied)
    assert {"gateproject", "authenticate", "authorize", "databroker", "proxy", "manage.py", "requirements.txt"} == set(copied)
    build = COMPOSE["services"]["proxy"]["build"]
    context = (DEPLOY / "compose" / build["context"]).resolve()
    assert (context / build["dockerfile"]).exists()


def test_systemd_accepts_the_unit_where_it_is_at_hand(tmp_path: Path) -> None:
    # Only the paths of a machine that has it installed are not here.
    text = UNIT.read_text().replace("/srv/gate/.venv/bin/python", "/bin/true").replace("WorkingDirectory=/srv/gate", "WorkingDirectory=/")
    (tmp_path / UNIT.name).write_text(text)
    assert text.count("[Unit]") == text.count("[Service]") == text.count("[Install]") == 1
    if shutil.which("systemd-analyze") is None:
        return
    done = subprocess.run(["systemd-analyze", "verify", str(tmp_path / UNIT.name)], capture_output=True, text=True, timeout=30)
    complaints = [line for line in done.stderr.splitlines() if "gate@" in line]
    assert (done.returncode, complaints) == (0, [])


def test_the_unit_starts_reloads_and_confines() -> None:
    lines = UNIT.read_text().splitlines()
    for line in ("User=gate", "ExecReload=/bin/kill -HUP $MAINPID", "NoNewPrivileges=yes", "ProtectSystem=strict", "UMask=0077"):
        assert line in lines
    assert any(line.startswith("ExecStart=") and line.endswith("rungate -config /etc/gate/%i.yaml") for line in lines)


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {manifest["metadata"]["name"]: manifest for manifest in MANIFESTS if manifest["kind"] == kind}


def test_every_manifest_says_what_it_is() -> None:
    for manifest in MANIFESTS:
        assert {"apiVersion", "kind", "metadata"} <= set(manifest)
        assert manifest["kind"] == "Namespace" or manifest["metadata"]["namespace"] == "gate"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_kubernetes_runs_each_service_where_its_service_looks(name: str) -> None:
    deployment, service = of_kind("Deployment")[name], of_kind("Service")[name]
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"] == service["spec"]["selector"]
    (container,) = pod["spec"]["containers"]
    assert container["args"] == [f"/etc/gate/{name}.yaml"]
    port = port_of(name)
    assert [each["containerPort"] for each in container["ports"]] == [port] == [each["port"] for each in service["spec"]["ports"]]
    assert {"readinessProbe", "livenessProbe", "resources"} <= set(container)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["spec"]["volumes"]}


def test_what_keeps_nothing_runs_twice_and_grpc_names_have_every_address() -> None:
    replicas = {name: deployment["spec"]["replicas"] for name, deployment in of_kind("Deployment").items()}
    assert replicas == {"databroker": 1, "authorize": 2, "authenticate": 2, "proxy": 2}
    for name in ("databroker", "authorize"):
        assert of_kind("Service")[name]["spec"]["clusterIP"] == "None"
