"""Sessions end with those that they grew out of, in an order that can be taken up again, and many at a time."""

from collections.abc import AsyncIterator

import pytest

from databroker.end_sessions import (
    CONCURRENCY,
    INDEX_PAGE,
    batched,
    end_sessions,
    end_sessions_for_user,
    live_linked_session_ids,
    session_ids_for_user,
)
from databroker.records import SESSION
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.signed_in import put_session


class Store(MemoryStore):
    """Store that becomes unavailable after `left` deletions, and records their order."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.deleted = 1_000_000, list[str]()

    async def delete(self, type: str, id: str) -> bool:
        if self.left == 0:
            raise BrokerError("away")
        self.left -= 1
        self.deleted.append(id)
        return await super().delete(type, id)


@pytest.fixture
async def store() -> Store:
    """Two browsers that stepped up, and a third."""
    store = Store()
    for id, earlier in (("a", ["a2", "a1"]), ("a2", ["a1"]), ("a1", []), ("b", ["b1", "gone"]), ("b1", []), ("c", [])):
        await store.put(SESSION, id, {"user_id": "oidc/x", "linked_session_ids": earlier})
    return store


async def ids(store: Store) -> list[str]:
    return [record.id for record in await store.page(SESSION, "", 100)]


async def test_the_weaker_ones_of_the_same_browsers_go_first_and_no_others(store: Store) -> None:
    assert sorted(await end_sessions(store, ["a", "b", "a"])) == ["a", "a1", "a2", "b", "b1"]
    assert await ids(store) == ["c"]
    assert set(store.deleted[-2:]) == {"a", "b"}


async def test_a_stronger_one_stays_where_a_weaker_one_ends(store: Store) -> None:
    assert sorted(await end_sessions(store, ["a2"])) == ["a1", "a2"]
    assert await ids(store) == ["a", "b", "b1", "c"]


async def test_already_ended_sessions_are_no_error_and_not_counted(store: Store) -> None:
    assert await end_sessions(store, ["gone", "c"]) == ["c"]
    assert await end_sessions(store, []) == []


@pytest.mark.parametrize("after", range(5))
async def test_interrupted_work_completes_on_retry(store: Store, after: int) -> None:
    over: list[str] = []
    store.left = after
    with pytest.raises(BrokerError):
        await end_sessions(store, ["a", "b"], over)
    assert len(over) == after
    assert set(over).isdisjoint(await ids(store))
    store.left = 100
    for id in ("a", "b"):  # each that is still stored
        if id in await ids(store):
            await end_sessions(store, [id])
    assert await ids(store) == ["c"]


async def test_those_that_live_are_named_before_anything_ends(store: Store) -> None:
    assert await live_linked_session_ids(store, ["a", "b", "c"]) == ["a2", "a1", "b1"]
    assert store.deleted == []


async def test_many_come_in_batches() -> None:
    async def all_of() -> AsyncIterator[str]:
        for number in range(2 * CONCURRENCY + 1):
            yield str(number)

    assert [len(batch) async for batch in batched(all_of())] == [CONCURRENCY, CONCURRENCY, 1]


async def test_all_sessions_of_one_user_and_no_other_are_found_and_ended() -> None:
    broker = MemoryStore()
    users = ("oidc/ann", "oidc/Ann", "oidc/anna", "other/ann")
    for user in users:
        for number in range(INDEX_PAGE + 3):
            await put_session(broker, f"{user.replace('/', '-')}-{number}", {"user_id": user})
    await put_session(broker, "gone", {"user_id": "oidc/ann"})
    await broker.delete(SESSION, "gone")
    assert len(await session_ids_for_user(broker, "oidc/ann", str.casefold)) == 2 * (INDEX_PAGE + 3)
    ended = await end_sessions_for_user(broker, "oidc/ann")
    assert set(ended) == {f"oidc-ann-{number}" for number in range(INDEX_PAGE + 3)}
    assert [len(await session_ids_for_user(broker, user)) for user in users] == [0, *[INDEX_PAGE + 3] * 3]
