"""Primary worker: holds the singletons, and coordinates the other workers."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
from django.conf import settings

from foundation.errors import ConfigError, Problem
from foundation.readiness import ComponentStatus, degraded
from foundation.telemetry import metrics
from foundation.telemetry.exposition import MetricFamilies
from gateproject.process.peers import NoPeers
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus
from gateproject.process.runtime import Runtime
from gateproject.process.services import Services
from gateproject.process.workers.link import WorkerConnection, WorkerConnections, WorkerUnavailable, follow_lines, terminate_when_closed
from gateproject.process.workers.metrics_aggregator import MetricsAggregator
from gateproject.process.workers.supervisor import READY_SIGNAL
from gateproject.process.workers.worker_configuration import WorkerConfiguration
from gateproject.worker_process import PRIMARY, WorkerProcess

log = structlog.get_logger(__name__)

PING_SECONDS = 5.0  # no event loop blocks for this long
PART = "workers"
PREPARE_SECONDS = 60.0  # 10,000 routes take two or three
COMMIT_SECONDS = 10.0
METRICS_SECONDS = 2.0  # maximum delay of a scrape by one worker
STOP_SECONDS = 15.0


class PrimaryPeers(NoPeers):
    """Peers of the primary: the other worker processes."""

    worker: WorkerProcess

    def __init__(self, worker: WorkerProcess):
        self.worker = worker
        self._links = WorkerConnections(worker.count, self._configuration, self._on_worker_lost)
        self._sum = MetricsAggregator()
        self._has_started = asyncio.Event()
        self._runtime: Runtime  # from the start

    def readiness(self) -> Sequence[ComponentStatus]:
        """Return the readiness of the workers; one is enough to serve."""
        serving, expected = 1 + len(self._links.serving), self.worker.count
        if serving == expected:
            return (ComponentStatus(PART),)
        return (degraded(PART, f"{serving} of {expected} worker processes are running. The log has the exits"),)

    async def collect_metrics(self, own: MetricFamilies) -> MetricFamilies:
        answers = await self._links.request_all("metrics", None, METRICS_SECONDS)
        reported = {link.number: families for link, families in answers.items() if not isinstance(families, WorkerUnavailable)}
        return await asyncio.to_thread(self._sum.aggregate, {PRIMARY: own, **reported})

    async def start(self, runtime: Runtime, start_parts: Callable[[], Awaitable[None]]) -> None:
        self._runtime = runtime
        metrics.workers_serving.set_function(lambda: 1 + len(self._links.serving))
        terminate_when_closed(self.worker.supervisor_alive, asyncio.get_running_loop())
        await start_parts()
        await self._links.start(self.worker.workers_socket)
        runtime.run_in_background(follow_lines(self.worker.worker_exits, self._log_exit), "worker exits")
        self._has_started.set()

    def on_ready(self, runtime: Runtime) -> None:
        runtime.run_in_background(self._announce_ready(runtime), "start of the workers")

    async def _announce_ready(self, runtime: Runtime) -> None:
        await self._has_started.wait()
        os.kill(os.getppid(), READY_SIGNAL)
        await self._links.all_ready.wait()
        runtime.announce_ready()

    def _log_exit(self, line: bytes) -> None:
        ended = json.loads(line)
        metrics.worker_exits.inc()
        log.error("worker exited", **ended)

    def _on_worker_lost(self, link: WorkerConnection) -> None:
        self._sum.retire(link.number)

    async def _configuration(self) -> WorkerConfiguration:
        """Return what a worker starts with, including the options of the start."""
        runtime, key = self._runtime, self._runtime.services.signing_key
        return await asyncio.to_thread(
            WorkerConfiguration.serialize, runtime.options, settings.GATE_OPTIONS, runtime.status, runtime.provenance, key
        )

    @asynccontextmanager
    async def change(self) -> AsyncGenerator[None]:
        async with self._links.change():
            try:
                yield
            except BaseException:
                await self._links.request_all("forget", None, COMMIT_SECONDS)
                raise

    async def prepare(self, services: Services, provenance: ConfigProvenance) -> None:
        """Prepare all or none: every worker has built the configuration, or all discard it."""
        await self._kill_unresponsive("here", PING_SECONDS)  # so that a suspended worker does not delay the others
        status, key = ConfigurationStatus.from_watcher(self._runtime.source), services.signing_key
        written = await asyncio.to_thread(WorkerConfiguration.serialize, services.options, self._runtime.options, status, provenance, key)
        answers = await self._links.request_all("prepare", written, PREPARE_SECONDS)
        problems: dict[str, Problem] = {}
        for link, answer in answers.items():
            if isinstance(answer, WorkerUnavailable):
                link.kill()
            else:
                problems |= {str(problem): problem for problem in answer}
        if problems:
            raise ConfigError(list(problems.values()))

    async def commit(self) -> None:
        await self._kill_unresponsive("commit", COMMIT_SECONDS)

    async def report(self, status: ConfigurationStatus) -> None:
        await self._links.request_all("status", status, COMMIT_SECONDS)

    async def _kill_unresponsive(self, message: str, seconds: float) -> None:
        for link, answer in (await self._links.request_all(message, None, seconds)).items():
            if isinstance(answer, WorkerUnavailable):
                link.kill()

    async def stop(self) -> None:
        await self._links.stop(STOP_SECONDS)
