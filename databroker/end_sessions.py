"""Lookup of a user's sessions by index, and the only function that ends sessions.

Users, administrators, providers and the refresh worker all use it.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing

from databroker.broker_client import BrokerClient, iter_records
from databroker.records import SESSION, SESSION_INDEX, Record

CONCURRENCY = 16  # calls of the broker
INDEX_PAGE = 100  # records; hardly any account has more sessions


def index_key(issuer: str, name: str, value: str) -> str:
    """Return an index key of fixed length, so that no key is a prefix of another."""
    return hashlib.sha256(json.dumps([issuer, name, value]).encode()).hexdigest()


def user_key(user_id: str) -> str:
    """Return the index key of an account.  It ignores the case of the id, because SCIM deactivates an id in every case."""
    return index_key("", "user", user_id.casefold())


async def index_entries(broker: BrokerClient, key: str) -> AsyncGenerator[Record]:
    """Yield the index entries of a key, including those of ended sessions."""
    prefix = f"{key}/"
    async with aclosing(iter_records(broker, SESSION_INDEX, prefix, INDEX_PAGE)) as entries:
        async for entry in entries:
            if not entry.id.startswith(prefix):
                return
            yield entry


def indexed_session_id(entry: Record) -> str:
    return entry.id.partition("/")[2]


async def session_ids_for_user(broker: BrokerClient, user_id: str, normalize_id: Callable[[str], str] = str) -> list[str]:
    """Return the ids of a user's live sessions.  `normalize_id` maps all user ids of one account to one value.

    None is missed, because each session is indexed before it is written.  The session record, not the index, identifies the user.
    """
    found = await _get_sessions(broker, [indexed_session_id(entry) async for entry in index_entries(broker, user_key(user_id))])
    return [record.id for record in found if normalize_id(str(record.data.get("user_id"))) == normalize_id(user_id)]


async def end_sessions_for_user(broker: BrokerClient, user_id: str, normalize_id: Callable[[str], str] = str) -> list[str]:
    """End all sessions of a user.  Return the ids of those that were live, as `end_sessions` does."""
    return await end_sessions(broker, await session_ids_for_user(broker, user_id, normalize_id))


# enforcement-point: Sign-in and sign-out: End of sessions
async def end_sessions(broker: BrokerClient, ids: Iterable[str], deleted_out: list[str] | None = None) -> list[str]:
    """End sessions, and the sessions of the same browsers that end with them (`SessionRecord.linked_session_ids`), on every host.

    Returns the ids of those that were live.  `deleted_out` receives each deleted id, live or not.  It is complete even if the
    broker fails midway (BrokerError).  Linked sessions are deleted first, so that a retry after a failure finds all that remain.
    """
    chosen, deleted_out, live = list(dict.fromkeys(ids)), deleted_out if deleted_out is not None else [], list[str]()
    linked = await live_linked_session_ids(broker, chosen)
    for wave in ([id for id in linked if id not in chosen], chosen):
        for start in range(0, len(wave), CONCURRENCY):
            live += await _delete(broker, wave[start : start + CONCURRENCY], deleted_out)
    return live


async def live_linked_session_ids(broker: BrokerClient, ids: Sequence[str]) -> list[str]:
    """Return the ids of the live sessions that end with these sessions."""
    records = await _get_sessions(broker, ids)
    linked = dict.fromkeys(id for record in records for id in record.data.get("linked_session_ids", ()))
    return [record.id for record in await _get_sessions(broker, list(linked))]


async def batched(ids: AsyncIterable[str], size: int = CONCURRENCY) -> AsyncIterator[list[str]]:
    """Yield the ids in lists of at most `size`."""
    batch = list[str]()
    async for id in ids:
        batch.append(id)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


async def _get_sessions(broker: BrokerClient, ids: Sequence[str]) -> list[Record]:
    found: list[Record | None] = []
    for start in range(0, len(ids), CONCURRENCY):
        found += await asyncio.gather(*(broker.get(SESSION, id) for id in ids[start : start + CONCURRENCY]))
    return [record for record in found if record is not None]


async def _delete(broker: BrokerClient, ids: Sequence[str], deleted_out: list[str]) -> list[str]:
    outcomes = await asyncio.gather(*(broker.delete(SESSION, id) for id in ids), return_exceptions=True)
    deleted_out += [id for id, outcome in zip(ids, outcomes, strict=True) if not isinstance(outcome, BaseException)]
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [id for id, was_live in zip(ids, outcomes, strict=True) if was_live]
