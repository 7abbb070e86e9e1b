"""Record cache: records as packed bytes, opened for whoever reads; the least recently used makes room.

Packed they weigh 0.4 of what they do as they were read: measured in docs/decisions/libraries.md.
"""

import math
import struct
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import msgpack

from databroker.records import SESSION, Record
from databroker.store.frozen import frozen_data

# Version, modified, expires; then the data.
_HEAD: Final = struct.Struct("<qdd")
_LONG: Final = 1
MAX_DECODED = 1000
# A session is 1 KiB, as a rule; a provider may have told a hundred times as much of each person.
MAX_BYTES = 256 * 1024 * 1024
MAX_DECODED_BYTES = 64 * 1024  # bytes packed: such a record is opened anew each time

# Of a session: no decision rests on them, and they are most of what it weighs.
TOKENS: Final = frozenset({"id_token", "access_token", "refresh_token", "unverified_id_token"})
NON_POLICY_FIELDS: Final = TOKENS | {
    "access_token_expires_at",
    "client_address",
    "superseded_ids",
    "manually_refreshed_at",
    "tokens_received_at",
    "user_agent",
}


class ChangeCounter:
    """Number of writes to several caches together: as long as it stays, so does all that they hold."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class RecordCache:
    """Cache of one type, by id, at most `most` records and MOST_BYTES, each at a third of what its Record weighs; None where it is known
    that there is none.

    What was opened last is at hand, and can't be changed by whoever reads it.
    """

    def __init__(self, type: str, max_records: int, writes: ChangeCounter | None = None):
        self._type = type
        self._writes = writes or ChangeCounter()
        self._max_records = max_records
        # Of one that is full a hundredth goes at once: who looks for the oldest passes over every place that became empty before it.
        self._evict_count = max(1, max_records // 100)
        self._held: dict[str, bytes | None] = {}
        self._bytes = 0
        self._opened: dict[str, tuple[bytes, Record]] = {}  # each as long as the same bytes are held

    def __repr__(self) -> str:
        return f"<RecordCache {len(self._held)} of {self._type}>"

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, id: str) -> bool:
        return id in self._held

    def get(self, id: str) -> Record | None:
        """The record, None where it is known that there is none; KeyError where nothing is held of it."""
        packed = self._touch(id)
        if packed is None:
            return None
        opened = self._opened.get(id)
        if opened is not None and opened[0] is packed:
            return opened[1]
        record = self._open(id, packed)
        self._opened.pop(id, None)
        if len(packed) > MAX_DECODED_BYTES:
            return record
        self._opened[id] = packed, record
        if len(self._opened) > MAX_DECODED:
            del self._opened[next(iter(self._opened))]
        return record

    def version(self, id: str, now: float) -> int | None:
        """The version of a record that has not expired, without opening it, else None; KeyError where nothing is held of it."""
        packed = self._touch(id)
        if packed is None:
            return None
        version, _, expires = _HEAD.unpack_from(packed)
        return int(version) if expires > now else None

    def peek_version(self, id: str) -> int | None:
        """The version, also of a record that has expired; who asks this does not count as a reader."""
        packed = self._held[id]
        return None if packed is None else int(_HEAD.unpack_from(packed)[0])

    def put(self, id: str, record: Record | None) -> None:
        """Hold a record.  One that is held already stays as near to its end as it was: that it changes does not mean that somebody uses
        it.
        """
        self._writes.number += 1
        packed = None if record is None else _packed(record)
        self._bytes += _weight(id, packed) - (_weight(id, self._held[id]) if id in self._held else 0)
        self._held[id] = packed
        while len(self._held) > self._max_records or self._bytes > MAX_BYTES:
            for oldest in list(islice(self._held, self._evict_count)):
                self.drop(oldest)

    def drop(self, id: str) -> None:
        if id in self._held:
            self._writes.number += 1
            self._bytes -= _weight(id, self._held.pop(id))

    def clear(self) -> None:
        self._writes.number += 1
        self._held.clear()
        self._bytes = 0
        self._opened.clear()

    def _open(self, id: str, packed: bytes) -> Record:
        version, modified, expires = _HEAD.unpack_from(packed)
        return Record(
            self._type, id, frozen_data(_unpacked(packed[_HEAD.size :])), version, modified, expires if expires < math.inf else None
        )

    def _touch(self, id: str) -> bytes | None:
        packed = self._held.pop(id)
        self._held[id] = packed
        return packed


def _weight(id: str, packed: bytes | None) -> int:
    return len(id) + (0 if packed is None else len(packed))


def _packed(record: Record) -> bytes:
    expires = math.inf if record.expires is None else record.expires
    data: bytes = msgpack.packb(record.data, default=_encode_bigint, unicode_errors="surrogatepass")
    return _HEAD.pack(record.version, record.modified, expires) + data


def _encode_bigint(value: object) -> msgpack.ExtType:
    """A number of more than 64 bits as an extension of msgpack."""
    if not isinstance(value, int):
        raise TypeError(f"stored data must be JSON values, not {type(value).__name__}")
    return msgpack.ExtType(_LONG, str(int(value)).encode())


def _unpacked(packed: bytes) -> dict[str, Any]:
    data: dict[str, Any] = msgpack.unpackb(packed, ext_hook=lambda _, digits: int(digits), unicode_errors="surrogatepass")
    return data


def without_non_policy_fields(record: Record | None) -> Record | None:
    if record is None or record.type != SESSION or NON_POLICY_FIELDS.isdisjoint(record.data):
        return record
    return replace(record, data=frozen_data({key: value for key, value in record.data.items() if key not in NON_POLICY_FIELDS}))
