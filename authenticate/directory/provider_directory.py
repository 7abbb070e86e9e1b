"""Directory of one provider: the elected process syncs it into the data broker; each sign-in looks up its user."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import structlog

from authenticate.directory.file_watcher import DirectoryFileWatcher
from authenticate.directory.snapshot import DirectoryMember
from authenticate.directory.sync_run import SyncRun
from authenticate.directory.vendor_source import DirectorySource
from authenticate.directory.vendors.directory_api import Sleep
from config.issuers import applies_to_issuer
from config.options import Options
from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient
from databroker.leader_election import LeaseHeldElsewhere, run_elected
from databroker.provider_scope import provider_scoped
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, DirectoryGroup, DirectoryRunRecord, DirectoryUser, Record
from databroker.store.base import VersionConflict
from foundation.backoff import backoff_delay
from foundation.errors import BrokerError, ProviderError
from foundation.readiness import HealthTracker, format_utc
from foundation.tasks import spawn
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

RETRY_INTERVAL = 30.0  # seconds after a failed sync, or one in progress in another process
RUN_PAGE_SIZE = 500
MAX_LOOK_UPS = 3  # per sign-in, if the record changes concurrently


class ProviderDirectory:
    """Sync and look-ups of one provider's directory; neither if the options configure none."""

    def __init__(self, options: Options, provider: ProviderConfig, broker: BrokerClient, clock: Callable[[], float]):
        self.provider = provider
        self._options = options
        self._broker = broker
        self._scoped_broker = provider_scoped(broker, provider)
        self._clock = clock
        self._source = DirectorySource.from_options(options, provider, clock)
        self._health = HealthTracker(clock)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_configured(self) -> bool:
        """Whether this process can read the directory."""
        return self.provider.directory_file is not None or self._source is not None

    def start(self) -> None:
        if (file := self.provider.directory_file) is not None:
            work = DirectoryFileWatcher(file, self._scoped_broker, self.provider, health=self._health).run
        elif self._source is not None:
            work = SyncScheduler(self._source, self._broker, self._options, self._clock, health=self._health).run
        else:
            return
        self._task = spawn(run_elected(self._scoped_broker, "directory", work), name=f"election for the directory of {self.provider.id}")

    @property
    def trouble(self) -> str:
        """Since when and why groups are outdated, as text; "" if they are not."""
        return f"not updated since {format_utc(self._health.changed_at)}: {self._health.error}" if self._health.error else ""

    @property
    def last_read(self) -> str:
        since = self._health.changed_at
        return f"synced at {format_utc(since)}" if since else "synced by another process, or not due yet"

    async def stop(self, grace: float) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._source is not None and grace:
            spawn(_run_later(grace, self._source.close), name="end of the directory's connections")
        elif self._source is not None:
            await self._source.close()

    async def sync_user(self, user_id: str, access_token: str) -> None:
        """Write the groups of a user who signs in to the store.

        A failure is logged and does not stop the sign-in: the next sync brings the groups. If the user has no record until then,
        their groups are unknown to every rule (authorize/identity/identity_builder.py).
        """
        if self._source is None:
            return
        try:
            await self._sync_user(self._source, user_id, access_token)
        except (ProviderError, BrokerError) as error:
            metrics.directory_lookups.labels(self.provider.id, "error").inc()
            log.warning(
                "group lookup at sign-in failed",
                provider=self.provider.id,
                user_id=user_id,
                reason=str(error),
            )
        else:
            metrics.directory_lookups.labels(self.provider.id, "success").inc()

    async def _sync_user(self, source: DirectorySource, user_id: str, access_token: str) -> None:
        """Write the look-up's result. Look up again if the record changes concurrently, because that change may be newer."""
        for attempts_left in reversed(range(MAX_LOOK_UPS)):
            before = await self._scoped_broker.get(DIRECTORY_USER, user_id)
            member = await source.look_up(user_id, access_token)
            try:
                if member is not None:
                    await self._write(member, before)
            except VersionConflict:
                if not attempts_left:
                    raise
            else:
                return

    async def _write(self, member: DirectoryMember, before: Record | None) -> None:
        """Replace the user's record `before`. Raises VersionConflict if it has changed."""
        for group in member.groups:
            known = await self._scoped_broker.get(DIRECTORY_GROUP, group.id)
            # An existing group of the same issuer is retained, because the sync may have more details of it.
            if known is None or not applies_to_issuer(DirectoryGroup.from_record(known).issuer, group.issuer):
                with suppress(VersionConflict):
                    await self._put(DIRECTORY_GROUP, group, known)
        if before is None or DirectoryUser.from_record(before) != member.user:
            await self._put(DIRECTORY_USER, member.user, before)

    async def _put(self, type: str, value: DirectoryUser | DirectoryGroup, before: Record | None) -> None:
        version = before.version if before is not None else 0
        await self._scoped_broker.put(type, value.id, value.to_data(), only_if_version=version)


async def _run_later(seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await asyncio.sleep(seconds)
    await work()


class SyncScheduler:
    """The elected task `run`: a sync immediately if one is due, then one per interval."""

    def __init__(
        self,
        source: DirectorySource,
        broker: BrokerClient,
        options: Options,
        clock: Callable[[], float],
        *,
        sleep: Sleep = asyncio.sleep,
        health: HealthTracker | None = None,
    ):
        self._health = health or HealthTracker(clock)
        self._source = source
        self._broker = broker
        self._clock = clock
        self._interval = options.idp_refresh_directory_interval.total_seconds()
        self._timeout = options.idp_refresh_directory_timeout.total_seconds()
        self._sleep = sleep

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                wait = await self._seconds_until_due()
                if wait <= 0:
                    run = await SyncRun(self._source, self._broker, self._timeout, self._clock).run()
                    failures = failures + 1 if run.error else 0
                    if run.error:
                        self._health.mark_down(run.error)
                    else:
                        self._health.mark_up()
                    wait = backoff_delay(failures - 1, RETRY_INTERVAL, self._interval) if failures else self._interval
            except LeaseHeldElsewhere:
                wait = RETRY_INTERVAL
            except BrokerError as error:
                log.warning("directory sync skipped: data broker unavailable", provider=self._source.provider.id, reason=str(error))
                wait = RETRY_INTERVAL
            await self._sleep(min(wait, self._interval))

    async def _seconds_until_due(self) -> float:
        """Return the seconds until the next sync, so that a restart or a change of routes causes no additional one."""
        scoped_broker = provider_scoped(self._broker, self._source.provider)
        # Runs of a previous `identity_providers` entry have its id as a prefix.
        records = [record for record in await scoped_broker.page(DIRECTORY_RUN, "", RUN_PAGE_SIZE) if "/" not in record.id]
        runs = map(DirectoryRunRecord.from_record, reversed(records))
        last = next((run for run in runs if run.source == str(self._source)), None)
        if last is None or last.error or last.started_at > self._clock():
            return 0.0
        return last.started_at + self._interval - self._clock()
