"""Prometheus exposition: an ASGI application with `/metrics`, and nothing else."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from prometheus_client import REGISTRY as LIBRARIES
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

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


class AllMetrics:
    """Registries as one: ours, and what libraries count by themselves (the process, the garbage collector, the database).

    Every sample has the label `service`; those that were declared without it get this process's.
    """

    def __init__(self, service: str, *registries: CollectorRegistry):
        self._service = service
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        for each in self._registries:
            yield from map(self._labelled, each.collect())

    def _labelled(self, metric: Metric) -> Metric:
        if all("service" in sample.labels for sample in metric.samples):
            return metric
        labelled = copy.copy(metric)  # a collector may keep its own
        labelled.samples = [sample._replace(labels={"service": self._service, **sample.labels}) for sample in metric.samples]
        return labelled


class MetricsPage:
    """ASGI application; answers without reading a body: nobody has a reason to send one.

    The text format, whoever asks: OpenMetrics can't say `envoy_cluster_upstream_rq` beside `envoy_cluster_upstream_rq_total`, as Envoy
    names them.  `families` are those beside the registries; it is called in a thread, where it may wait.
    """

    def __init__(self, service: str, families: Callable[[], TextFamilies] = dict):
        self._all = AllMetrics(service, registry, LIBRARIES)
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
        lines: list[str] = []
        for name, family in families.items():
            if family.lines:
                lines += (f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *family.lines)
        return generate_latest(self._all) + "".join(f"{line}\n" for line in lines).encode()


async def _answer(send: Send, status: int, content_type: str, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    known = ((b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store"))
    await send({"type": "http.response.start", "status": status, "headers": [*known, *headers]})
    await send({"type": "http.response.body", "body": body})
