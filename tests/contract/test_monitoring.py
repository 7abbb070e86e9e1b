"""The alerts and the dashboard of examples/: gate exports each metric, and Prometheus parses each expression."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from foundation.telemetry.metrics import declared
from gateproject.management.metrics_docs import metrics_of_routes

EXAMPLES = Path(__file__).parents[2] / "examples"
ALERTS, DASHBOARD = EXAMPLES / "prometheus" / "alerts.yml", EXAMPLES / "grafana" / "gate.json"
RECEIVED = {each.name: each for each in (*declared, *metrics_of_routes())}
# Variables in Grafana's expressions, and values that Prometheus can parse.
VARIABLES = {"$__rate_interval": "5m", "$service": ".*", "$route": ".*"}
NAME = re.compile(r"\b(?:gate|envoy|storage|http_server|http_client|grpc|kvstore)_\w+")


def alerts() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def panels() -> Iterator[tuple[str, str]]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            yield panel["title"], expression


def promtool(*arguments: str | Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.fail("promtool is missing: .ci/test-tools gets it, or says how (Debian's package prometheus)")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("title", "expression"), [*alerts(), *panels()])
def test_requested_headers_come_from_gate(title: str, expression: str) -> None:
    bare = re.sub(r"\{[^}]*\}|by \([^)]*\)|on \([^)]*\)", "", expression)
    names = set(NAME.findall(bare))
    histograms = {f"{each.name}{part}" for each in RECEIVED.values() if each.kind == "histogram" for part in ("_bucket", "_sum", "_count")}
    assert names
    assert names <= RECEIVED.keys() | histograms
    labels = {
        label for name in names for label in RECEIVED[re.sub(r"_(bucket|sum|count)$", "", name) if name in histograms else name].labels
    }
    requested = {each.strip() for inside in re.findall(r"by \(([^)]*)\)", expression) for each in inside.split(",")}
    assert requested <= labels | {"service", "instance", "le"}


def test_each_alert_is_raised_where_it_should_be() -> None:
    promtool("check", "rules", ALERTS)
    promtool("test", "rules", ALERTS.with_name("alerts_test.yml"))
    tested = {
        each["alertname"]
        for test in yaml.safe_load(ALERTS.with_name("alerts_test.yml").read_text())["tests"]
        for each in test["alert_rule_test"]
    }
    assert tested == {name for name, _ in alerts()}


def test_prometheus_reads_each_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": expression} for number, (_, expression) in enumerate(panels())]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "panels.yml")
