"""End of sessions: one function, whoever wants it: the person, an administrator, the provider, or the refresh worker."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence

from databroker.client import BrokerClient
from databroker.records import SESSION, Record

AT_ONCE = 16  # calls of the broker


async def end_sessions(broker: BrokerClient, ids: Iterable[str], over: list[str] | None = None) -> list[str]:
    """End these, and with them the weaker ones that the same browsers had before (`SessionRecord.earlier`):
    who is out is out at every host.

    The ids of those that lived.  `over` grows with each that is over, so that it is right also where the broker fails halfway
    (BrokerError).  Who names the others goes last: asked again after a failure, this finds all that is left.
    """
    chosen, over, lived = list(dict.fromkeys(ids)), over if over is not None else [], list[str]()
    earlier = await earlier_of(broker, chosen)
    for wave in ([id for id in earlier if id not in chosen], chosen):
        for start in range(0, len(wave), AT_ONCE):
            lived += await _delete(broker, wave[start : start + AT_ONCE], over)
    return lived


async def earlier_of(broker: BrokerClient, ids: Sequence[str]) -> list[str]:
    """The ids of the live sessions that these grew out of."""
    records = await _records(broker, ids)
    earlier = dict.fromkeys(id for record in records for id in record.data.get("earlier", ()))
    return [record.id for record in await _records(broker, list(earlier))]


async def batches(ids: AsyncIterable[str], size: int = AT_ONCE) -> AsyncIterator[list[str]]:
    """The items in lists of a bounded length."""
    waiting = list[str]()
    async for id in ids:
        waiting.append(id)
        if len(waiting) >= size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


async def _records(broker: BrokerClient, ids: Sequence[str]) -> list[Record]:
    found: list[Record | None] = []
    for start in range(0, len(ids), AT_ONCE):
        found += await asyncio.gather(*(broker.get(SESSION, id) for id in ids[start : start + AT_ONCE]))
    return [record for record in found if record is not None]


async def _delete(broker: BrokerClient, ids: Sequence[str], over: list[str]) -> list[str]:
    outcomes = await asyncio.gather(*(broker.delete(SESSION, id) for id in ids), return_exceptions=True)
    over += [id for id, outcome in zip(ids, outcomes, strict=True) if not isinstance(outcome, BaseException)]
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [id for id, was_live in zip(ids, outcomes, strict=True) if was_live]
