"""Values that are converted to the wire format and back are equal."""

import pytest

from databroker.records import SESSION, Record
from databroker.rpc import convert
from databroker.store.base import Lease, RecordChange
from databroker.store.frozen import frozen_data

DATA = {"n": 1, "big": 2**60, "f": 1.5, "none": None, "yes": True, "list": [1, "ü\u2028", {"a": []}], "lone": "\ud800"}


@pytest.mark.parametrize("expires", [None, 0.0, 1_700_000_000.25])
def test_a_record_comes_back_the_same(expires):
    record = Record(SESSION, "a/ü", frozen_data(DATA), 2**53 + 1, 1_700_000_000.125, expires)
    assert convert.record_from_pb(convert.record_to_pb(record)) == record


def test_numbers_keep_their_kind():
    back = convert.data_from_bytes(convert.data_to_bytes({"int": 1, "float": 1.0}))
    assert (type(back["int"]), type(back["float"])) == (int, float)


def test_received_values_are_immutable():
    with pytest.raises(TypeError):
        convert.data_from_bytes(b'{"a": [1]}')["a"].append(2)


@pytest.mark.parametrize("data", [b"[1]", b'"a"', b"{", b"\xff", b"null"])
def test_non_object_is_refused(data):
    with pytest.raises(ValueError):  # noqa: PT011 - several kinds of it
        convert.data_from_bytes(data)


@pytest.mark.parametrize("data", [{1: "a"}, {"a": [{2: "b"}]}, {"a": object()}, {"a": b"x"}])
def test_value_unsupported_by_json_is_refused_before_sending(data):
    with pytest.raises(TypeError):
        convert.data_to_bytes(data)


def test_a_deletion_has_no_record_and_a_touched_one_no_data():
    record = Record(SESSION, "a", frozen_data({"token": "x"}), 3, 1.0)
    for change in (RecordChange(3, SESSION, "a", record), RecordChange(4, SESSION, "a", None)):
        assert convert.change_from_pb(convert.change_to_pb(change)) == change
    touched = convert.change_from_pb(convert.change_to_pb(RecordChange(3, SESSION, "a", record), with_data=False))
    assert touched.record is not None
    assert touched.record.data == {}


def test_a_lease_keeps_its_token():
    lease = Lease("work", "secret")
    assert convert.lease_from_pb(convert.lease_to_pb(lease)) == lease
