"""Directory reading: everything fetched within its time, compared, written, and put down in the history.  Or nothing changes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from authenticate.directory.snapshot import DirectorySnapshot, TimeBudget
from authenticate.directory.sync import SYNC, DirectoryChanges, Progress, apply, check_removals, difference
from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient
from databroker.leader_election import run_alone
from databroker.provider_scope import own_records
from databroker.records import DIRECTORY_RUN, DirectoryRunRecord
from foundation.errors import BrokerError, ProviderError
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

RUNS_KEPT = 200
LEASE = "directory reading"
WORKER, COMMAND = "schedule", "syncdirectory"


class ReadableDirectory(Protocol):
    """A source of a snapshot of one provider's people; `str()` names it in the history."""

    @property
    def provider(self) -> ProviderConfig: ...

    async def fetch(self, budget: TimeBudget) -> DirectorySnapshot: ...


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a reading.  `shown` is called with the changes before they are written, `progress` after each that is."""

    by: str = WORKER
    force: bool = False
    dry_run: bool = False
    shown: Callable[[DirectoryChanges], None] = lambda changes: None
    progress: Progress = lambda count: None


@dataclass(slots=True)
class DirectoryReading:
    """One reading; `run` may be called once.  Times are Unix seconds."""

    source: ReadableDirectory
    broker: BrokerClient
    timeout: float
    clock: Callable[[], float] = time.time
    options: ReadOptions = field(default_factory=ReadOptions)

    async def run(self) -> DirectoryRunRecord:
        """The history's entry, under the lease of this directory's readings; DoneElsewhere, or BrokerError where the broker is away."""
        return await run_alone(self._own, LEASE, self._run)

    @property
    def _own(self) -> BrokerClient:
        return own_records(self.broker, self.source.provider)

    @property
    def _command(self) -> str:
        provider = self.source.provider
        return f"{SYNC} --provider {provider.id}" if provider.is_entry else SYNC

    async def _run(self) -> DirectoryRunRecord:
        began, started = self.clock(), asyncio.get_running_loop().time()
        budget = TimeBudget(ends=time.monotonic() + self.timeout)
        run = DirectoryRunRecord(f"{began:017.6f}", str(self.source), self.options.by, began)
        try:
            snapshot = await self._fetched(budget)
            changes = await difference(snapshot, self._own, began)
            added, changed, removed = changes.counts
            run = replace(run, users=len(snapshot.users), groups=len(snapshot.groups), added=added, changed=changed, removed=removed)
            self.options.shown(changes)
            if not self.options.force:
                check_removals(changes, self._command)
            if not self.options.dry_run:
                await apply(changes, self._own, self.options.progress)
        except (ProviderError, BrokerError) as error:
            run = replace(run, error=str(error)[:500], added=0, changed=0, removed=0)
        run = replace(run, duration_seconds=round(asyncio.get_running_loop().time() - started, 3), requests=budget.requests)
        if not self.options.dry_run:
            await self._remember(run)
        return run

    async def _fetched(self, budget: TimeBudget) -> DirectorySnapshot:
        try:
            async with asyncio.timeout(self.timeout):
                return await self.source.fetch(budget)
        except TimeoutError as error:
            raise ProviderError(f"it exceeded idp_refresh_directory_timeout ({self.timeout:g} s). Raise it") from error

    async def _remember(self, run: DirectoryRunRecord) -> None:
        report(run, self.source.provider.id)
        try:
            await self._own.put(DIRECTORY_RUN, run.id, run.to_data())
            kept = await self._own.page(DIRECTORY_RUN, "", 2 * RUNS_KEPT)
            for record in kept[:-RUNS_KEPT]:
                await self._own.delete(DIRECTORY_RUN, record.id)
        except BrokerError as error:
            log.warning("recording directory sync failed", reason=str(error))


def report(run: DirectoryRunRecord, provider: str) -> None:
    """Write the log line and the metrics of a reading of this provider's directory."""
    metrics.directory_requests.labels(provider).inc(run.requests)
    metrics.directory_sync_duration.labels(provider, "error" if run.error else "success").observe(run.duration_seconds)
    said = {"provider": provider, "source": run.source, "seconds": run.duration_seconds}
    if run.error:
        log.error("directory sync failed", **said, reason=run.error)
        return
    metrics.record_directory_sync(provider, run.started_at + run.duration_seconds, {"users": run.users, "groups": run.groups})
    facts = {"users": run.users, "groups": run.groups, "added": run.added, "changed": run.changed, "removed": run.removed}
    log.info("directory sync completed", **said, requests=run.requests, **facts)
