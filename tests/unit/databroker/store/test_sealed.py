"""Is what leaves this process unreadable to others, bound to its place, and readable through a change of secrets?"""

from collections.abc import Sequence
from contextlib import aclosing

import pytest
from structlog.testing import capture_logs

from databroker.records import SESSION, USER
from databroker.store.base import ResyncRequired, StoreBackend
from databroker.store.memory import MemoryStore
from databroker.store.sealed import KEY_CHECK_ID, KEY_CHECK_TYPE, InvalidKey, ResealResult, SealedStore, UnsupportedFormat
from foundation.telemetry.metrics import registry

OLD, NEW, STRANGE = b"1" * 32, b"2" * 32, b"3" * 32


@pytest.fixture
def inner() -> MemoryStore:
    return MemoryStore()


def counted(type: str) -> float:
    return registry.get_sample_value("gate_unreadable_records_total", {"type": type}) or 0.0


async def reseal_all(store: SealedStore, type: str, limit: int = 3) -> int:
    number, after = 0, ""
    while True:
        page = await store.reseal(type, after, limit)
        number += page.count
        if page.next_after is None:
            return number
        after = page.next_after


async def raw(store: StoreBackend, type: str, id: str) -> str:
    record = await store.get(type, id)
    assert record is not None
    return str(record.data["sealed"])


async def test_the_store_sees_ids_and_times_and_nothing_else(inner: MemoryStore) -> None:
    put = await SealedStore(inner, [OLD]).put(SESSION, "s", {"access_token": "hunter2", "claims": {"a": ["é"]}}, expires=2e9)
    stored = await inner.get(SESSION, "s")
    assert stored is not None
    assert (stored.id, stored.version, stored.expires, stored.modified) == ("s", put.version, 2e9, put.modified)
    assert list(stored.data) == ["sealed"]
    assert "hunter2" not in stored.data["sealed"]
    assert await SealedStore(inner, [OLD]).get(SESSION, "s") == put


async def test_the_same_data_never_look_the_same(inner: MemoryStore) -> None:
    store = SealedStore(inner, [OLD])
    seen = set()
    for _ in range(50):
        await store.put(SESSION, "s", {"a": 1})
        seen.add(await raw(inner, SESSION, "s"))
    assert len(seen) == 50


@pytest.mark.parametrize(("type", "id"), [(SESSION, "b"), (USER, "a"), ("sessio", "na")])
async def test_a_record_opens_in_its_own_place_only(inner: MemoryStore, type: str, id: str) -> None:
    store = SealedStore(inner, [OLD])
    await store.put(SESSION, "a", {"n": 1})
    await inner.put(type, id, {"sealed": await raw(inner, SESSION, "a")})
    before = counted(type)
    with capture_logs() as lines:
        assert await store.get(type, id) is None
    assert counted(type) == before + 1
    assert [(line["log_level"], line["type"], line["id"]) for line in lines] == [("error", type, id)]


@pytest.mark.parametrize("data", [{}, {"sealed": ""}, {"sealed": 7}, {"sealed": "A" * 80}, {"sealed": "not base64 "}, {"n": 1}], ids=repr)
async def test_unsealable_record_is_omitted_and_blocks_nothing(inner: MemoryStore, data: dict) -> None:
    store = SealedStore(inner, [OLD])
    begin = (await store.put(SESSION, "a", {})).version
    await inner.put(SESSION, "b", data)
    await store.put(SESSION, "c", {})
    async with aclosing(store.changes(begin)) as changes:
        changed = [await anext(changes) for _ in range(2)]
    assert [(change.id, change.record is None) for change in changed] == [("b", True), ("c", False)]
    assert [record.id for record in await store.page(SESSION, "", 10)] == ["a", "c"]
    assert [record.id for record in await store.page(SESSION, "a", 1)] == ["c"]
    assert await store.delete(SESSION, "b")


async def test_every_changed_bit_is_noticed(inner: MemoryStore) -> None:
    store = SealedStore(inner, [OLD])
    await store.put(SESSION, "a", {"n": 1})
    sealed = await raw(inner, SESSION, "a")
    for at in range(len(sealed)):
        await inner.put(SESSION, "a", {"sealed": sealed[:at] + ("B" if sealed[at] == "A" else "A") + sealed[at + 1 :]})
        assert await store.get(SESSION, "a") is None


@pytest.mark.parametrize("secrets", [[NEW], [NEW, STRANGE]])
async def test_another_secret_is_an_error_before_anything_is_read_or_written(inner: MemoryStore, secrets: Sequence[bytes]) -> None:
    version = (await SealedStore(inner, [OLD]).put(SESSION, "a", {})).version
    store = SealedStore(inner, secrets)
    for call in (
        store.get(SESSION, "a"),
        store.put(SESSION, "b", {}),
        store.page(SESSION, "", 1),
        anext(store.changes(version)),
        store.verify_key(),
    ):
        with pytest.raises(InvalidKey, match="shared_secret"):
            await call
    assert await inner.get(SESSION, "b") is None


@pytest.mark.parametrize("written", [{}, {"format": 2}, {"format": 4}])
async def test_records_of_another_format_are_neither_read_nor_written(inner: MemoryStore, written: dict[str, int]) -> None:
    store = SealedStore(inner, [OLD])
    await inner.put(KEY_CHECK_TYPE, KEY_CHECK_ID, {"sealed": store._seal(KEY_CHECK_TYPE, KEY_CHECK_ID, written)})
    for call in (store.get(SESSION, "a"), store.put(SESSION, "a", {}), store.verify_key()):
        with pytest.raises(UnsupportedFormat):
            await call
    assert await inner.get(SESSION, "a") is None


async def test_a_secret_that_a_reload_brings_is_looked_at_as_that_of_the_start(inner: MemoryStore) -> None:
    store = SealedStore(inner, [OLD])
    await store.put(SESSION, "a", {"n": 1})
    store.rotate_keys([NEW])
    for call in (store.get(SESSION, "a"), store.put(SESSION, "b", {})):
        with pytest.raises(InvalidKey, match="shared_secret"):
            await call
    assert await inner.get(SESSION, "b") is None
    store.rotate_keys([NEW, OLD])
    assert (await store.put(SESSION, "b", {})).id == "b"
    assert await store.get(SESSION, "a") is not None


async def test_secret_rotation_locks_no_client_out(inner: MemoryStore) -> None:
    only_old, both, turned, only_new = (SealedStore(inner, secrets) for secrets in ([OLD], [OLD, NEW], [NEW, OLD], [NEW]))
    await only_old.put(SESSION, "a", {"n": 1})
    await both.put(SESSION, "b", {"n": 2})
    await turned.put(SESSION, "c", {"n": 3})
    for store in (both, turned):
        assert [record.data["n"] for record in await store.page(SESSION, "", 10)] == [1, 2, 3]
    with pytest.raises(InvalidKey):
        await only_new.get(SESSION, "c")


async def test_after_resealing_the_first_key_is_enough(inner: MemoryStore) -> None:
    old = SealedStore(inner, [OLD])
    for number in range(10):
        await old.put(SESSION, str(number), {"n": number}, expires=2e9)
    turned = SealedStore(inner, [NEW, OLD])
    await turned.put(SESSION, "9", {"n": 90})
    assert [await reseal_all(turned, type) for type in (SESSION, KEY_CHECK_TYPE)] == [9, 1]
    assert [await reseal_all(turned, type) for type in (SESSION, KEY_CHECK_TYPE)] == [0, 0]
    records = await SealedStore(inner, [NEW]).page(SESSION, "", 20)
    assert [(record.data["n"], record.expires) for record in records] == [(n, 2e9) for n in range(9)] + [(90, None)]
    with pytest.raises(InvalidKey):
        await SealedStore(inner, [OLD]).verify_key()


async def test_resealing_loses_no_write_and_revives_nothing() -> None:
    class Busy(MemoryStore):
        """Between our read and our write others change one record and delete another."""

        is_busy = False

        async def page(self, type, after, limit):
            found = await super().page(type, after, limit)
            if self.is_busy and type == SESSION and after == "":
                await writer.put(SESSION, "a", {"n": "newer"})
                await writer.delete(SESSION, "b")
            return found

    inner = Busy()
    old, writer = SealedStore(inner, [OLD]), SealedStore(inner, [NEW, OLD])
    for id in ("a", "b", "c"):
        await old.put(SESSION, id, {"n": id})
    inner.is_busy = True
    assert await SealedStore(inner, [NEW, OLD]).reseal(SESSION, "", 10) == ResealResult(1, 0, "c")
    inner.is_busy = False
    assert {record.id: record.data["n"] for record in await writer.page(SESSION, "", 10)} == {"a": "newer", "c": "c"}


async def test_new_secrets_take_over_in_a_running_store(inner: MemoryStore) -> None:
    store = SealedStore(inner, [OLD])
    await store.put(SESSION, "a", {"n": 1})
    store.rotate_keys([NEW, OLD])
    await store.put(SESSION, "b", {"n": 2})
    assert len(await store.page(SESSION, "", 10)) == 2
    assert await reseal_all(store, KEY_CHECK_TYPE) == 1
    store.rotate_keys([NEW])
    assert [record.id for record in await store.page(SESSION, "", 10)] == ["b"]


async def test_two_processes_that_begin_together_agree_on_one_secret(inner: MemoryStore) -> None:
    class Slow(MemoryStore):
        first = True

        async def get(self, type, id):
            found = await super().get(type, id)
            if type == KEY_CHECK_TYPE and self.first:
                self.first = False
                await SealedStore(self, [OLD]).verify_key()
            return found

    with pytest.raises(InvalidKey):
        await SealedStore(Slow(), [NEW]).verify_key()


async def test_the_stream_is_the_stores(inner: MemoryStore) -> None:
    store = SealedStore(inner, [OLD])
    last = await store.put(SESSION, "a", {})
    with pytest.raises(ResyncRequired) as raised:
        await anext(store.changes(-1))
    assert raised.value.version == last.version
