"""Prometheus exposition: an ASGI application with `/metrics`, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from prometheus_client import REGISTRY as LIBRARIES
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from foundation.telemetry.metrics import registry

_PLAIN = "text/plain; charset=utf-8"

Send = Callable[[dict[str, Any]], Awaitable[None]]


class AllMetrics:
    """Registries as one: ours, and what libraries count by themselves: the process, the garbage collector, the database."""

    def __init__(self, *registries: CollectorRegistry):
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        for each in self._registries:
            yield from each.collect()


async def metrics(scope: dict[str, Any], receive: object, send: Send) -> None:
    """The ASGI application; answers without reading a body: nobody has a reason to send one."""
    if scope["path"] != "/metrics":
        await _answer(send, 404, _PLAIN, b"not found: the metrics are at /metrics\n")
    elif scope["method"] not in ("GET", "HEAD"):
        await _answer(send, 405, _PLAIN, b"use GET\n", (b"allow", b"GET, HEAD"))
    else:
        accepted = b",".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1")
        encode, content_type = choose_encoder(accepted)
        # Some collectors read files of the kernel, and there may be ten thousand series.
        body = await asyncio.to_thread(encode, AllMetrics(registry, LIBRARIES))
        await _answer(send, 200, content_type, body)


async def _answer(send: Send, status: int, content_type: str, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    known = ((b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store"))
    await send({"type": "http.response.start", "status": status, "headers": [*known, *headers]})
    await send({"type": "http.response.body", "body": body})
