"""Worker after the first: it judges and carries; what is kept once it asks of the first process, and does what that one says."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import structlog
from django.conf import settings

from config.options import Options
from config.source import ConfigSource
from foundation.crypto.signing_key import SigningKey
from foundation.errors import ConfigError, Problem
from foundation.tasks import spawn
from foundation.telemetry import logs
from foundation.telemetry.exposition import TextFamilies
from gateproject.process.gc_tuning import made_beside_requests
from gateproject.process.in_force import InForce
from gateproject.process.reload import ConfigurationStatus
from gateproject.process.rpc_services import RpcServices
from gateproject.process.runtime import Runtime
from gateproject.process.services import Services
from gateproject.process.workers.configuration import WorkerConfiguration
from gateproject.process.workers.first import FirstRuntime
from gateproject.process.workers.link import Answer, FirstLink, end_with
from gateproject.settings import cookie_settings
from gateproject.worker_process import WorkerProcess
from proxy.autocert.service import Autocert

log = structlog.get_logger(__name__)

LOOK_EVERY = 0.2  # seconds
LONGEST_TURN = 0.5  # seconds that the event loop may be busy without having been stopped


@dataclass(slots=True)
class WorkerRuntime(Runtime):
    """Runtime of a process after the first; `link` is to that one, with the configuration to begin with."""

    worker: WorkerProcess = field(kw_only=True)
    link: FirstLink = field(kw_only=True)
    _given: WorkerConfiguration = field(init=False)
    _next: tuple[Services, InForce] | None = None
    is_first: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._given = self.link.configuration
        self.autocert = Autocert(self.clock, obtains=False)
        for name, value in cookie_settings(self.options).items():
            setattr(settings, name, value)
        Runtime.__post_init__(self)
        self._metrics.is_on = False

    def _rpc_services(self) -> RpcServices:
        return RpcServices(self.options, self.clock, self.worker)

    def _key_of_first(self) -> SigningKey | None:
        return self._given.key(self.options.signing_key_algorithm)

    def _status_now(self) -> ConfigurationStatus:
        return self._given.status.tell(self.options.service_label)

    def _in_force_now(self) -> InForce:
        return self._given.read_in_force()

    def open_redirects(self) -> None:
        """The first process has it."""

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        end_with(self.worker.life, loop)
        watch_standstill(loop, self._databroker.replica.doubt)
        await Runtime._start(self)

    async def _follow_configuration(self) -> None:
        """The first process says what is in force, and reads the files."""

    async def reload(self) -> None:
        """SIGHUP is for the first process."""

    def say_ready(self) -> None:
        answers: dict[str, Answer] = {
            "here": self._forget,
            "prepare": self._prepare,
            "commit": self._commit,
            "forget": self._forget,
            "status": self._take_status,
            "metrics": self._told,
        }
        self._background.append(spawn(self.link.follow(answers), name="the first process"))

    async def _prepare(self, given: WorkerConfiguration) -> Sequence[Problem]:
        """Build what follows from a configuration; what is wrong with it, or nothing."""
        try:
            self._next = await asyncio.to_thread(self._built, given)
        except ConfigError as error:
            return error.problems
        except Exception as error:  # whatever it is, the first process hears of it, and nothing changes
            log.exception("configuration reload failed")
            return (Problem("", f"worker {self.worker.number} failed to apply it: {type(error).__name__}: {error}"),)
        self._given = given
        return ()

    def _built(self, given: WorkerConfiguration) -> tuple[Services, InForce]:
        with made_beside_requests():
            options = given.read(self.options)
            return self._builder.build(options, self.services, given.key(options.signing_key_algorithm)), given.read_in_force()

    async def _commit(self, _: None) -> None:
        if self._next is not None:
            (services, in_force), self._next = self._next, None
            await self._swap(services, in_force, cookie_settings(services.options), None, "")

    async def _forget(self, _: None) -> None:
        self._next = None

    async def _take_status(self, status: ConfigurationStatus) -> None:
        """What is wrong with a newer file, which the admin shows on any of us."""
        self.status = status.tell(self.options.service_label)

    async def _told(self, _: None) -> TextFamilies:
        return await asyncio.to_thread(self._metrics_page().collected)


def watch_standstill(loop: asyncio.AbstractEventLoop, stood_still: Callable[[], None]) -> None:
    """Call `stood_still` when the process goes on after it was stopped.

    By a callback and no task: the loop calls it before the tasks of requests that it reads in the same turn.
    """
    due = loop.time() + LOOK_EVERY

    def look() -> None:
        late = loop.time() - due
        watch_standstill(loop, stood_still)
        if late > LONGEST_TURN:
            log.warning("process was suspended", seconds=round(late, 1))
            stood_still()

    loop.call_at(due, look)


def runtime_of(worker: WorkerProcess, options: Options, source: ConfigSource) -> Runtime:
    """Runtime of one of several processes; `options` are those of the start.  After the first, it has what that one says is in force."""
    logs.worker["worker"] = worker.number
    if worker.is_first:
        return FirstRuntime(options, source, worker=worker)
    link = FirstLink(worker.workers_socket, worker.number)
    in_force = link.configuration.read(options)
    logs.configure_logs(in_force.log_level, in_force.proxy_log_level, readable=in_force.gate_debug)
    return WorkerRuntime(in_force, source, worker=worker, link=link)
