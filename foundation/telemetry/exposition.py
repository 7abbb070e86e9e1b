"""Prometheus exposition: the page of `/metrics`, out of the registries and of families from elsewhere."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from prometheus_client import REGISTRY as LIBRARIES
from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from foundation.telemetry.metrics import registry


class MetricFamilyText(NamedTuple):
    """Family of metrics as lines of the text format, without their line breaks."""

    kind: str
    help: str
    lines: list[str]


MetricFamilies = dict[str, MetricFamilyText]


def escape_label(value: str) -> str:
    """Value of a label, as the text format has it between quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


# Of the text format, where its kinds are fewer than the library's.
_KINDS = {"unknown": "untyped", "info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram"}


def collect_families(collector: Collector, service: str) -> MetricFamilies:
    """Families of a registry.  Every sample has the label `service`; those that were declared without it get this process's.

    When a series began is left out: the text format has no place for it but a family of its own.
    """
    return {family: told for metric in collector.collect() for family, told in [_family(metric, service)]}


def _family(metric: Metric, service: str) -> tuple[str, MetricFamilyText]:
    name = f"{metric.name}_total" if metric.type == "counter" else f"{metric.name}_info" if metric.type == "info" else metric.name
    own = f'service="{escape_label(service)}"'
    lines = []
    for sample in metric.samples:
        if sample.name.endswith("_created"):
            continue
        labels = ",".join([f'{key}="{escape_label(value)}"' for key, value in sample.labels.items()])
        if "service" not in sample.labels:
            labels = f"{own},{labels}" if labels else own
        lines.append(f"{sample.name}{{{labels}}} {floatToGoString(sample.value)}")
    return name, MetricFamilyText(
        _KINDS.get(metric.type, metric.type), metric.documentation.replace("\\", r"\\").replace("\n", r"\n"), lines
    )


class MetricsEndpoint:
    """Page of metrics in the text format, whoever asks: OpenMetrics can't say `envoy_cluster_upstream_rq` beside
    `envoy_cluster_upstream_rq_total`, as Envoy names them.

    `families` are those beside the registries.  The call may wait, so it is made in a thread.
    """

    def __init__(
        self,
        service: str,
        families: Callable[[], MetricFamilies] = dict,
        extra_sources: Callable[[MetricFamilies], Awaitable[MetricFamilies]] | None = None,
    ):
        """`extra_sources` adds what other processes of this gate have to tell."""
        self._service = service
        self._families = families
        self._with_others = extra_sources

    async def __call__(self) -> bytes:
        told = await asyncio.to_thread(self.collect)
        if self._with_others is not None:
            told = await self._with_others(told)
        return await asyncio.to_thread(_render, told)

    def collect(self) -> MetricFamilies:
        """What this process has to tell."""
        families = self._families()  # first, because some of the registry's numbers say how that went
        return collect_families(registry, self._service) | collect_families(LIBRARIES, self._service) | families


def _render(told: MetricFamilies) -> bytes:
    lines: list[str] = []
    for name, family in told.items():
        if family.lines:
            lines += (f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *family.lines)
    lines.append("")
    return "\n".join(lines).encode()
