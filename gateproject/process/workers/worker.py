"""Worker other than the primary: it serves requests, and uses the primary for singletons."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog
from django.conf import settings

from config.config_watcher import ConfigWatcher
from config.options import Options
from foundation.errors import ConfigError, Problem
from foundation.telemetry import logs
from foundation.telemetry.exposition import MetricFamilies
from gateproject.process.gc_tuning import background_build
from gateproject.process.peers import NoPeers
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus
from gateproject.process.runtime import Runtime
from gateproject.process.services import Services
from gateproject.process.workers.link import Answer, PrimaryConnection, terminate_when_closed
from gateproject.process.workers.primary import PrimaryPeers
from gateproject.process.workers.worker_configuration import WorkerConfiguration
from gateproject.settings import cookie_settings
from gateproject.worker_process import WorkerProcess
from proxy.autocert.autocert_service import Autocert

log = structlog.get_logger(__name__)

SUSPENSION_POLL_INTERVAL = 0.2  # seconds
MAX_LAG_SECONDS = 0.5  # maximum lag of the event loop; more means that the process was suspended


class WorkerPeers(NoPeers):
    """Peers of a worker: the primary, which reads the configuration and holds the singletons; `link` is the link to it."""

    is_primary = False
    worker: WorkerProcess

    def __init__(self, worker: WorkerProcess, link: PrimaryConnection):
        self.worker = worker
        self._link = link
        self.configuration: WorkerConfiguration = link.configuration
        self._next: tuple[Services, ConfigProvenance] | None = None
        self._runtime: Runtime  # as soon as it is ready

    async def start(self, runtime: Runtime, start_parts: Callable[[], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        terminate_when_closed(self.worker.supervisor_alive, loop)
        detect_suspension(loop, runtime.databroker.replica.invalidate)
        await start_parts()

    def on_ready(self, runtime: Runtime) -> None:
        self._runtime = runtime
        answers: dict[str, Answer] = {
            "here": self._forget,
            "prepare": self._prepare,
            "commit": self._commit,
            "forget": self._forget,
            "status": self._set_status,
            "metrics": self._collect_metrics,
        }
        runtime.run_in_background(self._link.follow(answers), "the first process")

    async def _prepare(self, configuration: WorkerConfiguration) -> Sequence[Problem]:
        """Build the services of a configuration; return its problems, if any."""
        try:
            self._next = await asyncio.to_thread(self._build, configuration)
        except ConfigError as error:
            return error.problems
        except Exception as error:  # every error is sent to the primary, and nothing changes
            log.exception("configuration reload failed")
            return (Problem("", f"worker {self.worker.number} failed to apply it: {type(error).__name__}: {error}"),)
        self.configuration = configuration
        return ()

    def _build(self, configuration: WorkerConfiguration) -> tuple[Services, ConfigProvenance]:
        with background_build():
            options = configuration.deserialize(self._runtime.options)
            key = configuration.key(options.signing_key_algorithm)
            return self._runtime.builder.build(options, self._runtime.services, key), configuration.deserialize_provenance()

    async def _commit(self, _: None) -> None:
        if self._next is not None:
            (services, provenance), self._next = self._next, None
            await self._runtime.swap(services, provenance, cookie_settings(services.options), None, "")

    async def _forget(self, _: None) -> None:
        self._next = None

    async def _set_status(self, status: ConfigurationStatus) -> None:
        """Set the status of a rejected newer file, which every worker's admin shows."""
        self._runtime.status = status.publish(self._runtime.options.service_label)

    async def _collect_metrics(self, _: None) -> MetricFamilies:
        return await asyncio.to_thread(self._runtime.metrics_page.collect)


def detect_suspension(loop: asyncio.AbstractEventLoop, stood_still: Callable[[], None]) -> None:
    """Call `stood_still` when the process resumes after it was suspended.

    This is a callback instead of a task, because the event loop runs it before the tasks of requests of the same iteration.
    """
    due = loop.time() + SUSPENSION_POLL_INTERVAL

    def check_lag() -> None:
        late = loop.time() - due
        detect_suspension(loop, stood_still)
        if late > MAX_LAG_SECONDS:
            log.warning("process was suspended", duration_seconds=round(late, 1))
            stood_still()

    loop.call_at(due, check_lag)


def create_runtime(worker: WorkerProcess, options: Options, source: ConfigWatcher) -> Runtime:
    """Return the runtime of a worker. Workers other than the primary use its active configuration instead of `options`."""
    logs.worker["worker"] = worker.number
    if worker.is_primary:
        return Runtime(options, source, peers=PrimaryPeers(worker))
    link = PrimaryConnection(worker.workers_socket, worker.number)
    active_options = link.configuration.deserialize(options)
    logs.configure_logs(active_options.log_level, active_options.proxy_log_level, readable=active_options.gate_debug)
    for name, value in cookie_settings(active_options).items():
        setattr(settings, name, value)
    return Runtime(active_options, source, peers=WorkerPeers(worker, link), autocert=Autocert(is_leader_candidate=False))
