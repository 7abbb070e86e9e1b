"""Monitor of Envoy's overload actions and limits, polled from its admin interface, for the log and metrics."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import structlog

from foundation.telemetry import metrics
from proxy.envoy.resources.bootstrap import HEAP, EnvoyLimits

log = structlog.get_logger(__name__)

POLL_INTERVAL, POLL_INTERVAL_DOWN = 5.0, 0.25  # seconds
_REJECTED = "downstream_global_cx_overflow"
_CONNECTED = "http.edge.downstream_cx_active"
_STATE = "server.state"  # 0: live
_STATS = f"^overload\\..*(pressure|active)$|{_REJECTED}$|^{_CONNECTED}$|^{_STATE}$"


class OverloadMonitor:
    """Last reported overload state. `update` logs changes."""

    def __init__(self, limits: EnvoyLimits) -> None:
        self._limits = limits
        self._active_actions: frozenset[str] = frozenset()
        self._rejected = 0

    def update(self, stats: Mapping[str, int]) -> None:
        metrics.envoy_resource_usage.labels("heap").set(stats.get(f"overload.{HEAP}.pressure", 0) / 100)
        metrics.envoy_resource_usage.labels("connections").set(stats.get(_CONNECTED, 0) / self._limits.connections)
        active = frozenset(name.split(".")[-2] for name, value in stats.items() if name.endswith(".active") and value)
        if new := active - self._active_actions:
            log.warning("envoy overload actions active", actions=sorted(new))
        if self._active_actions and not active:
            log.info("envoy overload actions ended")
        self._active_actions = active
        rejected = sum(value for name, value in stats.items() if name.endswith(_REJECTED))
        if rejected > self._rejected:
            log.warning("envoy rejected connections", connections=rejected - self._rejected)
        self._rejected = rejected


async def poll(admin: Path, limits: EnvoyLimits, set_live: Callable[[bool], None]) -> None:
    """Poll until cancelled, and report each result to `set_live`. EnvoyProcess restarts an Envoy that has exited."""
    overload = OverloadMonitor(limits)
    # No TLS on a Unix socket, so no CA certificates to load.
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(admin), verify=False), timeout=POLL_INTERVAL) as client:
        pause = POLL_INTERVAL
        while True:
            await asyncio.sleep(pause)
            try:
                response = await client.get("http://envoy/stats", params={"format": "json", "filter": _STATS})
                stats = _parse_stats(response.json())
                overload.update(stats)
                is_up = stats.get(_STATE) == 0
            except (httpx.TransportError, ValueError):
                is_up = False
            set_live(is_up)
            pause = POLL_INTERVAL if is_up else POLL_INTERVAL_DOWN


def _parse_stats(response: Mapping[str, Any]) -> dict[str, int]:
    return {each["name"]: each["value"] for each in response.get("stats", ()) if isinstance(each.get("value"), int)}
