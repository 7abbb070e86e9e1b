"""Sealed store: a wrapper that encrypts the data of records.  Types, ids and times remain readable for queries."""

import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from databroker.records import Record
from databroker.store.base import RecordChange, StoreBackend, VersionConflict, report_unreadable
from databroker.store.frozen import frozen_data
from foundation.crypto.sealing import NONCE_BYTES, decrypt, derive_keys, from_text, to_text
from foundation.errors import BrokerError, SealError

PURPOSE = "records"
# Type of the check record, which verifies that the secrets fit the store, and contains the store's format.
KEY_CHECK_TYPE = "sealed_with"
KEY_CHECK_ID = "shared_secret"
FORMAT = 3  # of record types and fields; stores from before gate 0.2 have none


class UnusableStore(BrokerError):
    """This process cannot read the records in the store."""

    setting = ""


class InvalidKey(UnusableStore):
    """The records were encrypted with another shared_secret."""

    setting = "shared_secret"


class UnsupportedFormat(UnusableStore):
    """The records were written by a release with other types and fields."""

    setting = "databroker_storage_type"


@dataclass(frozen=True, slots=True)
class ResealResult:
    """Result of resealing one page; `next_after` is the id to continue after, None at the end."""

    count: int
    unreadable: int
    next_after: str | None


class SealedStore:
    """Store wrapper that encrypts with AES-256-GCM, with type and id as associated data.

    It encrypts with the first secret's key and decrypts with any.  It decrypts the check record before every other access, so that a
    process with a wrong key cannot add records to the store.
    """

    def __init__(self, store: StoreBackend, secrets: Sequence[bytes]):
        self._store = store
        self._verified_ciphers: Sequence[AESGCM] = ()
        self.rotate_keys(secrets)
        self.delete = store.delete
        self.server_version = store.server_version
        self.close = store.close
        self.acquire = store.acquire
        self.renew = store.renew
        self.release = store.release
        self.clean = store.clean
        self.clock_skew = store.clock_skew

    def rotate_keys(self, secrets: Sequence[bytes]) -> None:
        """Use new secrets; the next access verifies the check record with them.  Records under removed secrets become unreadable."""
        self._ciphers: Sequence[AESGCM] = [AESGCM(key) for key in derive_keys(secrets, PURPOSE)]

    async def get(self, type: str, id: str) -> Record | None:
        await self.verify_key()
        record = await self._store.get(type, id)
        return None if record is None else self._unseal(record)

    async def put(
        self, type: str, id: str, data: Mapping[str, Any], *, expires: float | None = None, only_if_version: int | None = None
    ) -> Record:
        frozen = frozen_data(data)
        await self.verify_key()
        sealed = {"sealed": self._seal(type, id, frozen)}
        record = await self._store.put(type, id, sealed, expires=expires, only_if_version=only_if_version)
        return replace(record, data=frozen)

    async def page(self, type: str, after: str, limit: int) -> list[Record]:
        """Return a page, skipping pages of unreadable records only, because an empty page means the end."""
        await self.verify_key()
        while found := await self._store.page(type, after, limit):
            if unsealed := [record for record in map(self._unseal, found) if record is not None]:
                return unsealed
            after = found[-1].id
        return []

    async def changes(self, since: int) -> AsyncGenerator[RecordChange]:
        """Yield the changes.  An unreadable record is reported as deleted, so that no reader keeps the previous value."""
        await self.verify_key()
        async with aclosing(self._store.changes(since)) as changes:
            async for change in changes:
                if change.type != KEY_CHECK_TYPE:
                    yield change if change.record is None else replace(change, record=self._unseal(change.record))

    async def reseal(self, type: str, after: str, limit: int) -> ResealResult:
        """Re-encrypt one page with the first key.

        A record that changes concurrently is skipped, because its writer also uses the first key.
        """
        await self.verify_key()
        found = await self._store.page(type, after, limit)
        count = unreadable = 0
        for record in found:
            if self._is_current(record):
                continue
            if (unsealed := self._unseal(record)) is None:
                unreadable += 1
                continue
            sealed = {"sealed": self._seal(type, record.id, unsealed.data)}
            try:
                await self._store.put(type, record.id, sealed, expires=record.expires, only_if_version=record.version)
            except VersionConflict:
                continue
            count += 1
        return ResealResult(count, unreadable, found[-1].id if found else None)

    async def verify_key(self) -> None:
        """Verify the check record, and create it in an empty store.  Raises InvalidKey or UnsupportedFormat."""
        if (ciphers := self._ciphers) is self._verified_ciphers:
            return
        if (record := await self._store.get(KEY_CHECK_TYPE, KEY_CHECK_ID)) is None:
            try:
                record = await self._store.put(
                    KEY_CHECK_TYPE,
                    KEY_CHECK_ID,
                    {"sealed": self._seal(KEY_CHECK_TYPE, KEY_CHECK_ID, {"format": FORMAT})},
                    only_if_version=0,
                )
            except VersionConflict:  # another process was first
                record = await self._store.get(KEY_CHECK_TYPE, KEY_CHECK_ID)
        if record is None or (check_data := _decrypt(ciphers, record)) is None:
            raise InvalidKey(
                "the store's records were encrypted with another shared_secret. Add that key "
                "to the list in shared_secret, or use an empty store"
            )
        if (found := check_data.get("format", "before gate 0.2")) != FORMAT:
            raise UnsupportedFormat(
                f"the store's records have another format ({found}; this release has {FORMAT}). "
                "Use an empty store, in which users sign in again, or the release that wrote them"
            )
        self._verified_ciphers = ciphers

    def _seal(self, type: str, id: str, data: Mapping[str, Any]) -> str:
        nonce = os.urandom(NONCE_BYTES)
        plain = json.dumps(data, separators=(",", ":")).encode()
        return to_text(nonce + self._ciphers[0].encrypt(nonce, plain, _associated_data(type, id)))

    def _unseal(self, record: Record) -> Record | None:
        data = _decrypt(self._ciphers, record)
        if data is None:
            report_unreadable(record.type, record.id, "it can't be decrypted with shared_secret")
            return None
        return replace(record, data=data)

    def _is_current(self, record: Record) -> bool:
        return _decrypt(self._ciphers[:1], record) is not None


def _decrypt(ciphers: Sequence[AESGCM], record: Record) -> Mapping[str, Any] | None:
    sealed = record.data.get("sealed")
    try:
        plain = decrypt(ciphers, from_text(sealed if isinstance(sealed, str) else ""), _associated_data(record.type, record.id))
        return frozen_data(json.loads(plain))
    except (SealError, ValueError, TypeError, AttributeError):
        return None


def _associated_data(type: str, id: str) -> bytes:
    """Return the associated data of type and id, prefixed with the length of the type, so that it is unambiguous."""
    return f"{len(type)}:{type}{id}".encode()
