"""Background work of the authenticate service that one process of a gate does."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from authenticate.jwks_publisher import JwksPublisher
from authenticate.provider_health import ProviderHealth
from authenticate.removed_directories import RemovedDirectories
from authenticate.removed_providers import RemovedProviders
from authenticate.scim.scim_directory import ScimDirectory
from authenticate.scim.scim_errors import ScimError
from authenticate.session.linked_account_index import LinkedAccountIndexer
from authenticate.session.refresh_worker import CONCURRENCY, RefreshWorker
from authenticate.session.session_refresh import SessionRefresh
from authenticate.session.session_service import SessionService
from authenticate.upstream_oauth.connection_refresh import ConnectionRefresh
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.leader_election import run_elected
from foundation.backoff import retry
from foundation.errors import BrokerError, GateError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

INITIAL_BACKOFF = 0.5  # seconds
STOP_GRACE_SECONDS = 60.0  # for sign-ins of the previous configuration: four exchanges with the provider end within it
# Seconds before each cleanup after a start. The second run finds what requests of the previous configuration wrote, in any process.
CLEANUP_DELAYS = (0.0, STOP_GRACE_SECONDS + 10.0)


class BackgroundWork:
    """Cleanup after a change of configuration, provider health, published keys, and the election of the refresh worker."""

    def __init__(
        self,
        options: Options,
        broker: BrokerClient,
        *,
        sessions: SessionService,
        scim: Mapping[str, ScimDirectory],
        refresh: SessionRefresh,
        connection_refresh: ConnectionRefresh,
        provider_health: ProviderHealth,
        published_keys: JwksPublisher,
        clock: Callable[[], float],
    ):
        self._options = options
        self._broker = broker
        self._sessions = sessions
        self._scim = scim
        self._refresh = refresh
        self._connection_refresh = connection_refresh
        self._provider_health = provider_health
        self._published_keys = published_keys
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks.append(spawn(self._clean_up_sessions(), name="cleanup of the sessions"))
        self._tasks.append(spawn(self._clean_up_directories(), name="cleanup of the directories"))
        self._tasks.append(spawn(self._provider_health.run(), name="provider health checks"))
        self._tasks.append(spawn(self._published_keys.run(), name="published keys"))
        interval = self._options.idp_refresh_directory_interval.total_seconds()
        at_once = CONCURRENCY * len(self._options.providers)
        worker = RefreshWorker(
            self._refresh,
            self._broker,
            interval=interval,
            clock=self._clock,
            concurrency=at_once,
            connection_refresh=self._connection_refresh,
        )
        self._tasks.append(spawn(run_elected(self._broker, "session refresh", worker.run), name="election for session refresh"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _clean_up_sessions(self) -> None:
        for pause in CLEANUP_DELAYS:
            await asyncio.sleep(pause)
            await RemovedProviders(self._options, self._broker).run()
            await LinkedAccountIndexer(self._sessions, self._broker).run()

    async def _clean_up_directories(self) -> None:
        for pause in CLEANUP_DELAYS:
            await asyncio.sleep(pause)
            await RemovedDirectories(self._options, self._broker).run()
            await asyncio.gather(*map(self._repair_scim, self._scim.values()))

    async def _repair_scim(self, directory: ScimDirectory) -> None:
        def log_failure(error: GateError) -> None:
            log.warning("SCIM repair failed", provider=directory.provider.id, reason=str(error))

        await retry(directory.repair, log_failure, INITIAL_BACKOFF, (BrokerError, ScimError))
