"""The response of the metrics endpoint."""

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from foundation.telemetry import metrics
from foundation.telemetry.exposition import MetricFamilies, MetricFamilyText, MetricsEndpoint, collect_families, escape_label
from foundation.telemetry.monitoring_app import MonitoringApp
from tests.support.ready import READY

HOSTILE = 'a"} 1\ngate_forged{x="\\'


async def answer(
    path: str, method: str = "GET", accept: bytes | None = None, families: Callable[[], MetricFamilies] = dict
) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [] if accept is None else [(b"accept", accept)]
    await MonitoringApp(MetricsEndpoint("gate", families), lambda: READY)({"path": path, "method": method, "headers": headers}, None, send)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


async def test_own_and_library_metrics_are_exported_together() -> None:
    metrics.record_config_loaded("gate", 42, 1000.5)
    status, headers, body = await answer("/metrics")
    samples = {sample.name: sample for family in text_string_to_metric_families(body.decode()) for sample in family.samples}
    assert status == 200
    assert headers[b"content-type"].startswith(b"text/plain")
    assert samples["gate_config_checksum_int64"].value == 42
    assert samples["gate_config_last_reload_success"].labels == {"service": "gate"}
    assert samples["gate_config_last_reload_success_timestamp"].value == 1000.5
    assert "process_resident_memory_bytes" in samples


async def test_rejected_configuration_is_exported() -> None:
    metrics.record_config_loaded("gate", 42, 1000.5)
    metrics.record_config_rejected("gate")
    _, _, body = await answer("/metrics")
    assert b'gate_config_last_reload_success{service="gate"} 0.0' in body
    assert b'gate_config_checksum_int64{service="gate"} 42.0' in body


async def test_text_format_is_returned_for_any_accept_header() -> None:
    _, headers, _ = await answer("/metrics", accept=b"application/openmetrics-text; version=1.0.0")
    assert headers[b"content-type"] == b"text/plain; version=0.0.4; charset=utf-8"


async def test_every_sample_has_its_service() -> None:
    metrics.clock_skew.set(3)
    _, _, body = await answer("/metrics")
    samples = [sample for family in text_string_to_metric_families(body.decode()) for sample in family.samples]
    assert [sample.name for sample in samples if not sample.labels.get("service")] == []
    assert ("gate_clock_skew_seconds", {"service": "gate"}, 3.0) in {
        (each.name, 0): (each.name, each.labels, each.value) for each in samples
    }.values()


async def test_external_families_are_exported_once_each() -> None:
    families = {
        "a_total": MetricFamilyText("counter", "Words.", ['a_total{x="1"} 2', 'a_total{x="2"} 3']),
        "none": MetricFamilyText("gauge", "No.", []),
    }
    _, _, body = await answer("/metrics", families=lambda: families)
    assert b'# HELP a_total Words.\n# TYPE a_total counter\na_total{x="1"} 2\na_total{x="2"} 3\n' in body
    assert b"# TYPE none" not in body


def test_a_value_stays_between_its_quotes() -> None:
    (family,) = text_string_to_metric_families(f'a{{x="{escape_label(HOSTILE)}"}} 1\n')
    assert family.samples[0].labels == {"x": HOSTILE}


@pytest.mark.parametrize("path", ["/", "/metrics/", "/Metrics", "/.gate/admin/", "/metrics/../ping"])
async def test_nothing_else_is_there(path: str) -> None:
    assert (await answer(path))[0] == 404


async def test_other_methods_are_refused() -> None:
    status, headers, _ = await answer("/metrics", method="POST")
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD")


def test_a_label_can_not_end_its_line() -> None:
    hostile = CollectorRegistry()
    Counter("hostile", "x", ["name"], registry=hostile).labels(HOSTILE).inc()
    (family,) = text_string_to_metric_families("\n".join(collect_families(hostile, "gate")["hostile_total"].lines) + "\n")
    assert [(sample.name, sample.labels) for sample in family.samples] == [("hostile_total", {"service": "gate", "name": HOSTILE})]


def test_each_kind_is_formatted_like_the_library_except_creation_time() -> None:
    kinds = CollectorRegistry()
    Counter("counted", "Words\\ of\ntwo lines.", ["service"], registry=kinds).labels("gate").inc(2)
    Gauge("measured", "x", ["service"], registry=kinds).labels("gate").set(float("-inf"))
    Histogram("spread", "x", ["service"], buckets=(0.5, 2), registry=kinds).labels("gate").observe(1)
    Info("told", "x", ["service"], registry=kinds).labels("gate").info({"version": "1"})
    written = generate_latest(kinds).decode().splitlines()
    expected = [line for line in written if "_created" not in line]
    lines = []
    for name, family in collect_families(kinds, "gate").items():
        lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *family.lines]

    def sorted_labels(line: str) -> str:  # the library sorts its families
        name, brace, rest = line.partition("{")
        labels, _, value = rest.rpartition("}")
        return line if line.startswith("#") else f"{name}{brace}{','.join(sorted(labels.split(',')))}}}{value}"

    assert [sorted_labels(line) for line in lines] == expected
