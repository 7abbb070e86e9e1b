"""Cache of packed records: each reader gets an equal, separate copy, and the least recently used records are evicted."""

import enum
import sys
from types import MappingProxyType
from typing import Any

import pytest

from databroker import record_cache as packed_records
from databroker.record_cache import ChangeCounter, RecordCache
from databroker.records import SESSION, Record
from databroker.store.frozen import frozen_data

NOW = 1_700_000_000.0


class Kind(str, enum.Enum):  # noqa: UP042 - a subclass of text, as libraries have them
    ONE = "one"


class Number(int):
    pass


def packed(*records: Record, max_records: int = 100) -> RecordCache:
    held = RecordCache(SESSION, max_records)
    for record in records:
        held.put(record.id, record)
    return held


def record(id: str = "a", version: int = 1, expires: float | None = None, **data: Any) -> Record:
    return Record(SESSION, id, frozen_data(data), version, NOW + 0.125, expires)


@pytest.mark.parametrize(
    "original",
    [
        record(),
        record(version=2**62, expires=NOW),
        record(
            n=None,
            yes=True,
            whole=[10**40, -(2**63) - 1, 2**63],
            half=0.1,
            text="ä\x00\ud7ff\U0001f511\ud800",
            nested={"list": [1, {"of": ["a", []]}], "": {}},
        ),
    ],
)
def test_unpacked_record_equals_packed_one(original: Record) -> None:
    assert packed(original).get("a") == original


def test_no_reader_changes_the_result_of_the_next() -> None:
    found = packed(record(claims={"groups": ["a"]})).get("a")
    assert found is not None
    with pytest.raises(TypeError):
        found.data["claims"]["groups"].append("admins")


def test_opened_record_is_cached_until_it_changes() -> None:
    held = packed(record(version=1))
    first = held.get("a")
    assert held.get("a") is first
    held.put("a", record(version=2))
    second = held.get("a")
    assert second is not None
    assert (second.version, held.get("a") is second) == (2, True)
    held.put("a", None)
    assert held.get("a") is None
    held.drop("a")
    with pytest.raises(KeyError):
        held.get("a")
    held.put("a", record(version=1))
    third = held.get("a")
    assert third == first
    assert third is not first, "another life may have other data of the same version"
    held.clear()
    assert held._decoded == {}


def test_not_much_is_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("databroker.record_cache.MAX_DECODED", 2)
    held = packed(*(record(id) for id in "abc"))
    for id in "abca":
        held.get(id)
    assert list(held._decoded) == ["c", "a"]


def test_names_and_the_texts_of_lists_are_one_object_for_all() -> None:
    held = packed(*(Record(SESSION, id, frozen_data({f"a {'name'}": [f"a {'group'}"]}), 1, NOW) for id in "ab"))
    first, second = held.get("a"), held.get("b")
    assert first is not None
    assert second is not None
    assert next(iter(first.data)) is next(iter(second.data))
    assert first.data["a name"][0] is second.data["a name"][0]


def test_values_of_stricter_types_match_their_json() -> None:
    found = packed(record(kind=Kind.ONE, number=Number(7))).get("a")
    assert found is not None
    assert found.data == {"kind": "one", "number": 7}
    assert [type(value) for value in found.data.values()] == [str, int]


@pytest.mark.parametrize("value", [object(), {1, 2}, MappingProxyType({})])
def test_value_unsupported_by_json_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="JSON values"):
        packed(Record(SESSION, "a", {"value": value}, 1, NOW))


def test_missing_record_is_distinguished_from_empty() -> None:
    held = packed()
    held.put("a", None)
    assert "a" in held
    assert held.get("a") is held.version("a", NOW) is held.peek_version("a") is None
    for question in (held.get, held.peek_version, lambda id: held.version(id, NOW)):
        with pytest.raises(KeyError):
            question("b")


def test_version_is_reported_until_record_expires() -> None:
    held = packed(record("a", 7, NOW), record("b", 8))
    assert [held.version("a", NOW - 1), held.version("a", NOW), held.peek_version("a")] == [7, None, 7]
    assert held.version("b", sys.float_info.max) == 8


def test_lru_entry_is_evicted_and_changes_do_not_count_as_use() -> None:
    held = packed(*(record(id) for id in "abc"), max_records=3)
    held.get("a")
    held.put("b", record("b", 2))
    held.peek_version("b")
    held.put("d", record("d"))
    assert [id for id in "abcd" if id in held] == ["a", "c", "d"]
    held.version("c", NOW)
    held.put("e", record("e"))
    assert [id for id in "abcde" if id in held] == ["c", "d", "e"]


def test_of_many_a_hundredth_makes_room_at_once() -> None:
    held = packed(*(record(str(number)) for number in range(501)), max_records=500)
    assert repr(held) == "<RecordCache 496 of session>"
    assert ["4" in held, "5" in held, "500" in held] == [False, True, True]


def test_it_weighs_a_third() -> None:
    """Of the texts in it, names and groups are shared; what is its own is its id."""
    data = {"user_id": "oidc/1", "claims": {f"claim {number}": f"value {number}" for number in range(10)}, "issued": NOW, "expires": NOW}
    (one,) = packed(record(**data))._entries.values()
    plain = record(**data)
    weight = sum(map(sys.getsizeof, (plain, plain.data, plain.data["claims"], *plain.data["claims"].values())))
    assert one is not None
    assert 3 * sys.getsizeof(one) < weight


def test_records_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider may send a hundred times the usual amount of data about each user."""
    monkeypatch.setattr(packed_records, "MAX_BYTES", 50_000)
    held = packed(*(record(str(number), claims="x" * 10_000) for number in range(20)))
    assert "<RecordCache 4 of" in repr(held)
    held.put("19", record("19", version=2, claims="y"))
    held.put("19", record("19", version=3, claims="x" * 10_000))
    held.drop("18")
    held.put("20", record("20", claims="x" * 10_000))
    assert ("16" in held, "17" in held, "20" in held) == (True, True, True)


def test_large_record_is_parsed_each_time() -> None:
    held = packed(record("a", claims="x" * 100_000))
    assert held.get("a") == record("a", claims="x" * 100_000)
    assert held._decoded == {}


def test_each_state_change_is_a_write_and_no_read_is() -> None:
    writes = ChangeCounter()
    caches = [RecordCache(SESSION, 2, writes) for _ in range(2)]
    seen = [writes.number]

    def is_noticed() -> bool:
        seen.append(writes.number)
        return seen[-1] > seen[-2]

    for held in caches:
        held.put("a", record())
        assert is_noticed()
        assert (held.get("a"), held.version("a", NOW), held.peek_version("a"), "b" in held) == (record(), 1, 1, False)
        assert not is_noticed()
        held.put("b", None)
        assert is_noticed()
        held.drop("a")
        assert is_noticed()
        held.drop("a")
        assert not is_noticed(), "it was not held"
        held.clear()
        assert is_noticed()


def test_eviction_is_a_write() -> None:
    writes = ChangeCounter()
    held = RecordCache(SESSION, 1, writes)
    held.put("a", record("a"))
    before = writes.number
    held.put("b", record("b"))
    assert "a" not in held
    assert writes.number > before
