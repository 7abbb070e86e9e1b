"""Record cache: an LRU cache of records as packed bytes, decoded on access.

Packed records take 0.4 of the memory of decoded ones (measured in docs/decisions/libraries.md).
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
_HEADER: Final = struct.Struct("<qdd")
_BIGINT_EXT: Final = 1
MAX_DECODED = 1000
# A session usually takes 1 KiB; the claims of a provider can take a hundred times as much.
MAX_BYTES = 256 * 1024 * 1024
MAX_DECODED_BYTES = 64 * 1024  # packed size; a larger record is decoded on each access

# Tokens of a session: no decision depends on them, and they are most of its size.
TOKENS: Final = frozenset({"id_token", "access_token", "refresh_token", "unverified_id_token"})
NON_POLICY_FIELDS: Final = TOKENS | {
    "access_token_expires_at",
    "client_address",
    "linked_session_ids",
    "manually_refreshed_at",
    "tokens_received_at",
    "user_agent",
}


class ChangeCounter:
    """Number of writes to several caches.  While it is unchanged, so are their contents."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class RecordCache:
    """Cache of one record type by id, limited to `max_records` and MAX_BYTES.  None means that the record is known to be absent.

    The last MAX_DECODED decoded records are cached too; they are immutable.
    """

    def __init__(self, type: str, max_records: int, writes: ChangeCounter | None = None):
        self._type = type
        self._writes = writes or ChangeCounter()
        self._max_records = max_records
        # A full cache evicts a hundredth at once, because finding the oldest entry of a dict skips all entries deleted before it.
        self._evict_count = max(1, max_records // 100)
        self._entries: dict[str, bytes | None] = {}
        self._bytes = 0
        self._decoded: dict[str, tuple[bytes, Record]] = {}  # valid while the entry has the same bytes

    def __repr__(self) -> str:
        return f"<RecordCache {len(self._entries)} of {self._type}>"

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: str) -> bool:
        return id in self._entries

    def get(self, id: str) -> Record | None:
        """Return the record, or None if it is known to be absent.  Raises KeyError if the cache has no entry."""
        packed = self._touch(id)
        if packed is None:
            return None
        decoded = self._decoded.get(id)
        if decoded is not None and decoded[0] is packed:
            return decoded[1]
        record = self._decode(id, packed)
        self._decoded.pop(id, None)
        if len(packed) > MAX_DECODED_BYTES:
            return record
        self._decoded[id] = packed, record
        if len(self._decoded) > MAX_DECODED:
            del self._decoded[next(iter(self._decoded))]
        return record

    def version(self, id: str, now: float) -> int | None:
        """Return the version of an unexpired record without decoding it, else None.  Raises KeyError if the cache has no entry."""
        packed = self._touch(id)
        if packed is None:
            return None
        version, _, expires = _HEADER.unpack_from(packed)
        return int(version) if expires > now else None

    def peek_version(self, id: str) -> int | None:
        """Return the version, also of an expired record.  Does not count as a use for eviction."""
        packed = self._entries[id]
        return None if packed is None else int(_HEADER.unpack_from(packed)[0])

    def put(self, id: str, record: Record | None) -> None:
        """Store a record.  An existing entry keeps its place in the eviction order, because a change is not a use."""
        self._writes.number += 1
        packed = None if record is None else _pack(record)
        self._bytes += _entry_size(id, packed) - (_entry_size(id, self._entries[id]) if id in self._entries else 0)
        self._entries[id] = packed
        while len(self._entries) > self._max_records or self._bytes > MAX_BYTES:
            for oldest in list(islice(self._entries, self._evict_count)):
                self.drop(oldest)

    def drop(self, id: str) -> None:
        if id in self._entries:
            self._writes.number += 1
            self._bytes -= _entry_size(id, self._entries.pop(id))

    def clear(self) -> None:
        self._writes.number += 1
        self._entries.clear()
        self._bytes = 0
        self._decoded.clear()

    def _decode(self, id: str, packed: bytes) -> Record:
        version, modified, expires = _HEADER.unpack_from(packed)
        return Record(
            self._type, id, frozen_data(_unpack(packed[_HEADER.size :])), version, modified, expires if expires < math.inf else None
        )

    def _touch(self, id: str) -> bytes | None:
        packed = self._entries.pop(id)
        self._entries[id] = packed
        return packed


def _entry_size(id: str, packed: bytes | None) -> int:
    return len(id) + (0 if packed is None else len(packed))


def _pack(record: Record) -> bytes:
    expires = math.inf if record.expires is None else record.expires
    data: bytes = msgpack.packb(record.data, default=_encode_bigint, unicode_errors="surrogatepass")
    return _HEADER.pack(record.version, record.modified, expires) + data


def _encode_bigint(value: object) -> msgpack.ExtType:
    """Encode an integer of more than 64 bits as an extension type of msgpack."""
    if not isinstance(value, int):
        raise TypeError(f"stored data must be JSON values, not {type(value).__name__}")
    return msgpack.ExtType(_BIGINT_EXT, str(int(value)).encode())


def _unpack(packed: bytes) -> dict[str, Any]:
    data: dict[str, Any] = msgpack.unpackb(packed, ext_hook=lambda _, digits: int(digits), unicode_errors="surrogatepass")
    return data


def select_policy_fields(record: Record | None) -> Record | None:
    if record is None or record.type != SESSION or NON_POLICY_FIELDS.isdisjoint(record.data):
        return record
    return replace(record, data=frozen_data({key: value for key, value in record.data.items() if key not in NON_POLICY_FIELDS}))
