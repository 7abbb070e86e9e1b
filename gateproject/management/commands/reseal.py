"""`manage.py reseal`: re-encrypts all records with the first key of shared_secret, so that the others can be removed."""

import asyncio
from typing import Any

from django.core.management.base import CommandError

from databroker.records import RECORD_TYPES
from databroker.store.factory import open_store
from databroker.store.sealed import KEY_CHECK_TYPE, SealedStore
from foundation.errors import BrokerError
from gateproject.management.configured_command import ConfiguredCommand, require_options

AT_ONCE = 200


class Command(ConfiguredCommand):
    help = "Re-encrypt every stored record with the first key of shared_secret. It can run while gate runs, and be interrupted."

    def handle(self, *args: Any, **arguments: Any) -> None:
        store = open_store(require_options())
        if not isinstance(store, SealedStore):
            self.stdout.write("databroker_storage_type is memory: records are not encrypted")
            return
        try:
            lost = asyncio.run(self._reseal(store))
        except BrokerError as error:
            raise CommandError(f"stopped: {error}. Run it again") from error
        if lost:
            raise CommandError(f"{lost} record(s) can't be decrypted with these keys and were not changed")

    async def _reseal(self, store: SealedStore) -> int:
        """Re-encrypt all records and return the number of unreadable ones. The check record comes last and then requires the first key."""
        try:
            return sum([await self._reseal_type(store, type) for type in (*RECORD_TYPES, KEY_CHECK_TYPE)])
        finally:
            await store.close()

    async def _reseal_type(self, store: SealedStore, type: str) -> int:
        number = lost = 0
        after: str | None = ""
        while after is not None:
            page = await store.reseal(type, after, AT_ONCE)
            number, lost, after = number + page.count, lost + page.unreadable, page.next_after
            if page.count:
                self.stdout.write(f"{type}: {number} re-encrypted")
        self.stdout.write(f"{type}: done, {number} re-encrypted, {lost} unreadable")
        return lost
