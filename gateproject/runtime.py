"""What runs: the services built from one set of Options, their background work, and their end."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from django.core.management import call_command

from authenticate.service import AuthenticateService
from authorize.service import AuthorizeService
from databroker.client import BrokerClient
from databroker.service import DataBrokerService
from gateproject.config.options import Options
from gateproject.crypto.signing_key import SigningKey
from gateproject.telemetry.logs import configure_logs
from gateproject.tasks import spawn
from proxy.service import ProxyService

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class World:
    """Everything that one request needs.  A handler reads it once, on its first line, so that a request sees one world."""

    options: Options
    broker: BrokerClient
    authorize: AuthorizeService
    authenticate: AuthenticateService
    proxy: ProxyService


class Runtime:
    """The services of mode `all`, in one process."""

    def __init__(self, options: Options, clock: Callable[[], float] = time.time):
        self.options = options
        self._clock = clock
        self._databroker = DataBrokerService(clock=clock)
        self.world = self._build(options)

    def _build(self, options: Options) -> World:
        broker = self._databroker.client
        signing_key = SigningKey.from_options(options)
        authorize = AuthorizeService(options, self._databroker.replica, signing_key, self._clock)
        return World(
            options=options,
            broker=broker,
            authorize=authorize,
            authenticate=AuthenticateService(options, broker, signing_key, self._clock),
            proxy=ProxyService(options, authorize, self._clock),
        )

    def begin(self) -> None:
        """Begin the background work; called once, when the event loop runs."""
        spawn(self._start(), name="start")

    async def _start(self) -> None:
        await self._databroker.start()
        await self.world.authenticate.start()

    def say_ready(self) -> None:
        log.info("gate is ready", routes=len(self.options.policy), authenticate=self.options.authenticate_service_url.origin)

    async def stop(self) -> None:
        await self.world.proxy.stop()
        await self.world.authenticate.stop()
        await self._databroker.stop()
        log.info("gate has stopped")


def prepare(options: Options) -> None:
    """What must be true before the first request: logs as configured, the data directory ours alone, the database migrated."""
    configure_logs(options.log_level, options.proxy_log_level or options.log_level, readable=options.gate_debug)
    options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    call_command("migrate", verbosity=0, interactive=False)
