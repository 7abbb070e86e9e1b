"""Peers: gate's other processes, as a runtime uses them. process/workers implements them for several processes."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from foundation.readiness import ComponentStatus
from foundation.telemetry.exposition import MetricFamilies
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus
from gateproject.process.services import Services
from gateproject.worker_process import WorkerProcess


class NoPeers:
    """No peers: this process is the primary, which reads the configuration and runs singletons (tables, directory, refreshes)."""

    is_primary = True
    configuration: Any = None  # in a worker, the WorkerConfiguration from the primary
    worker: WorkerProcess | None = None  # including this process
    # Adds the metrics of the other processes.
    collect_metrics: Callable[[MetricFamilies], Awaitable[MetricFamilies]] | None = None

    def readiness(self) -> Sequence[ComponentStatus]:
        return ()

    async def start(self, runtime: Any, start_parts: Callable[[], Awaitable[None]]) -> None:
        await start_parts()

    def on_ready(self, runtime: Any) -> None:
        runtime.announce_ready()

    def change(self) -> AbstractAsyncContextManager[None]:
        """Context of a reload; an error in it rolls back `prepare`."""
        return nullcontext()

    async def prepare(self, services: Services, provenance: ConfigProvenance) -> None:
        """Make the other processes build the same. Raise ConfigError if one fails."""

    async def commit(self) -> None:
        """Make the other processes use what they have prepared."""

    async def report(self, status: ConfigurationStatus) -> None:
        """Send the result of the reload to the other processes."""

    async def stop(self) -> None:
        """Stop the other processes."""
