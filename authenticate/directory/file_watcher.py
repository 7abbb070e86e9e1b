"""Directory file watcher: syncs `directory_file` into the data broker whenever it changes."""

import asyncio
from pathlib import Path

import structlog

from authenticate.directory import file_source
from authenticate.directory.snapshot import DirectoryError, DirectorySnapshot, TimeBudget
from authenticate.directory.sync import apply, diff
from config.fields.setting_files import file_stamp
from config.provider_config import ProviderConfig
from databroker.broker_client import BrokerClient
from foundation.errors import BrokerError, ConfigError
from foundation.readiness import HealthTracker

log = structlog.get_logger(__name__)

POLL_INTERVAL = 1.0  # seconds


class FileSource:
    """The file as the source of a sync run."""

    def __init__(self, path: Path, provider: ProviderConfig):
        self._path = path
        self.provider = provider

    def __str__(self) -> str:
        return f"directory_file {self._path.name}"

    async def fetch(self, budget: TimeBudget) -> DirectorySnapshot:
        try:
            return await asyncio.to_thread(file_source.read, self._path, self.provider)
        except ConfigError as error:
            raise DirectoryError(str(error)) from error

    async def close(self) -> None:
        """Do nothing: no file stays open."""


class DirectoryFileWatcher:
    """Watcher that reads the file at the start and after each change. An invalid file leaves the previous directory in force."""

    def __init__(
        self,
        path: Path,
        broker: BrokerClient,
        provider: ProviderConfig,
        *,
        poll: float = POLL_INTERVAL,
        health: HealthTracker | None = None,
    ):
        self._health = health or HealthTracker()
        self._path = path
        self._broker = broker
        self._provider = provider
        self._poll = poll
        self._last_stamp: object = None

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(self._poll)

    async def check(self) -> None:
        stamp = file_stamp(self._path)
        if stamp == self._last_stamp:
            return
        try:
            snapshot = file_source.read(self._path, self._provider)
            changes = await diff(snapshot, self._broker)
            await apply(changes, self._broker)
        except ConfigError as error:
            self._health.mark_down(f"{self._path.name} is invalid, the previous version stays active: {error}")
            log.error(
                "directory file invalid",
                provider=self._provider.id,
                file=str(self._path),
                problems=str(error),
            )
        except BrokerError as error:
            self._health.mark_down(str(error))
            log.warning("directory write failed", provider=self._provider.id, error=str(error))
            return
        else:
            self._health.mark_up()
            found = {"users": len(snapshot.users), "groups": len(snapshot.groups)}
            log.info("directory sync completed", provider=self._provider.id, **found, written=len(changes.put), deleted=len(changes.delete))
        self._last_stamp = stamp
