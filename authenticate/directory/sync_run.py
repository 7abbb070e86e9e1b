"""Directory sync run: fetch the complete snapshot in time, compare it, write the changes, and record the run. Or change nothing."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from authenticate.directory.snapshot import DirectorySnapshot, TimeBudget
from authenticate.directory.sync import SYNC_COMMAND, DirectoryChanges, Progress, apply, check_removals, diff
from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient
from databroker.leader_election import run_exclusive
from databroker.provider_scope import provider_scoped
from databroker.records import DIRECTORY_RUN, DirectoryRunRecord
from foundation.errors import BrokerError, ProviderError
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

MAX_RUNS = 200
LEASE = "directory reading"
SCHEDULER, COMMAND = "schedule", "syncdirectory"


class SnapshotSource(Protocol):
    """A source of a snapshot of one provider's users. `str()` is its name in the history."""

    @property
    def provider(self) -> ProviderConfig: ...

    async def fetch(self, budget: TimeBudget) -> DirectorySnapshot: ...


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Options of a sync run. `on_diff` is called with the changes before they are written, `progress` after each write."""

    triggered_by: str = SCHEDULER
    force: bool = False
    dry_run: bool = False
    on_diff: Callable[[DirectoryChanges], None] = lambda changes: None
    progress: Progress = lambda count: None


@dataclass(slots=True)
class SyncRun:
    """One sync run; call `run` once. Times are Unix seconds."""

    source: SnapshotSource
    broker: BrokerClient
    timeout: float
    clock: Callable[[], float] = time.time
    options: SyncOptions = field(default_factory=SyncOptions)

    async def run(self) -> DirectoryRunRecord:
        """Run under the lease of this directory's syncs, and return the history entry.

        Raises DoneElsewhere if another process has the lease, or BrokerError.
        """
        return await run_exclusive(self._broker, LEASE, self._run)

    @property
    def _broker(self) -> BrokerClient:
        return provider_scoped(self.broker, self.source.provider)

    @property
    def _command(self) -> str:
        provider = self.source.provider
        return f"{SYNC_COMMAND} --provider {provider.id}" if provider.is_entry else SYNC_COMMAND

    async def _run(self) -> DirectoryRunRecord:
        started_at, loop_started_at = self.clock(), asyncio.get_running_loop().time()
        budget = TimeBudget(deadline=time.monotonic() + self.timeout)
        run = DirectoryRunRecord(f"{started_at:017.6f}", str(self.source), self.options.triggered_by, started_at)
        try:
            snapshot = await self._fetch(budget)
            changes = await diff(snapshot, self._broker, started_at)
            added, changed, removed = changes.counts
            run = replace(run, users=len(snapshot.users), groups=len(snapshot.groups), added=added, changed=changed, removed=removed)
            self.options.on_diff(changes)
            if not self.options.force:
                check_removals(changes, self._command)
            if not self.options.dry_run:
                await apply(changes, self._broker, self.options.progress)
        except (ProviderError, BrokerError) as error:
            run = replace(run, error=str(error)[:500], added=0, changed=0, removed=0)
        run = replace(run, duration_seconds=round(asyncio.get_running_loop().time() - loop_started_at, 3), requests=budget.requests)
        if not self.options.dry_run:
            await self._record(run)
        return run

    async def _fetch(self, budget: TimeBudget) -> DirectorySnapshot:
        try:
            async with asyncio.timeout(self.timeout):
                return await self.source.fetch(budget)
        except TimeoutError as error:
            raise ProviderError(f"it exceeded idp_refresh_directory_timeout ({self.timeout:g} s). Raise it") from error

    async def _record(self, run: DirectoryRunRecord) -> None:
        report(run, self.source.provider.id)
        try:
            await self._broker.put(DIRECTORY_RUN, run.id, run.to_data())
            runs = await self._broker.page(DIRECTORY_RUN, "", 2 * MAX_RUNS)
            for record in runs[:-MAX_RUNS]:
                await self._broker.delete(DIRECTORY_RUN, record.id)
        except BrokerError as error:
            log.warning("recording directory sync failed", reason=str(error))


def report(run: DirectoryRunRecord, provider: str) -> None:
    """Write the log line and the metrics of a sync of this provider's directory."""
    metrics.directory_requests.labels(provider).inc(run.requests)
    metrics.directory_sync_duration.labels(provider, "error" if run.error else "success").observe(run.duration_seconds)
    fields = {"provider": provider, "source": run.source, "duration_seconds": run.duration_seconds}
    if run.error:
        log.error("directory sync failed", **fields, reason=run.error)
        return
    metrics.record_directory_sync(provider, run.started_at + run.duration_seconds, {"users": run.users, "groups": run.groups})
    facts = {"users": run.users, "groups": run.groups, "added": run.added, "changed": run.changed, "removed": run.removed}
    log.info("directory sync completed", **fields, requests=run.requests, **facts)
