"""Verification of the admin's tables: each row matches its record in the store, and each record has a row."""

import asyncio
from dataclasses import dataclass, field

from asgiref.sync import sync_to_async
from django.db import models

from databroker.broker_client import BrokerClient
from databroker.claims import ProviderClaims
from databroker.projection import rows
from databroker.projection.projection import BATCH, TYPES, RowKeys, build_batch, build_batches

# Time in which a running gate writes recent changes.
SETTLE_SECONDS = 1.0


@dataclass(slots=True)
class ProjectionVerifier:
    """Verifier of all tables.  `records` is the number of records by table, `mismatches` the (table, id) of rows that differ."""

    client: BrokerClient
    provider_claims: ProviderClaims | None = None
    settle_seconds: float = SETTLE_SECONDS
    records: dict[type[models.Model], int] = field(default_factory=dict)
    mismatches: RowKeys = field(default_factory=set)

    async def run(self) -> None:
        """Compare all rows, and compare differing ones again after SETTLE_SECONDS, because they may be changing.

        Raises BrokerError if the store is unavailable, django.db.Error if the database is.
        """
        suspects = set[tuple[type[models.Model], str]]()
        for model in TYPES:
            suspects |= await self._compare(model)
        if suspects:
            await asyncio.sleep(self.settle_seconds)
        self.mismatches = await self._recheck(suspects)

    async def repair(self) -> None:
        """Rewrite the mismatches.  Rows that still differ remain in `mismatches`."""
        for part in _parts(self.mismatches):
            await sync_to_async(rows.write)(await build_batch(self.client, part, self.provider_claims))
        self.mismatches = await self._recheck(self.mismatches)

    async def _compare(self, model: type[models.Model]) -> RowKeys:
        found, ids = set[tuple[type[models.Model], str]](), set[str]()
        async for batch in build_batches(self.client, model, self.provider_claims, ids):
            found |= await sync_to_async(rows.find_differences)(batch)
        self.records[model] = len(ids)
        after = ""
        while page := await sync_to_async(rows.ids_after)(model, after, BATCH):
            after = page[-1]
            found |= {(model, id) for id in page if id not in ids}
        return found

    async def _recheck(self, suspects: RowKeys) -> RowKeys:
        mismatches = set[tuple[type[models.Model], str]]()
        for part in _parts(suspects):
            mismatches |= await sync_to_async(rows.find_differences)(await build_batch(self.client, part, self.provider_claims))
        return mismatches


def _parts(touched: RowKeys) -> list[RowKeys]:
    ordered = sorted(touched, key=lambda entry: entry[1])
    return [set(ordered[start : start + BATCH]) for start in range(0, len(ordered), BATCH)]
