"""First of several processes: it keeps what there is once, and asks the others what all must agree to."""

import asyncio
import json
import os
import socket
from dataclasses import dataclass, field

import structlog
from django.conf import settings

from foundation.errors import ConfigError, Problem
from foundation.readiness import PartReadiness, ReadinessReport, degraded
from foundation.tasks import spawn
from foundation.telemetry import metrics
from foundation.telemetry.exposition import MetricsPage, TextFamilies
from gateproject.process.in_force import InForce
from gateproject.process.reload import ConfigurationStatus, Reload
from gateproject.process.rpc_services import RpcServices
from gateproject.process.runtime import Runtime
from gateproject.process.services import Services
from gateproject.process.workers.configuration import WorkerConfiguration
from gateproject.process.workers.link import WorkerLink, WorkerLinks, WorkerLost, end_with, spawn_reader
from gateproject.process.workers.metrics_sum import MetricsSum
from gateproject.process.workers.supervisor import SERVES
from gateproject.worker_process import FIRST, WorkerProcess

log = structlog.get_logger(__name__)

HERE_SECONDS = 5.0  # no loop stands still for so long
PART = "workers"
PREPARE_SECONDS = 60.0  # ten thousand routes take two or three
COMMIT_SECONDS = 10.0
TELL_SECONDS = 2.0  # a reader of metrics waits no longer for one worker
STOP_SECONDS = 15.0


@dataclass(slots=True)
class FirstRuntime(Runtime):
    """Runtime of the first process."""

    worker: WorkerProcess = field(kw_only=True)
    _links: WorkerLinks = field(init=False)
    _sum: MetricsSum = field(init=False)
    _has_started: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._links = WorkerLinks(self.worker.count, self._configuration, self._lost)
        self._sum = MetricsSum()
        Runtime.__post_init__(self)
        metrics.workers_serving.set_function(lambda: 1 + len(self._links.serving))

    def _rpc_services(self) -> RpcServices:
        return RpcServices(self.options, self.clock, self.worker)

    def readiness(self) -> ReadinessReport:
        """Readiness, with that of the workers: one of them is enough to serve."""
        report = Runtime.readiness(self)
        serving, wanted = 1 + len(self._links.serving), self.worker.count
        part = (
            PartReadiness(PART)
            if serving == wanted
            else degraded(PART, f"{serving} of {wanted} worker processes are running. The log has the exits")
        )
        return ReadinessReport((*report.parts, part))

    def _metrics_page(self) -> MetricsPage:
        return MetricsPage(self.options.service_label, self._families, self._with_others)

    async def _with_others(self, own: TextFamilies) -> TextFamilies:
        answers = await self._links.ask("metrics", None, TELL_SECONDS)
        told = {link.number: families for link, families in answers.items() if not isinstance(families, WorkerLost)}
        return await asyncio.to_thread(self._sum.of, {FIRST: own, **told})

    async def _start(self) -> None:
        end_with(self.worker.life, asyncio.get_running_loop())
        await Runtime._start(self)
        await self._links.start(self.worker.workers_socket)
        self._background.append(spawn_reader(self.worker.news, self._heard))
        self._has_started.set()

    def say_ready(self) -> None:
        self._background.append(spawn(self._say_ready(), name="start of the workers"))

    async def _say_ready(self) -> None:
        await self._has_started.wait()
        os.kill(os.getppid(), SERVES)
        await self._links.all_serve.wait()
        Runtime.say_ready(self)

    def _heard(self, line: bytes) -> None:
        ended = json.loads(line)
        metrics.worker_ends.inc()
        log.error("worker exited", **ended)

    def _lost(self, link: WorkerLink) -> None:
        self._sum.keep(link.number)

    async def _configuration(self) -> WorkerConfiguration:
        """What a worker begins with, which has what the command began with."""
        key = self.services.signing_key
        return await asyncio.to_thread(WorkerConfiguration.written, self.options, settings.GATE_OPTIONS, self.status, self.in_force, key)

    async def _reload(self) -> None:
        async with self._links.change():
            try:
                await Runtime._reload(self)
            except BaseException:
                await self._links.ask("forget", None, COMMIT_SECONDS)
                raise

    async def reload(self) -> None:
        await Runtime.reload(self)
        await self._links.ask("status", self.status, COMMIT_SECONDS)

    async def _prepare_others(self, services: Services, in_force: InForce) -> None:
        """All or nothing: each worker has built what follows, or nobody takes it."""
        await self._end_who_is_silent("here", HERE_SECONDS)  # so that one that stands still holds nobody up for long
        status, key = ConfigurationStatus.of(self.source), services.signing_key
        written = await asyncio.to_thread(WorkerConfiguration.written, services.options, self.options, status, in_force, key)
        answers = await self._links.ask("prepare", written, PREPARE_SECONDS)
        problems: dict[str, Problem] = {}
        for link, answer in answers.items():
            if isinstance(answer, WorkerLost):
                link.kill()
            else:
                problems |= {str(problem): problem for problem in answer}
        if problems:
            raise ConfigError(list(problems.values()))

    async def _tell(self, old: Services, services: Services, taken: socket.socket | None, reload: Reload) -> None:
        """Nothing is said to be in force before it is on every worker."""
        await asyncio.gather(self._commit(), Runtime._tell(self, old, services, taken, reload))

    async def _commit(self) -> None:
        await self._end_who_is_silent("commit", COMMIT_SECONDS)

    async def _end_who_is_silent(self, asked: str, seconds: float) -> None:
        for link, answer in (await self._links.ask(asked, None, seconds)).items():
            if isinstance(answer, WorkerLost):
                link.kill()

    async def stop(self) -> None:
        await self._links.stop(STOP_SECONDS)
        await Runtime.stop(self)
