"""Directory sync: the difference between a snapshot and the data broker, the limit on removals, and the writes."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from authenticate.directory.snapshot import DirectoryError, DirectorySnapshot
from databroker.broker_client import BrokerClient
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryUser
from databroker.store.base import VersionConflict
from foundation.tasks import gather_limited

PAGE = 500
WRITES_AT_ONCE = 10
SYNC = "gate sync"
NEVER_SKIPPED = float("inf")

Value = DirectoryUser | DirectoryGroup
Progress = Callable[[int], None]


class TooManyGone(DirectoryError):
    """A snapshot that would remove more than half of what is known: rather a mistake than the truth."""


@dataclass(frozen=True, slots=True)
class DirectoryChanges:
    """Puts and deletes that make the broker's directory equal to a snapshot; `known` is how many of each type it holds now."""

    put: tuple[tuple[str, Value], ...]
    delete: tuple[tuple[str, str], ...]
    added: frozenset[tuple[str, str]]
    before: Mapping[tuple[str, str], Value]  # what is changed, as it was
    known: Mapping[str, int]
    versions: Mapping[tuple[str, str], int]  # of the records that `put` replaces, 0 for new ones; none where any record is older
    emptied: int = 0  # users that are no longer listed, because they are in no group

    def __len__(self) -> int:
        return len(self.put) + len(self.delete)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of records added, changed, removed."""
        return len(self.added), len(self.put) - len(self.added), len(self.delete)


async def difference(snapshot: DirectorySnapshot, broker: BrokerClient, began: float = NEVER_SKIPPED) -> DirectoryChanges:
    """The changes.  Records that changed after `began` (Unix seconds) stay: a look-up at sign-in knows better than a reading that began
    before it.
    """
    put: list[tuple[str, Value]] = []
    delete: list[tuple[str, str]] = []
    added: set[tuple[str, str]] = set()
    before: dict[tuple[str, str], Value] = {}
    known: dict[str, int] = {}
    versions: dict[tuple[str, str], int] = {}
    emptied = 0
    wanted: tuple[tuple[str, Any, Mapping[str, Any]], ...] = (
        # Groups first: whoever sees a user's group finds its name.
        (DIRECTORY_GROUP, DirectoryGroup, snapshot.groups),
        (DIRECTORY_USER, DirectoryUser, snapshot.users),
    )
    for record_type, value_type, values in wanted:
        seen: set[str] = set()
        after, known[record_type] = "", 0
        # Page by page: what the broker holds is never here as a whole.
        while page := await broker.page(record_type, after, PAGE):
            after = page[-1].id
            known[record_type] += len(page)
            for record in page:
                value = values.get(record.id)
                if value is not None:
                    seen.add(record.id)
                if record.modified > began:
                    continue
                held = _held(value_type, record)
                if value is None and isinstance(held, DirectoryUser) and snapshot.unlisted and record.id.startswith(snapshot.unlisted):
                    # Deleted, nobody would know any more that they are in no group.
                    value = DirectoryUser(record.id, issuer=snapshot.issuer) if held.group_ids and not held.is_deactivated else held
                    emptied += value is not held
                    known[record_type] -= value is held
                if value is None and isinstance(held, DirectoryUser) and held.is_deactivated:
                    continue  # only a directory that lists the user takes the mark away
                if value is None:
                    delete.append((record_type, record.id))
                elif held != value:
                    put.append((record_type, value))
                    before[record_type, record.id] = held or value_type(record.id)
                    versions[record_type, record.id] = record.version
            await asyncio.sleep(0)
        new = [value for id, value in values.items() if id not in seen]
        put += [(record_type, value) for value in new]
        added.update((record_type, value.id) for value in new)
    versions = {**dict.fromkeys(added, 0), **versions} if began != NEVER_SKIPPED else {}
    return DirectoryChanges(tuple(put), tuple(delete), frozenset(added), before, known, versions, emptied)


def _held(value_type: Any, record: Any) -> Any:
    try:
        return value_type.from_record(record)
    except TypeError:  # a record of another release
        return None


# enforcement-point: Directory: Mass removal check
def check_removals(changes: DirectoryChanges, command: str = SYNC) -> None:
    """The limit: TooManyGone where more than half of the users, or of the groups, would be removed; `command` reads them by hand."""
    for record_type, word in ((DIRECTORY_USER, "users"), (DIRECTORY_GROUP, "groups")):
        gone = sum(type == record_type for type, _ in changes.delete) + (changes.emptied if record_type == DIRECTORY_USER else 0)
        if gone * 2 > changes.known[record_type]:
            raise TooManyGone(
                f"{gone} of {changes.known[record_type]} {word} would be removed: nothing was "
                f"changed. If this is intended, run `{command} --force`"
            )


async def apply(changes: DirectoryChanges, broker: BrokerClient, progress: Progress = lambda count: None) -> None:
    """Write the changes; BrokerError in the middle leaves the rest to the next reading, which finds it again."""

    async def put(change: tuple[str, Value]) -> None:
        type, value = change
        with suppress(VersionConflict):  # a look-up at sign-in came since the comparison, and knows better
            await broker.put(type, value.id, value.to_data(), only_if_version=changes.versions.get((type, value.id)))
        progress(1)

    async def delete(change: tuple[str, str]) -> None:
        await broker.delete(*change)
        progress(1)

    for record_type in (DIRECTORY_GROUP, DIRECTORY_USER):
        await gather_limited((change for change in changes.put if change[0] == record_type), put, WRITES_AT_ONCE)
    await gather_limited(changes.delete, delete, WRITES_AT_ONCE)
