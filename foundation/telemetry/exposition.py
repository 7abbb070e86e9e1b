"""Prometheus exposition: an ASGI application with `/metrics`, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from prometheus_client import REGISTRY as LIBRARIES
from prometheus_client import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from foundation.telemetry.metrics import registry

_PLAIN = "text/plain; charset=utf-8"

Send = Callable[[dict[str, Any]], Awaitable[None]]


class TextFamily(NamedTuple):
    """Family of metrics as lines of the text format, without their line breaks."""

    kind: str
    help: str
    lines: list[str]


TextFamilies = dict[str, TextFamily]


def escaped(value: str) -> str:
    """Value of a label, as the text format has it between quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


# Of the text format, where its kinds are fewer than the library's.
_KINDS = {"unknown": "untyped", "info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram"}


def families_of(collector: Collector, service: str) -> TextFamilies:
    """Families of a registry.  Every sample has the label `service`; those that were declared without it get this process's.

    When a series began is left out: the text format has no place for it but a family of its own.
    """
    return {family: told for metric in collector.collect() for family, told in [_family(metric, service)]}


def _family(metric: Metric, service: str) -> tuple[str, TextFamily]:
    name = f"{metric.name}_total" if metric.type == "counter" else f"{metric.name}_info" if metric.type == "info" else metric.name
    own = f'service="{escaped(service)}"'
    lines = []
    for sample in metric.samples:
        if sample.name.endswith("_created"):
            continue
        labels = ",".join([f'{key}="{escaped(value)}"' for key, value in sample.labels.items()])
        if "service" not in sample.labels:
            labels = f"{own},{labels}" if labels else own
        lines.append(f"{sample.name}{{{labels}}} {floatToGoString(sample.value)}")
    return name, TextFamily(_KINDS.get(metric.type, metric.type), metric.documentation.replace("\\", r"\\").replace("\n", r"\n"), lines)


class MetricsPage:
    """ASGI application; answers without reading a body: nobody has a reason to send one.

    The text format, whoever asks: OpenMetrics can't say `envoy_cluster_upstream_rq` beside `envoy_cluster_upstream_rq_total`, as Envoy
    names them.  `families` are those beside the registries; it is called in a thread, where it may wait.
    """

    def __init__(self, service: str, families: Callable[[], TextFamilies] = dict):
        self._service = service
        self._families = families
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, scope: dict[str, Any], receive: object, send: Send) -> None:
        if scope["path"] != "/metrics":
            await _answer(send, 404, _PLAIN, b"not found: the metrics are at /metrics\n")
        elif scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, _PLAIN, b"use GET\n", (b"allow", b"GET, HEAD"))
        else:
            async with self._one_at_a_time:
                body = await asyncio.to_thread(self._body)
            await _answer(send, 200, CONTENT_TYPE_PLAIN_0_0_4, body)

    def _body(self) -> bytes:
        families = self._families()  # first, because some of the registry's numbers say how that went
        told = families_of(registry, self._service) | families_of(LIBRARIES, self._service) | families
        lines: list[str] = []
        for name, family in told.items():
            if family.lines:
                lines += (f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *family.lines)
        lines.append("")
        return "\n".join(lines).encode()


async def _answer(send: Send, status: int, content_type: str, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    known = ((b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store"))
    await send({"type": "http.response.start", "status": status, "headers": [*known, *headers]})
    await send({"type": "http.response.body", "body": body})
