"""Manifests in examples: Kubernetes accepts them, and they name what the chart creates."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

from tests.support.charts import KUBERNETES, Manifest, of_kind, rendered

EXAMPLES = Path(__file__).parents[2] / "examples"
# No package contains their schemas. The gateways' controllers reject invalid resources, and tests/contract/test_scenarios.py runs Envoy.
OF_GATEWAYS = {
    "gateway.networking.k8s.io/v1": {"Gateway", "HTTPRoute"},
    "gateway.networking.k8s.io/v1beta1": {"ReferenceGrant"},
    "gateway.envoyproxy.io/v1alpha1": {"ClientTrafficPolicy", "SecurityPolicy"},
}
FILES = sorted(path for values in EXAMPLES.glob("*/values.yaml") for path in values.parent.glob("*.yaml") if path != values)

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)


def objects(path: Path) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def values_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((path.parent / "values.yaml").read_text())
    return content


def hosts_of_gate(path: Path) -> set[str]:
    config = values_of(path)["config"]
    return {urlsplit(url).hostname or "" for url in (config["authenticate_service_url"], *(route["from"] for route in config["policy"]))}


def ports_of_gate(path: Path) -> set[tuple[str, int]]:
    services = of_kind(rendered((path.parent / "values.yaml").read_text()), "Service")
    return {(name, port["port"]) for name, service in services.items() for port in service["spec"]["ports"]}


@each_file
def test_example_matches_kubernetes_schema(path: Path) -> None:
    for manifest in objects(path):
        if manifest["kind"] not in OF_GATEWAYS.get(manifest["apiVersion"], ()):
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        assert set(manifest["metadata"]) <= {"name", "namespace", "annotations"}


@each_file
def test_an_example_leads_to_services_that_the_chart_makes(path: Path) -> None:
    led = set()
    for manifest in objects(path):
        spec, namespace = manifest.get("spec", {}), manifest["metadata"]["namespace"]
        refs = [ref for rule in spec.get("rules", ()) for ref in rule.get("backendRefs", ())]
        refs += spec.get("extAuth", {}).get("grpc", {}).get("backendRefs", [])
        led |= {(ref["name"], ref["port"]) for ref in refs if ref.get("namespace", namespace) == "gate"}
        paths = [each for rule in spec.get("rules", ()) for each in rule.get("http", {}).get("paths", ())]
        services = [each["backend"]["service"] for each in paths]
        led |= {(service["name"], service["port"]["number"]) for service in services if namespace == "gate"}
    assert led
    assert led <= ports_of_gate(path)


@each_file
def test_an_example_has_every_host_of_gate(path: Path) -> None:
    named = {host for manifest in objects(path) for host in manifest.get("spec", {}).get("hostnames", ())}
    named |= {rule["host"] for manifest in objects(path) if manifest["kind"] == "Ingress" for rule in manifest["spec"]["rules"]}
    assert named == hosts_of_gate(path)


@each_file
def test_example_has_no_route_around_gate(path: Path) -> None:
    (policy,) = [each for each in objects(path) if each["kind"] == "NetworkPolicy"]
    assert policy["metadata"]["namespace"] == "default"
    assert all(rule["from"] for rule in policy["spec"]["ingress"])
    assert values_of(path)["networkPolicy"]["peopleFrom"]


def test_envoy_gateway_fails_closed() -> None:
    named = of_kind(objects(EXAMPLES / "envoy_gateway" / "routes.yaml"), "SecurityPolicy")
    (policy,) = named.values()
    requested = policy["spec"]["extAuth"]
    assert (requested["failOpen"], requested["recomputeRoute"], requested["statusOnError"]) == (False, False, 503)
    assert "headersToExtAuth" not in requested
    (token,) = [each for each in requested["contextExtensions"] if each["name"] == "gate_token"]
    assert (token["type"], token["valueRef"]["kind"], "value" in token) == ("ValueRef", "Secret", False)


def test_ingress_nginx_calls_gate_and_signs_in_on_the_application_s_host() -> None:
    path = EXAMPLES / "ingress_nginx" / "ingress.yaml"
    ingresses = of_kind(objects(path), "Ingress")
    prefix = "nginx.ingress.kubernetes.io/"
    output = {key.removeprefix(prefix): value for key, value in ingresses["app"]["metadata"]["annotations"].items()}
    assert output["auth-url"] == f"{values_of(path)['config']['forward_auth_url']}/verify"
    (host,) = [rule["host"] for rule in ingresses["app"]["spec"]["rules"]]
    assert (output["auth-signin"], output["auth-signin-redirect-param"]) == (f"https://{host}/.gate/sign_in", "gate_redirect_uri")
    claims = {f"X-Gate-Claim-{claim.title()}" for claim in values_of(path)["config"]["jwt_claims_headers"]}
    assert set(output["auth-response-headers"].split(",")) == claims | {"X-Gate-Jwt-Assertion", "Cookie", "Authorization"}
    assert "annotations" not in ingresses["gate"]["metadata"], "gate judges its own pages itself"
