"""Directory sync: diff of a snapshot against the data broker, the limit on removals, and the writes."""

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

PAGE_SIZE = 500
WRITE_CONCURRENCY = 10
SYNC_COMMAND = "gate sync"
NEVER_SKIPPED = float("inf")

Value = DirectoryUser | DirectoryGroup
Progress = Callable[[int], None]


class RemovalLimitExceeded(DirectoryError):
    """The snapshot would remove more than half of the existing records, which is probably a mistake."""


@dataclass(frozen=True, slots=True)
class DirectoryChanges:
    """Puts and deletes that make the broker's directory equal to a snapshot.

    `existing_counts` is how many records of each type it contains now.
    """

    put: tuple[tuple[str, Value], ...]
    delete: tuple[tuple[str, str], ...]
    added: frozenset[tuple[str, str]]
    before: Mapping[tuple[str, str], Value]  # previous values of changed records
    existing_counts: Mapping[str, int]
    versions: Mapping[tuple[str, str], int]  # of the records that `put` replaces, 0 for new ones; empty without `started_at`
    users_without_groups: int = 0  # users who are no longer listed because they are in no group

    def __len__(self) -> int:
        return len(self.put) + len(self.delete)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of added, changed and removed records."""
        return len(self.added), len(self.put) - len(self.added), len(self.delete)


async def diff(snapshot: DirectorySnapshot, broker: BrokerClient, started_at: float = NEVER_SKIPPED) -> DirectoryChanges:
    """Return the changes, without records that changed after `started_at` (Unix seconds): a look-up at sign-in is newer than the sync."""
    put: list[tuple[str, Value]] = []
    delete: list[tuple[str, str]] = []
    added: set[tuple[str, str]] = set()
    before: dict[tuple[str, str], Value] = {}
    existing: dict[str, int] = {}
    versions: dict[tuple[str, str], int] = {}
    users_without_groups = 0
    expected: tuple[tuple[str, Any, Mapping[str, Any]], ...] = (
        # Groups first, so that a reader of a user finds the names of their groups.
        (DIRECTORY_GROUP, DirectoryGroup, snapshot.groups),
        (DIRECTORY_USER, DirectoryUser, snapshot.users),
    )
    for record_type, value_type, values in expected:
        seen: set[str] = set()
        after, existing[record_type] = "", 0
        # Page by page, so that the directory is never completely in memory.
        while page := await broker.page(record_type, after, PAGE_SIZE):
            after = page[-1].id
            existing[record_type] += len(page)
            for record in page:
                value = values.get(record.id)
                if value is not None:
                    seen.add(record.id)
                if record.modified > started_at:
                    continue
                stored = _parse_or_none(value_type, record)
                if value is None and isinstance(stored, DirectoryUser) and _is_unlisted(snapshot, record.id):
                    # The user is retained without groups: if deleted, their groups would be unknown instead of empty.
                    value = DirectoryUser(record.id, issuer=snapshot.issuer) if stored.group_ids and not stored.is_deactivated else stored
                    users_without_groups += value is not stored
                    existing[record_type] -= value is stored
                if value is None and isinstance(stored, DirectoryUser) and stored.is_deactivated:
                    continue  # because only a directory that lists the user reactivates them
                if value is None:
                    delete.append((record_type, record.id))
                elif stored != value:
                    put.append((record_type, value))
                    before[record_type, record.id] = stored or value_type(record.id)
                    versions[record_type, record.id] = record.version
            await asyncio.sleep(0)
        new = [value for id, value in values.items() if id not in seen]
        put += [(record_type, value) for value in new]
        added.update((record_type, value.id) for value in new)
    versions = {**dict.fromkeys(added, 0), **versions} if started_at != NEVER_SKIPPED else {}
    return DirectoryChanges(tuple(put), tuple(delete), frozenset(added), before, existing, versions, users_without_groups)


def _is_unlisted(snapshot: DirectorySnapshot, user_id: str) -> bool:
    """Whether the provider lists only users in groups, so that a missing user may still exist."""
    return bool(snapshot.partial_for) and user_id.startswith(snapshot.partial_for)


def _parse_or_none(value_type: Any, record: Any) -> Any:
    try:
        return value_type.from_record(record)
    except TypeError:  # a record of another release
        return None


# enforcement-point: Directory: Mass removal check
def check_removals(changes: DirectoryChanges, command: str = SYNC_COMMAND) -> None:
    """Raise RemovalLimitExceeded if more than half of the users, or of the groups, would be removed.

    `command` is the manual sync that the message recommends.
    """
    for record_type, noun in ((DIRECTORY_USER, "users"), (DIRECTORY_GROUP, "groups")):
        gone = sum(type == record_type for type, _ in changes.delete) + (
            changes.users_without_groups if record_type == DIRECTORY_USER else 0
        )
        if gone * 2 > changes.existing_counts[record_type]:
            raise RemovalLimitExceeded(
                f"{gone} of {changes.existing_counts[record_type]} {noun} would be removed: nothing was "
                f"changed. If this is intended, run `{command} --force`"
            )


async def apply(changes: DirectoryChanges, broker: BrokerClient, progress: Progress = lambda count: None) -> None:
    """Write the changes. After a BrokerError the next sync writes the rest."""

    async def put(change: tuple[str, Value]) -> None:
        type, value = change
        with suppress(VersionConflict):  # a look-up at sign-in has written a newer value since the diff
            await broker.put(type, value.id, value.to_data(), only_if_version=changes.versions.get((type, value.id)))
        progress(1)

    async def delete(change: tuple[str, str]) -> None:
        await broker.delete(*change)
        progress(1)

    for record_type in (DIRECTORY_GROUP, DIRECTORY_USER):
        await gather_limited((change for change in changes.put if change[0] == record_type), put, WRITE_CONCURRENCY)
    await gather_limited(changes.delete, delete, WRITE_CONCURRENCY)
