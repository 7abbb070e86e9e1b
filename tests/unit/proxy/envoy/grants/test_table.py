"""The memory that gate and Envoy share: what is put there is found until it is taken back, and never half."""

import struct
import zlib
from collections.abc import Iterator

import pytest

from proxy.envoy.grants import table as tables
from proxy.envoy.grants.table import HEAD, MOST_PORTS, SLOT, GrantTable, Slot, clock


@pytest.fixture
def table() -> Iterator[GrantTable]:
    made = GrantTable(4, 2)
    yield made
    made.close()


def found(table: GrantTable, key: bytes) -> int:
    """The number of the grant that Envoy's script would find by this key, 0 for none."""
    layout, memory = table.layout(), table._memory
    address, host, *_ = key.split(b"|")
    sum = zlib.crc32(address + b"|" + host + key[-layout["TAIL"] :])
    for step in range(layout["PROBES"]):
        bucket = layout["INDEX"] + 8 * ((sum + step) & (layout["BUCKETS"] - 1))
        tag, slot = struct.unpack_from("=II", memory, bucket)
        if slot and tag == sum:
            at = layout["SLOTS"] + (slot - 1) * SLOT
            number, _, _, length, _, _ = struct.unpack_from("=IIdHHI", memory, at)
            if memory[at + HEAD : at + HEAD + length] == key:
                return number
    return 0


def test_a_grant_is_found_until_it_is_taken_back(table: GrantTable) -> None:
    slot, other = table.put(b"a|b|c", 0, 1.0, {b"x": b"y"}), table.put(b"a|b|d", 0, 1.0, {})
    assert slot is not None
    assert other is not None
    assert (found(table, b"a|b|c"), found(table, b"a|b|d"), found(table, b"a|b")) == (slot.number, other.number, 0)
    assert table.key(slot) == b"a|b|c"
    table.take_back(slot)
    assert (found(table, b"a|b|c"), found(table, b"a|b|d")) == (0, other.number)
    assert table.key(slot) == b"a|b|c"


def test_one_session_has_room_at_each_of_many_hosts() -> None:
    """Without companions the cookies of `cookie_domain` are the same at all of them."""
    keys = [b"192.0.2.7|%d.example.com|%s|" % (number, b"s" * 64) for number in range(3 * tables.PROBES)]
    table = GrantTable(len(keys) * 8, 1)
    slots = [table.put(key, 0, 1.0, {}) for key in keys]
    assert all(slots)
    assert [found(table, key) for key in keys] == [slot.number for slot in slots if slot]
    table.close()


def test_there_are_as_many_grants_as_slots_and_no_slot_is_filled_again_at_once(table: GrantTable, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [table.put(b"%d|" % number, 0, 1.0, {}) for number in range(4)]
    assert all(slots)
    assert table.put(b"5|", 0, 1.0, {}) is None
    assert slots[0] is not None
    table.take_back(slots[0])
    table.free(slots[0])
    assert table.put(b"5|", 0, 1.0, {}) is None
    monkeypatch.setattr(tables, "clock", lambda: clock() + tables.REST)
    again = table.put(b"5|", 0, 1.0, {})
    assert again is not None
    assert (again.position, again.number) == (slots[0].position, 5)


def test_what_does_not_fit_is_not_granted(table: GrantTable) -> None:
    room = SLOT - HEAD - len(b"k|") - 4
    assert table.put(b"k|", 0, 1.0, {b"name": b"x" * (room - 3)}) is None
    assert table.put(b"k|", 0, 1.0, {b"name": b"x" * 70_000}) is None
    assert table.put(b"k|", 0, 1.0, {b"name": b"x" * (room - 4)}) is not None


def test_the_lease_and_the_names_of_headers_count_from_the_next_renewal_on(table: GrantTable) -> None:
    profile = table.add_profile()
    assert profile == 0
    at = table.layout()["PROFILES"]
    assert table.add_names(profile, b"+accept\n")
    assert struct.unpack_from("=I", table._memory, at) == (0,)
    assert struct.unpack_from("=d", table._memory, 0) == (0.0,)
    table.renew(7)
    assert struct.unpack_from("=I8s", table._memory, at) == (8, b"+accept\n")
    assert struct.unpack_from("=d", table._memory, 0)[0] == pytest.approx(clock() + tables.LEASE, abs=0.5)
    assert struct.unpack_from("=I", table._memory, 8) == (7,)
    table.void_lease()
    assert struct.unpack_from("=d", table._memory, 0) == (0.0,)
    assert not table.add_names(profile, b"x" * tables.PROFILE)
    assert [table.add_profile() for _ in range(tables.PROFILES)][-1] is None


def used(table: GrantTable, slot: Slot, worker: int, *ports: int) -> None:
    """As Envoy's script writes it down."""
    layout = table.layout()
    at = worker * layout["WORKER"]
    entry = at + layout["RINGS"] + 4 * layout["RING"] + slot.position * layout["USE"]
    struct.pack_into(f"=IIII{len(ports)}H", table._uses, entry, slot.number, 1, len(ports), len(ports), *ports)
    (written,) = struct.unpack_from("=I", table._uses, at)
    struct.pack_into("=I", table._uses, at + layout["RINGS"] + 4 * (written % layout["RING"]), slot.position)
    struct.pack_into("=I", table._uses, at, written + 1)


def test_uses_of_all_workers_are_told_of_this_grant_alone(table: GrantTable) -> None:
    slot = table.put(b"k|", 0, 1.0, {})
    assert slot is not None
    used(table, slot, 0, 1, 2)
    used(table, slot, 1, 2, 3)
    assert list(table.used()) == [slot.position] * 2
    assert list(table.used()) == []
    assert (table.count(slot), table.ports(slot)) == (4, {1, 2, 3})
    other = Slot(slot.position, slot.number + 1, slot.bucket)
    assert (table.count(other), table.ports(other)) == (0, set())


def test_what_envoy_writes_down_wrongly_does_no_harm(table: GrantTable) -> None:
    slot = table.put(b"k|", 0, 1.0, {})
    assert slot is not None
    layout = table.layout()
    struct.pack_into("=I", table._uses, 0, 1)
    struct.pack_into("=I", table._uses, layout["RINGS"], 10**9)
    struct.pack_into("=IIII", table._uses, layout["RINGS"] + 4 * layout["RING"], slot.number, 1, 1, 10**9)
    assert list(table.used()) == []
    assert len(table.ports(slot)) <= MOST_PORTS
