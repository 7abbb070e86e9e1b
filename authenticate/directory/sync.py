"""The directory in the data broker follows its source: what differs is written, what is gone is deleted."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from authenticate.directory import file
from authenticate.directory.base import DirectorySnapshot
from databroker.client import BrokerClient
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryUser, Record
from gateproject.errors import BrokerError, ConfigError

log = structlog.get_logger(__name__)

PAGE = 500
POLL = 1.0  # seconds between two looks at the file


@dataclass(frozen=True, slots=True)
class Changes:
    """What it takes to make the broker's directory equal to a snapshot."""

    put: tuple[tuple[str, DirectoryUser | DirectoryGroup], ...]
    delete: tuple[tuple[str, str], ...]


async def difference(snapshot: DirectorySnapshot, broker: BrokerClient, provider: str) -> Changes:
    put: list[tuple[str, DirectoryUser | DirectoryGroup]] = []
    delete: list[tuple[str, str]] = []
    wanted: tuple[tuple[str, Any, Any], ...] = (
        # Groups first: whoever sees a user's group finds its name.
        (DIRECTORY_GROUP, DirectoryGroup, snapshot.groups),
        (DIRECTORY_USER, DirectoryUser, snapshot.users),
    )
    for record_type, value_type, values in wanted:
        known = {record.id: value_type.from_record(record) async for record in _records(broker, record_type)}
        put += [(record_type, value) for id, value in values.items() if known.get(id) != value]
        delete += [(record_type, id) for id in known if id not in values]
    return Changes(tuple(put), tuple(delete))


async def apply(changes: Changes, broker: BrokerClient) -> None:
    for record_type, value in changes.put:
        await broker.put(record_type, value.id, value.to_data())
    for record_type, id in changes.delete:
        await broker.delete(record_type, id)


async def _records(broker: BrokerClient, record_type: str) -> AsyncIterator[Record]:
    after = ""
    while page := await broker.page(record_type, after, PAGE):
        for record in page:
            yield record
        after = page[-1].id


class DirectoryFollower:
    """Reads the file at start and whenever it changes; a broken one leaves the last good directory in force."""

    def __init__(self, path: Path, broker: BrokerClient, provider: str, *, poll: float = POLL):
        self._path = path
        self._broker = broker
        self._provider = provider
        self._poll = poll
        self._seen: object = None

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._poll)

    async def look(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        try:
            snapshot = file.read(self._path, self._provider)
            changes = await difference(snapshot, self._broker, self._provider)
            await apply(changes, self._broker)
        except ConfigError as error:
            log.error("directory file is broken, the last good one stays in force", file=str(self._path), problems=str(error))
        except BrokerError as error:
            log.warning("directory not written, will be tried again", error=str(error))
            return
        else:
            log.info(
                "directory read", users=len(snapshot.users), groups=len(snapshot.groups), put=len(changes.put), deleted=len(changes.delete)
            )
        self._seen = stamp

    def _stamp(self) -> object:
        try:
            status = self._path.stat()
        except OSError as error:
            return error.errno
        # The inode tells a file that was replaced within the resolution of its time.
        return status.st_mtime_ns, status.st_ino, status.st_size
