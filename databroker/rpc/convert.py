"""Conversion of records, changes and leases to and from protobuf messages."""

import json
from collections.abc import Mapping
from typing import Any

from databroker.records import Record
from databroker.rpc import databroker_pb2 as pb
from databroker.store.base import Lease, RecordChange
from databroker.store.frozen import FrozenDict, frozen_data

SERVICE = "databroker.DataBrokerService"


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def data_to_bytes(data: Mapping[str, Any]) -> bytes:
    """Return a record's data as JSON.  Raises TypeError for data that JSON cannot represent."""
    # A FrozenDict was checked when it was created.
    if not isinstance(data, FrozenDict) and not all(isinstance(key, str) for key in _keys(data)):
        raise TypeError("keys of stored data must be text")
    return _encode(data).encode("utf-8", "surrogatepass")


def data_from_bytes(data: bytes) -> Mapping[str, Any]:
    """Return the data in JSON text.  Raises ValueError if it is not a JSON object."""
    value = json.loads(data.decode("utf-8", "surrogatepass")) if data else {}
    if not isinstance(value, dict):
        raise ValueError("stored data must be a JSON object")
    return frozen_data(value)


def record_to_pb(record: Record, *, with_data: bool = True) -> pb.Record:
    data = data_to_bytes(record.data) if with_data else b""
    return pb.Record(type=record.type, id=record.id, data=data, version=record.version, modified=record.modified, expires=record.expires)


def record_from_pb(record: pb.Record, data: Mapping[str, Any] | None = None) -> Record:
    """Return the record in a message, with `data` if the message was sent without it."""
    expires = record.expires if record.HasField("expires") else None
    held = data_from_bytes(record.data) if data is None else frozen_data(data)
    return Record(record.type, record.id, held, record.version, record.modified, expires)


def change_to_pb(change: RecordChange, *, with_data: bool = True) -> pb.Change:
    record = record_to_pb(change.record, with_data=with_data) if change.record is not None else None
    return pb.Change(version=change.version, type=change.type, id=change.id, record=record)


def change_from_pb(change: pb.Change) -> RecordChange:
    record = record_from_pb(change.record) if change.HasField("record") else None
    return RecordChange(change.version, change.type, change.id, record)


def lease_to_pb(lease: Lease) -> pb.Lease:
    return pb.Lease(name=lease.name, token=lease.token)


def lease_from_pb(lease: pb.Lease) -> Lease:
    return Lease(lease.name, lease.token)


def _keys(value: Any) -> Any:
    """Yield the keys at every depth, because json.dumps would convert a numeric key to text."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item)
