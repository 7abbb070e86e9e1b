"""Peers: the other processes of this gate, as a runtime uses them.  process/workers has those of several processes."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from foundation.readiness import ComponentStatus
from foundation.telemetry.exposition import MetricFamilies
from gateproject.process.reload import ConfigurationStatus, InForce
from gateproject.process.services import Services
from gateproject.worker_process import WorkerProcess


class NoPeers:
    """No peers: this process reads the configuration, and does what is done once (tables, directory, renewals): it `is_primary`."""

    is_primary = True
    configuration: Any = None  # of a worker: the WorkerConfiguration that the primary has sent
    worker: WorkerProcess | None = None  # this process among them
    # Adds the metrics of the others to those of this process.
    collect_metrics: Callable[[MetricFamilies], Awaitable[MetricFamilies]] | None = None

    def readiness(self) -> Sequence[ComponentStatus]:
        return ()

    async def start(self, runtime: Any, start_parts: Callable[[], Awaitable[None]]) -> None:
        await start_parts()

    def on_ready(self, runtime: Any) -> None:
        runtime.say_ready()

    def change(self) -> AbstractAsyncContextManager[None]:
        """Context of a reload; an error in it takes back what `prepare` has prepared."""
        return nullcontext()

    async def prepare(self, services: Services, in_force: InForce) -> None:
        """Have the others build the same; ConfigError where one can't."""

    async def commit(self) -> None:
        """Have the others use what they have prepared."""

    async def report(self, status: ConfigurationStatus) -> None:
        """Tell the others how the reload ended."""

    async def stop(self) -> None:
        """Stop the others."""
