"""Directory service: the directories of all providers, synced independently of each other."""

import asyncio
import time
from collections.abc import Callable

from authenticate.directory.provider_directory import ProviderDirectory
from config.options import Options
from databroker.broker_client import BrokerClient
from foundation.readiness import ComponentStatus, degraded
from foundation.telemetry import metrics

PART = "directory"


class DirectoryService:
    """The directories of one configuration."""

    def __init__(self, options: Options, broker: BrokerClient, clock: Callable[[], float] = time.time):
        made = (ProviderDirectory(options, provider, broker, clock) for provider in options.providers.values())
        self._directories = {each.provider.id: each for each in made if each.is_configured}
        self._has_entries = options.identity_providers is not None

    async def start(self) -> None:
        metrics.remove_directories(self._directories)
        for directory in self._directories.values():
            directory.start()

    def readiness(self) -> ComponentStatus:
        """Return the readiness of the directories that this process syncs. While one is unavailable, its groups are outdated."""
        if not self._directories:
            return ComponentStatus(PART, reason="none is configured")
        troubles = [f"groups{self._of(id)} {each.trouble}" for id, each in self._directories.items() if each.trouble]
        if troubles:
            return degraded(PART, "; ".join(troubles))
        return ComponentStatus(PART, reason="; ".join(f"{self._named(id)}{each.last_read}" for id, each in self._directories.items()))

    def _of(self, id: str) -> str:
        return f" of {id}" if self._has_entries else ""

    def _named(self, id: str) -> str:
        return f"{id} " if self._has_entries else ""

    async def stop(self, grace: float = 0.0) -> None:
        """Release the work to another process immediately. Sign-ins in progress may look up users for `grace` more seconds."""
        await asyncio.gather(*(directory.stop(grace) for directory in self._directories.values()))

    async def sync_user(self, user_id: str, access_token: str) -> None:
        """Write the groups of a user who signs in to the store, from the directory of their provider."""
        directory = self._directories.get(user_id.partition("/")[0])
        if directory is not None:
            await directory.sync_user(user_id, access_token)
