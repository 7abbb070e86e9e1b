"""Data broker service of this process: its store or remote client, the replica, and their background tasks."""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from databroker.broker_client import BrokerClient, InvalidatingBroker
from databroker.claims import ProviderClaims
from databroker.clock_skew import ClockSkewMonitor
from databroker.leader_election import run_elected
from databroker.projection import last_seen, rows
from databroker.projection.projection import Projection
from databroker.records import SESSION
from databroker.replica import Replica
from databroker.store.base import StoreBackend
from databroker.store.sealed import SealedStore
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError
from foundation.readiness import ComponentStatus, degraded, failing, format_utc
from foundation.tasks import spawn
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

# Open WebSockets of an expired session are closed when the sweep deletes the session, so this is their maximum delay.
SWEEP_INTERVAL = 0.5
PART = "data broker"
NOT_CONTACTED_YET = "not contacted yet"
# Takes about a millisecond with 100,000 records; requests are served between two batches.
SWEEP_BATCH = 100


class DataBrokerService:
    """Data broker service.  `start` and `stop` run in the same event loop.  Records can be read and written before `start`."""

    def __init__(
        self,
        store: StoreBackend | None,
        clock: Callable[[], float] = time.time,
        *,
        sweep_interval: float = SWEEP_INTERVAL,
        activity_interval: float = last_seen.INTERVAL,
        remote: BrokerClient | None = None,
        staleness: float = 0.0,
        has_replica: bool = True,
        has_tables: bool = True,
        writes_last_seen: bool | None = None,
        provider_claims: ProviderClaims | None = None,
    ):
        """Use `store`, or `remote`, whose process deletes expired records.

        `has_replica`: this process authorizes requests, or forwards connections that a change can end.
        `has_tables`: this process serves the admin.
        `writes_last_seen`: this process writes the last use of sessions to the admin tables; None: the same as `has_tables`.
        `provider_claims`: claims that the admin displays as authoritative.
        """
        self._has_replica = has_replica
        self._has_tables = has_tables
        self._writes_last_seen = has_tables if writes_last_seen is None else writes_last_seen
        self._sweep_interval = sweep_interval
        self._store = store
        client = _client(store, remote)
        self.replica = Replica(client, clock=clock, staleness=staleness)
        self.client: BrokerClient = InvalidatingBroker(client, self.replica.apply_local_deletion)
        self.activity = last_seen.LastSeenBuffer(rows.write_last_seen, clock=clock, interval=activity_interval)
        self._projection = Projection(self.client, provider_claims)
        self._projection_task: asyncio.Task[None] | None = None
        self._skew_monitor = ClockSkewMonitor()
        self._tasks: list[asyncio.Task[None]] = []

    def reconfigure(self, secrets: Sequence[bytes], staleness: float, provider_claims: ProviderClaims | None = None) -> None:
        """Apply a new `shared_secret` and `session_staleness`.  Rebuild the admin tables if `provider_claims` changed."""
        if provider_claims != self._projection.provider_claims:
            self._projection.provider_claims = provider_claims
            if self._projection_task is not None:
                self._projection_task.cancel()
                self._start_projection()
        self.replica.staleness = staleness
        if isinstance(self._store, SealedStore):
            self._store.rotate_keys(secrets)

    async def start(self) -> None:
        if self._has_replica:
            self._tasks.append(spawn(self.replica.run(), name="replica"))
        if self._has_tables:
            self._start_projection()
        metrics.sessions_cached.set_function(lambda: self.replica.count(SESSION))
        if self._writes_last_seen:
            self._tasks.append(spawn(self.activity.run(), name="last seen"))
        if (store := self._store) is not None:
            work = run_elected(store, "sweep of expired records", lambda: self._sweep(store))
            self._tasks.append(spawn(work, name="election of the sweep"))
            self._tasks.append(spawn(self._skew_monitor.run(store), name="the store's clock"))

    def readiness(self) -> ComponentStatus:
        """Return the readiness.

        It fails if the replica may not serve cached sessions, or, in a process without a replica, if the store does not respond.
        """
        name, replica, store = PART, self.replica, self._skew_monitor.store_health
        if self._has_replica and not replica.is_following:
            reason = (
                f"no change stream since {format_utc(replica.health.changed_at)}: {replica.health.error}"
                if replica.health.error
                else NOT_CONTACTED_YET
            )
            if replica.is_serving:
                return degraded(name, f"{reason}; cached sessions stay valid for at most session_staleness ({replica.staleness:g} s)")
            return failing(name, f"{reason}; requests that need a session get 503")
        if not self._has_replica and not store.changed_at:
            return failing(name, NOT_CONTACTED_YET)
        if not self._has_replica and store.error:
            return failing(name, f"the store is unavailable since {format_utc(store.changed_at)}: {store.error}")
        if self._skew_monitor.exceeds_limit:
            skew = self._skew_monitor.skew
            return degraded(
                name,
                f"this machine's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the store's. Synchronize the clocks",
            )
        return ComponentStatus(name)

    def _start_projection(self) -> None:
        self._projection_task = spawn(self._projection.run(), name="projection")
        self._tasks.append(self._projection_task)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []
        if self._store is not None:
            await self._store.close()

    async def _sweep(self, store: StoreBackend) -> None:
        backoff = backoff_delays(self._sweep_interval)
        while True:
            try:
                has_more = await store.clean(SWEEP_BATCH)
            except BrokerError as error:
                log.warning("purging expired records failed", reason=str(error))
                await asyncio.sleep(next(backoff))
            else:
                backoff = backoff_delays(self._sweep_interval)
                await asyncio.sleep(0 if has_more else self._sweep_interval)


def _client(store: StoreBackend | None, remote: BrokerClient | None) -> BrokerClient:
    if store is not None:
        return store
    if remote is None:
        raise ValueError("records need a store or a remote data broker")
    return remote
