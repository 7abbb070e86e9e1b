"""Check of the admin's tables: does each row say what its record in the store says, and has each record a row?"""

import asyncio
from dataclasses import dataclass, field

from asgiref.sync import sync_to_async
from django.db import models

from databroker.broker_client import BrokerClient
from databroker.claims import ProviderClaims
from databroker.projection import rows
from databroker.projection.projection import BATCH, TYPES, Touched, batch_of, batches_of

# Within this a running gate has written what changed a moment ago.
SETTLES = 1.0  # seconds


@dataclass(slots=True)
class TableCheck:
    """Check of all tables.  `records` counts those read, by table; `wrong` holds (table, id) of rows that are not as their records."""

    client: BrokerClient
    counted: ProviderClaims | None = None
    settles: float = SETTLES
    records: dict[type[models.Model], int] = field(default_factory=dict)
    wrong: Touched = field(default_factory=set)

    async def run(self) -> None:
        """Compare everything; what differs is looked at again after a second, because it may just be changing.

        BrokerError where the store can't be asked, django.db.Error where the tables can't.
        """
        suspects = set[tuple[type[models.Model], str]]()
        for model in TYPES:
            suspects |= await self._compared(model)
        if suspects:
            await asyncio.sleep(self.settles)
        self.wrong = await self._still_wrong(suspects)

    async def repair(self) -> None:
        """Write what was found wrong; what is wrong still, because it can't be written, stays in `wrong`."""
        for part in _parts(self.wrong):
            await sync_to_async(rows.write)(await batch_of(self.client, part, self.counted))
        self.wrong = await self._still_wrong(self.wrong)

    async def _compared(self, model: type[models.Model]) -> Touched:
        found, ids = set[tuple[type[models.Model], str]](), set[str]()
        async for batch in batches_of(self.client, model, self.counted, ids):
            found |= await sync_to_async(rows.differing)(batch)
        self.records[model] = len(ids)
        after = ""
        while page := await sync_to_async(rows.ids_after)(model, after, BATCH):
            after = page[-1]
            found |= {(model, id) for id in page if id not in ids}
        return found

    async def _still_wrong(self, suspects: Touched) -> Touched:
        wrong = set[tuple[type[models.Model], str]]()
        for part in _parts(suspects):
            wrong |= await sync_to_async(rows.differing)(await batch_of(self.client, part, self.counted))
        return wrong


def _parts(touched: Touched) -> list[Touched]:
    ordered = sorted(touched, key=lambda entry: entry[1])
    return [set(ordered[start : start + BATCH]) for start in range(0, len(ordered), BATCH)]
