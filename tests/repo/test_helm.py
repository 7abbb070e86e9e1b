"""The chart renders, matches the schemas of Kubernetes, contains valid configurations of gate, and grants only required privileges."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from config.loader import check_content
from config.options import Options
from gateproject.management.commands.checkconfig import ALL_CONFIG_CHECKS
from tests.support.certs import CertificateFiles, certificate_files
from tests.support.charts import CHART, KUBERNETES, NAMESPACE, RELEASE, Manifest, helm, of_kind, rendered, templated
from tests.support.children import ROOT

SERVICES = ("databroker", "authorize", "authenticate", "proxy")
VALUES = {path.name.removesuffix("-values.yaml"): path.read_text() for path in sorted((CHART / "ci").glob("*-values.yaml"))}
IN_DOCS = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "operations" / "kubernetes.md").read_text(), re.MULTILINE | re.DOTALL)
# Custom resources have no schema there, so these fields are checked.
OTHERS = {"ServiceMonitor": ("selector", "endpoints"), "Certificate": ("secretName", "issuerRef"), "Issuer": ()}

IN_EXAMPLES = {path.parent.name: path.read_text() for path in sorted((ROOT / "examples").glob("*/values.yaml"))}

each_values = pytest.mark.parametrize(
    "values", [*VALUES.values(), *IN_EXAMPLES.values(), *IN_DOCS], ids=[*VALUES, *IN_EXAMPLES, *(f"docs{n}" for n in range(len(IN_DOCS)))]
)


def with_(name: str, **changes: Any) -> str:
    """Return the values of that name, with changed dotted keys (`__` is the dot)."""
    content = yaml.safe_load(VALUES[name])
    for dotted, value in changes.items():
        *places, key = dotted.split("__")
        where = content
        for place in places:
            where = where.setdefault(place, {})
        where[key] = value
    return yaml.safe_dump(content)


@pytest.mark.parametrize("name", VALUES)
def test_chart_passes_helm_lint(name: str) -> None:
    done = helm("lint", "--strict", CHART, "--values", CHART / "ci" / f"{name}-values.yaml")
    assert done.returncode == 0, done.stdout


@each_values
def test_kubernetes_knows_each_rendered_field(values: str) -> None:
    for manifest in rendered(values):
        assert manifest["metadata"]["namespace"] == NAMESPACE
        if manifest["kind"] in OTHERS:
            assert set(OTHERS[manifest["kind"]]) <= set(manifest["spec"])
        else:
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    service = json.loads(json.dumps(of_kind(rendered(VALUES["split"]), "Service")[f"{RELEASE}-proxy"]))
    service["spec"]["selectors"] = service["spec"].pop("selector")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, KUBERNETES, strict=True)


def container_of(deployment: Manifest) -> Manifest:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


def secrets_of(deployment: Manifest) -> dict[str, bool]:
    """Return for each name whether it may be missing."""
    found = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in container_of(deployment)["env"] if "valueFrom" in each}
    assert all(ref["name"] == "gate-secrets" and ref["key"] == name for name, ref in found.items())
    return {name: ref["optional"] for name, ref in found.items()}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return certificate_files(tmp_path_factory.mktemp("certificates"), "*.example.com", f"*.{NAMESPACE}.svc")


@pytest.fixture(scope="module")
def secrets(certificate: CertificateFiles) -> dict[str, str]:
    """Return the complete Secret of an operator."""
    return {
        "SHARED_SECRET": base64.b64encode(hashlib.sha256(b"shared").digest()).decode(),
        "COOKIE_SECRET": base64.b64encode(hashlib.sha256(b"cookie").digest()).decode(),
        "IDP_CLIENT_SECRET": "given-by-the-provider",
        "SIGNING_KEY": base64.b64encode(certificate.key.read_bytes()).decode(),
        "DATABASE_URL": "postgresql://gate:password@db.example.com/gate?sslmode=verify-full&sslrootcert=/etc/ssl/certs/ca-certificates.crt",
        "DATABROKER_STORAGE_CONNECTION_STRING": "kvstores://:password@store.example.com:6379/0",
        "EXT_AUTHZ_TOKENS": json.dumps(["0123456789abcdef0123456789abcdef"]),
    }


@each_values
def test_gate_accepts_the_configuration_of_each_pod_with_the_secrets_that_it_gets(
    values: str, secrets: Mapping[str, str], certificate: CertificateFiles, tmp_path: Path
) -> None:
    mounted = {"/etc/gate-tls": tmp_path / "tls", "/etc/gate-internal": tmp_path / "internal", "/etc/gate-ca": tmp_path / "ca"}
    for directory in mounted.values():
        directory.mkdir()
        for name, file in (("tls.crt", certificate.certificate), ("tls.key", certificate.key), ("ca.crt", certificate.authority)):
            (directory / name).write_bytes(file.read_bytes())
    maps, deployments = (of_kind(rendered(values), kind) for kind in ("ConfigMap", "Deployment"))
    assert set(maps) == set(deployments)
    for name, deployment in deployments.items():
        text = maps[name]["data"]["config.yaml"]
        needed = {key: secrets[key] for key, is_optional in secrets_of(deployment).items() if not is_optional}
        there = {mount["mountPath"] for mount in container_of(deployment)["volumeMounts"]}
        for path, directory in mounted.items():
            assert (path in text) <= (path in there), f"{name} has {path}"
            text = text.replace(path, str(directory))
        checked = check_content(text.encode(), ".yaml", needed, tmp_path, ALL_CONFIG_CHECKS)
        # The Service forwards ports 443 and 80 here.
        problems = [str(problem) for problem in (*checked.errors, *checked.warnings) if "the ACME CA connects" not in str(problem)]
        assert problems == [], name


def test_no_service_gets_a_secret_of_another() -> None:
    deployments = of_kind(rendered(VALUES["split"]), "Deployment")
    got = {service: set(secrets_of(deployments[f"{RELEASE}-{service}"])) for service in SERVICES}
    assert got["proxy"] == {"SHARED_SECRET", "COOKIE_SECRET"}
    assert got["databroker"] == {"SHARED_SECRET", "DATABROKER_STORAGE_CONNECTION_STRING"}
    assert {service for service, names in got.items() if "IDP_CLIENT_SECRET" in names} == {"authenticate"}
    assert {service for service, names in got.items() if "SIGNING_KEY" in names} == {"authorize", "authenticate"}
    stored = of_kind(rendered(VALUES["own-certificates"]), "Deployment")
    assert {service for service in SERVICES if "DATABASE_URL" in secrets_of(stored[f"{RELEASE}-{service}"])} == set(SERVICES) - {"proxy"}


def test_every_secret_of_gate_is_refused_in_a_configuration_that_all_may_read() -> None:
    names = {name for name, field in Options.model_fields.items() if "Secret" in repr(field) and not name.endswith("_file")}
    assert {"shared_secret", "cookie_secret", "ext_authz_tokens", "scim_token", "signing_key"} <= names
    for key in sorted(names | {"database_url", "databroker_storage_connection_string"}):
        refused = templated(with_("single", **{f"config__{key}": "a-secret"}))
        assert (refused.returncode, f"config.{key}: a ConfigMap is no place for a secret" in refused.stderr) == (1, True), key
    refused = templated(with_("split", authenticate__config={"idp_client_secret": "a-secret"}))
    assert "config.idp_client_secret" in refused.stderr


@each_values
def test_every_pod_is_confined_probed_and_spread(values: str) -> None:
    for name, deployment in of_kind(rendered(values), "Deployment").items():
        template = deployment["spec"]["template"]
        pod, container = template["spec"], container_of(deployment)
        assert deployment["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
        assert {key: pod["securityContext"][key] for key in ("runAsNonRoot", "runAsUser", "seccompProfile")} == {
            "runAsNonRoot": True,
            "runAsUser": 8443,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        requested = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "readiness", "liveness")}
        assert requested == {
            "startup": {"path": "/livez", "port": "metrics"},
            "readiness": {"path": "/readyz", "port": "metrics"},
            "liveness": {"path": "/livez", "port": "metrics"},
        }
        assert set(container["resources"]) == {"requests", "limits"}
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        (spread,) = pod["topologySpreadConstraints"]
        assert spread["labelSelector"] == deployment["spec"]["selector"]
        config = yaml.safe_load(of_kind(rendered(values), "ConfigMap")[name]["data"]["config.yaml"])
        environment = {each["name"]: each.get("value") for each in container["env"]}
        opened = {port for key in ("address", "http_redirect_addr", "grpc_address") if (port := config.get(key))}
        assert {f":{port['containerPort']}" for port in container["ports"]} == opened | {environment["METRICS_ADDRESS"]}
        assert {name for name in image_environment() if name.lower() in config} <= {"AUTOCERT_DIR"}, "the image's wins over the file"
        assert config.get("autocert_dir", image_environment()["AUTOCERT_DIR"]) == image_environment()["AUTOCERT_DIR"]


def image_environment() -> dict[str, str]:
    (environment,) = re.findall(r"^ENV (.+)$", (ROOT / "deploy" / "compose" / "Dockerfile").read_text(), re.MULTILINE)
    return dict(pair.split("=", 1) for pair in environment.split())


@each_values
def test_pod_selectors_match_pods(values: str) -> None:
    manifests = rendered(values)
    deployments = of_kind(manifests, "Deployment")

    def found(selector: Mapping[str, str]) -> list[Manifest]:
        templates = [deployment["spec"]["template"] for deployment in deployments.values()]
        return [each["spec"] for each in templates if selector.items() <= each["metadata"]["labels"].items()]

    def ports(pod: Manifest) -> set[str]:
        return {port["name"] for port in pod["containers"][0]["ports"]}

    for name, service in of_kind(manifests, "Service").items():
        pods = found(service["spec"]["selector"])
        assert len(pods) == (len(deployments) if name.endswith("-metrics") else 1), name
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= set.intersection(*map(ports, pods)), name
    for policy in of_kind(manifests, "NetworkPolicy").values():
        (pod,) = found(policy["spec"]["podSelector"]["matchLabels"])
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} <= ports(pod)
    for kind, key in (("PodDisruptionBudget", "selector"), ("HorizontalPodAutoscaler", "scaleTargetRef")):
        for name, manifest in of_kind(manifests, kind).items():
            (deployment,) = [each for each in deployments.values() if each["metadata"]["name"] == name]
            named = manifest["spec"][key]
            assert named in (deployment["spec"]["selector"], {"apiVersion": "apps/v1", "kind": "Deployment", "name": name})
    for monitor in of_kind(manifests, "ServiceMonitor").values():
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [each for each in of_kind(manifests, "Service").values() if wanted <= each["metadata"]["labels"].items()]
        assert {each["port"] for each in monitor["spec"]["endpoints"]} == {port["name"] for port in service["spec"]["ports"]}


@each_values
def test_users_reach_neither_metrics_nor_grpc(values: str) -> None:
    manifests = rendered(values)
    for name, service in of_kind(manifests, "Service").items():
        offered = {port["targetPort"] for port in service["spec"]["ports"]}
        if service["spec"].get("clusterIP") != "None":
            assert offered <= {"https", "http"}, name
    for policy in of_kind(manifests, "NetworkPolicy").values():
        for rule in policy["spec"]["ingress"]:
            is_open = not rule.get("from")
            assert not is_open or {port["port"] for port in rule["ports"]} <= {"https", "http"}


def test_services_are_called_by_the_names_in_their_certificates() -> None:
    manifests = rendered(VALUES["split"])
    config = yaml.safe_load(of_kind(manifests, "ConfigMap")[f"{RELEASE}-proxy"]["data"]["config.yaml"])
    certificates, services = of_kind(manifests, "Certificate"), of_kind(manifests, "Service")
    for service in ("databroker", "authorize"):
        host = f"{RELEASE}-{service}.{NAMESPACE}.svc"
        assert config[f"{service}_service_url"] == f"https://{host}:5443"
        assert certificates[f"{RELEASE}-{service}-internal"]["spec"]["dnsNames"] == [host]
        # All addresses, because callers distribute their calls themselves.
        assert services[f"{RELEASE}-{service}"]["spec"]["clusterIP"] == "None"
    people = certificates[RELEASE]["spec"]
    assert (people["dnsNames"], people["secretName"]) == (["authenticate.example.com", "app.example.com"], "gate-tls")


def test_changed_configuration_restarts_its_pods() -> None:
    def sums(values: str) -> dict[str, str | None]:
        deployments = of_kind(rendered(values), "Deployment")
        return {
            name: each["spec"]["template"]["metadata"].get("annotations", {}).get("checksum/config") for name, each in deployments.items()
        }

    before, after = sums(VALUES["split"]), sums(with_("split", proxy__config={"log_level": "debug"}))
    assert {name for name in before if before[name] != after[name]} == {f"{RELEASE}-proxy"}
    assert all(before.values())
    assert set(sums(with_("split", rolloutOnConfigChange=False)).values()) == {None}


def test_two_memories_or_two_writers_never_run_at_once() -> None:
    def strategy(values: str) -> set[str]:
        return {each["spec"]["strategy"]["type"] for each in of_kind(rendered(values), "Deployment").values()}

    assert strategy(VALUES["single"]) == {"Recreate"}
    assert strategy(with_("single", persistence__enabled=False, tls={"secretName": "tls"}, config__databroker_storage_type="memory")) == {
        "Recreate"
    }
    assert strategy(VALUES["split"]) == strategy(VALUES["ingress"]) == {"RollingUpdate"}
    (deployment,) = of_kind(rendered(VALUES["ingress"]), "Deployment").values()
    assert "replicas" not in deployment["spec"], "who scales it says how many"


@pytest.mark.parametrize(
    ("name", "changes", "output"),
    [
        ("single", {"secrets__existingSecret": ""}, "secrets.existingSecret: name the Secret"),
        ("single", {"single__replicas": 2}, "are for one pod"),
        ("single", {"persistence__enabled": False}, "each new pod would request certificates again"),
        ("ingress", {"config__databroker_storage_type": "memory"}, "each pod would have separate sessions"),
        ("split", {"config__databroker_storage_type": "memory"}, "each pod would have separate sessions"),
        ("split", {"tls__mode": "autocert"}, "use cert-manager"),
        ("split", {"tls__secretName": ""}, "tls.secretName: name a Secret"),
        ("split", {"persistence__enabled": True}, "nothing is kept in a pod"),
        ("own-certificates", {"internalTLS__caSecret": ""}, "internalTLS: name"),
        ("split", {"proxy__replica": 2}, "additional properties 'replica' not allowed"),
        ("split", {"tls__mode": "ingres"}, "/tls/mode"),
    ],
)
def test_unworkable_values_are_refused_before_installation(name: str, changes: dict[str, Any], output: str) -> None:
    refused = templated(with_(name, **changes))
    assert (refused.returncode, output in refused.stderr) == (1, True), refused.stderr


def test_the_schema_knows_each_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    written = yaml.safe_load((CHART / "values.yaml").read_text())

    def differences(described: Mapping[str, Any], content: Mapping[str, Any], place: str) -> list[str]:
        if described.get("additionalProperties") is not False or not content:
            return []
        own = sorted(f"{place}{name}" for name in set(described["properties"]) ^ set(content))
        inner = [(name, value) for name, value in content.items() if isinstance(value, dict)]
        return own + [each for name, value in inner for each in differences(described["properties"][name], value, f"{place}{name}.")]

    assert differences(schema, written, "") == ["global"]
    assert differences(schema["definitions"]["pod"], written["pod"], "pod.") == []
