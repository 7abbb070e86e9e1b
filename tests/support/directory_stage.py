"""A vendor's directory, a data broker, and a clock that is advanced by sleeping.

async with FakeDirectory.of("okta") as directory:
    stage = Stage(directory, tmp_path)
    run = await stage.read()
    assert await stage.users() == directory.expected()[0]
    await stage.source.close()
"""

from pathlib import Path
from typing import Any

from authenticate.directory.sync_run import SyncOptions, SyncRun
from authenticate.directory.vendor_source import DirectorySource
from authenticate.directory.vendors.vendor_registry import build_vendor
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryRunRecord, DirectoryUser
from databroker.store.memory import MemoryStore
from tests.support.fake_directories import FakeDirectory
from tests.support.options import make_options

Records = dict[str, Any]
LONG = 60.0  # timeout of a sync in seconds


class Stage:
    """One directory, a data broker, and a clock that is advanced by sleeping."""

    def __init__(self, directory: FakeDirectory, tmp_path: Path, **settings: Any):
        self.directory = directory
        self.now = 1_800_000_000.0
        self.slept: list[float] = []
        self.broker = MemoryStore(self.clock)
        self.options = make_options(tmp_path, **{**directory.settings(), **settings})
        self.source = self.new_source()

    def new_source(self) -> DirectorySource:
        """Return a source without state."""
        vendor = build_vendor(self.options, self.options.first_provider, self.clock)
        assert vendor is not None
        return DirectorySource(self.options, vendor, self.clock, sleep=self.sleep)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def read(self, timeout: float = LONG) -> DirectoryRunRecord:
        self.now += 1  # later writes are newer
        return await SyncRun(self.source, self.broker, timeout, self.clock).run()

    async def read_after_restart(self, timeout: float = LONG) -> DirectoryRunRecord:
        """Sync as after a restart and with `force`, so that only the failure itself retains the existing records."""
        self.now += 1
        source = self.new_source()
        try:
            return await SyncRun(source, self.broker, timeout, self.clock, SyncOptions(force=True)).run()
        finally:
            await source.close()

    async def users(self) -> Records:
        return {record.id: DirectoryUser.from_record(record) for record in await self.broker.page(DIRECTORY_USER, "", 1000)}

    async def groups(self) -> Records:
        return {record.id: DirectoryGroup.from_record(record) for record in await self.broker.page(DIRECTORY_GROUP, "", 1000)}

    async def versions(self) -> list[int]:
        return [record.version for type in (DIRECTORY_USER, DIRECTORY_GROUP) for record in await self.broker.page(type, "", 1000)]
