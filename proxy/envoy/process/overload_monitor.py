"""Overload of Envoy: whether it is short of memory or of connections, asked of its admin interface for the log and the metrics."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import structlog

from foundation.telemetry import metrics
from proxy.envoy.resources.bootstrap import HEAP, EnvoyLimits

log = structlog.get_logger(__name__)

LOOK_EVERY, LOOK_WHILE_DOWN = 5.0, 0.25  # seconds
_REFUSED = "downstream_global_cx_overflow"
_CONNECTED = "http.edge.downstream_cx_active"
_STATE = "server.state"  # 0: live
_STATS = f"^overload\\..*(pressure|active)$|{_REFUSED}$|^{_CONNECTED}$|^{_STATE}$"


class OverloadState:
    """Overload state; what Envoy said last.  `tell` logs what is new since."""

    def __init__(self, most: EnvoyLimits) -> None:
        self._most = most
        self._helping: frozenset[str] = frozenset()
        self._refused = 0

    def tell(self, stats: Mapping[str, int]) -> None:
        metrics.envoy_resource_usage.labels("heap").set(stats.get(f"overload.{HEAP}.pressure", 0) / 100)
        metrics.envoy_resource_usage.labels("connections").set(stats.get(_CONNECTED, 0) / self._most.connections)
        helping = frozenset(name.split(".")[-2] for name, value in stats.items() if name.endswith(".active") and value)
        if new := helping - self._helping:
            log.warning("envoy overload actions active", actions=sorted(new))
        if self._helping and not helping:
            log.info("envoy overload actions ended")
        self._helping = helping
        refused = sum(value for name, value in stats.items() if name.endswith(_REFUSED))
        if refused > self._refused:
            log.warning("envoy rejected connections", connections=refused - self._refused)
        self._refused = refused


async def watch(admin: Path, most: EnvoyLimits, is_live: Callable[[bool], None]) -> None:
    """Poll for ever; `is_live` is told each time.  An Envoy that does not answer is looked after elsewhere."""
    overload = OverloadState(most)
    # No TLS on a Unix socket, so no authorities to load.
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(admin), verify=False), timeout=LOOK_EVERY) as client:
        pause = LOOK_EVERY
        while True:
            await asyncio.sleep(pause)
            try:
                answer = await client.get("http://envoy/stats", params={"format": "json", "filter": _STATS})
                stats = _numbers(answer.json())
                overload.tell(stats)
                is_up = stats.get(_STATE) == 0
            except (httpx.TransportError, ValueError):
                is_up = False
            is_live(is_up)
            pause = LOOK_EVERY if is_up else LOOK_WHILE_DOWN


def _numbers(said: Mapping[str, Any]) -> dict[str, int]:
    return {each["name"]: each["value"] for each in said.get("stats", ()) if isinstance(each.get("value"), int)}
