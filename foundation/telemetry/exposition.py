"""Prometheus exposition: the response of `/metrics`, from the registries and from further families."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from prometheus_client import REGISTRY as LIBRARIES
from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from foundation.telemetry.metrics import registry


class MetricFamilyText(NamedTuple):
    """Metric family in the text format; `lines` have no line breaks."""

    kind: str
    help: str
    lines: list[str]


MetricFamilies = dict[str, MetricFamilyText]


def escape_label(value: str) -> str:
    """Escape a label value for the text format."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


# Types of the client library that the text format lacks.
_KINDS = {"unknown": "untyped", "info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram"}


def collect_families(collector: Collector, service: str) -> MetricFamilies:
    """Return the families of a registry. Samples without the label `service` get this process's.

    `_created` samples are omitted, because the text format would need a separate family for them.
    """
    return dict(_family(metric, service) for metric in collector.collect())


def _family(metric: Metric, service: str) -> tuple[str, MetricFamilyText]:
    name = f"{metric.name}_total" if metric.type == "counter" else f"{metric.name}_info" if metric.type == "info" else metric.name
    service_label = f'service="{escape_label(service)}"'
    lines = []
    for sample in metric.samples:
        if sample.name.endswith("_created"):
            continue
        labels = ",".join([f'{key}="{escape_label(value)}"' for key, value in sample.labels.items()])
        if "service" not in sample.labels:
            labels = f"{service_label},{labels}" if labels else service_label
        lines.append(f"{sample.name}{{{labels}}} {floatToGoString(sample.value)}")
    return name, MetricFamilyText(
        _KINDS.get(metric.type, metric.type), metric.documentation.replace("\\", r"\\").replace("\n", r"\n"), lines
    )


class MetricsEndpoint:
    """Response of `/metrics`, always in the text format.

    OpenMetrics does not allow both `envoy_cluster_upstream_rq` and `envoy_cluster_upstream_rq_total`, which are Envoy's names. `families`
    returns families in addition to the registries; it may block, so it runs in a thread.
    """

    def __init__(
        self,
        service: str,
        families: Callable[[], MetricFamilies] = dict,
        extra_sources: Callable[[MetricFamilies], Awaitable[MetricFamilies]] | None = None,
    ):
        """`extra_sources` adds the metrics of gate's other processes."""
        self._service = service
        self._families = families
        self._with_others = extra_sources

    async def __call__(self) -> bytes:
        families = await asyncio.to_thread(self.collect)
        if self._with_others is not None:
            families = await self._with_others(families)
        return await asyncio.to_thread(_render, families)

    def collect(self) -> MetricFamilies:
        """Return the families of this process."""
        families = self._families()  # first, because it updates metrics in the registry
        return collect_families(registry, self._service) | collect_families(LIBRARIES, self._service) | families


def _render(families: MetricFamilies) -> bytes:
    lines: list[str] = []
    for name, family in families.items():
        if family.lines:
            lines += (f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *family.lines)
    lines.append("")
    return "\n".join(lines).encode()
