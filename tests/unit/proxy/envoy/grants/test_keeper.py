"""When a grant is given, and when it is taken back: in one order, whatever happens at once."""

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SESSION, USER, DirectoryGroup, DirectoryUser
from databroker.replica import EVERYTHING
from proxy.envoy.grants import keeper as keepers
from proxy.envoy.grants import table as tables
from proxy.envoy.grants.table import MOST_PORTS, clock
from proxy.envoy.head import EnvoyRequestHead
from tests.support.signed_in import SignedIn, sign_in
from tests.unit.proxy.envoy.grants.conftest import Keeping, keeping
from tests.unit.proxy.envoy.grants.test_table import used

PEER = "192.0.2.7"


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.01)


def lease(kept: Keeping) -> float:
    return float(struct.unpack_from("=d", kept.table._memory, 0)[0])


def carried(kept: Keeping, *ports: int) -> None:
    """As Envoy's script says that it carried by the only grant."""
    (given,) = kept.keeper._given.values()
    used(kept.table, given.slot, 0, *ports)


async def test_the_end_of_a_session_takes_its_grants_back_and_cuts_what_they_carried(kept: Keeping) -> None:
    bob = await sign_in(kept.broker, kept.ann.options, "bob")
    await asyncio.sleep(0.1)  # until it is heard of
    assert await kept.ask("/", cookie=bob.cookie("app.example.com")) is not None
    carried(kept, 7)
    assert await kept.ask() is not None
    await kept.broker.delete(SESSION, bob.session.id)
    await until(lambda: len(kept.keeper._given) == 1)
    await until(lambda: {(PEER, 7)} in kept.connections.cuts)
    assert await kept.ask() is not None


async def test_a_connection_that_is_written_down_after_the_end_is_cut_too(kept: Keeping) -> None:
    """A request that was in Envoy's script when its grant was taken back."""
    assert await kept.ask() is not None
    (given,) = kept.keeper._given.values()
    await kept.broker.delete(SESSION, kept.ann.session.id)
    await until(lambda: not kept.keeper._given)
    await asyncio.sleep(0.02)
    used(kept.table, given.slot, 0, 9)
    await until(lambda: {(PEER, 9)} in kept.connections.cuts)


async def test_what_was_decided_before_a_change_is_not_granted_after_it(kept: Keeping) -> None:
    head = EnvoyRequestHead.of(kept.message())
    real = kept.service.dataplane.outgoing

    async def overtaken(*arguments: Any) -> Any:
        made = await real(*arguments)
        kept.streams.policy_changed()
        return made

    kept.service.dataplane.outgoing = overtaken  # type: ignore[method-assign]
    assert await kept.judge.how_carried(head) is not None
    assert kept.granted(head) is None


async def test_nothing_is_granted_while_changes_are_not_heard_of(kept: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept.replica, "_is_following", False)
    assert await kept.ask() is None


@pytest.mark.parametrize("type_", [USER, DIRECTORY_USER, DIRECTORY_GROUP, SESSION])
async def test_a_change_of_the_person_is_judged_anew(kept: Keeping, type_: str) -> None:
    assert await kept.ask() is not None
    carried(kept, 5)
    ids = {DIRECTORY_GROUP: "g1", SESSION: kept.ann.session.id}
    data = {
        USER: {"email": "other@example.com"},
        DIRECTORY_USER: DirectoryUser("oidc/ann", "a@example.com", "a", ("g1",)).to_data(),
        DIRECTORY_GROUP: DirectoryGroup("g1", "Group", "").to_data(),
        SESSION: kept.ann.session.to_data(),
    }
    record = await kept.broker.get(USER, "oidc/ann")
    assert record is not None
    data[USER] = {**record.data, "email": "other@example.com"}
    await kept.broker.put(
        type_, ids.get(type_, "oidc/ann"), data[type_], **({"expires": kept.ann.session.expires} if type_ == SESSION else {})
    )
    await until(lambda: not kept.keeper._given)
    await asyncio.sleep(0.5)
    # What they do goes on, and is remembered until its connection is closed.
    assert not any(kept.connections.cuts)
    assert [each.peers for each in kept.keeper._carrying[kept.ann.session.id]] == [{(PEER, 5)}]
    await kept.broker.delete(SESSION, kept.ann.session.id)
    await until(lambda: {(PEER, 5)} in kept.connections.cuts)


async def test_whom_a_change_keeps_out_is_cut(tmp_path: Path) -> None:
    route = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allowed_users": ["ann@example.com"]}
    async with keeping(tmp_path, routes=[route]) as kept:
        assert await kept.ask() is not None
        carried(kept, 5)
        record = await kept.broker.get(USER, "oidc/ann")
        assert record is not None
        await kept.broker.put(USER, "oidc/ann", {**record.data, "email": "other@example.com"})
        await until(lambda: {(PEER, 5)} in kept.connections.cuts)
        assert await kept.ask() is None


async def test_when_anything_may_have_changed_the_lease_ends_first(kept: Keeping) -> None:
    assert await kept.ask() is not None
    await until(lambda: lease(kept) > clock())
    kept.keeper.on_change(EVERYTHING)
    assert lease(kept) == 0.0
    assert await kept.ask() is None
    await until(lambda: lease(kept) > clock())
    assert await kept.ask() is not None


async def test_the_lease_is_renewed_by_who_lives(kept: Keeping) -> None:
    await until(lambda: lease(kept) > clock())
    first = lease(kept)
    await until(lambda: lease(kept) > first)
    kept.keeper.stop()
    assert lease(kept) == 0.0
    await asyncio.sleep(2 * keepers.RENEW_EVERY)
    assert lease(kept) == 0.0


async def test_who_has_stopped_hears_of_no_change(kept: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica ends after the table is closed, and tells of its end."""
    assert await kept.ask() is not None
    kept.keeper.stop()
    with monkeypatch.context() as patched:
        patched.setattr(kept.table, "void_lease", None)
        kept.keeper.on_change(EVERYTHING)
    assert len(kept.keeper._given) == 1


async def test_a_grant_of_too_many_connections_gives_way_to_another_and_all_are_cut(kept: Keeping) -> None:
    assert await kept.ask() is not None
    (first,) = kept.keeper._given.values()
    carried(kept, *range(1, MOST_PORTS + 1))
    assert await kept.ask() is not None
    (second,) = kept.keeper._given.values()
    assert second.slot.number != first.slot.number
    carried(kept, 1000)
    await until(lambda: bool(kept.keeper._carrying))
    await kept.broker.delete(SESSION, kept.ann.session.id)
    everything = {(PEER, port) for port in (*range(1, MOST_PORTS + 1), 1000)}
    await until(lambda: set().union(*kept.connections.cuts) == everything)


async def test_with_too_many_connections_a_session_is_judged(kept: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepers, "MOST_CONNECTIONS", MOST_PORTS)
    assert await kept.ask() is not None
    carried(kept, *range(1, MOST_PORTS + 1))
    assert await kept.ask() is not None
    await until(lambda: bool(kept.keeper._carrying))
    carried(kept, *range(101, MOST_PORTS + 101))
    assert await kept.ask() is not None  # the old one, which Envoy no longer carries by
    (given,) = kept.keeper._given.values()
    assert len(kept.table.ports(given.slot)) == MOST_PORTS


async def test_a_full_table_is_for_the_judge_until_somebody_was_idle(kept: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    people: list[SignedIn] = [await sign_in(kept.broker, kept.ann.options, f"p{number}") for number in range(9)]
    await asyncio.sleep(0.1)  # until it is heard of
    granted = [await kept.ask(cookie=each.cookie("app.example.com")) is not None for each in people]
    assert granted == [True] * 8 + [False]
    assert await kept.ask(cookie=people[8].cookie("app.example.com")) is None
    monkeypatch.setattr(keepers, "IDLE", -1.0)
    assert await kept.ask(cookie=people[8].cookie("app.example.com")) is None  # its place is not free at once
    later = clock() + tables.REST + 1
    await asyncio.sleep(0.3)
    monkeypatch.setattr(tables, "clock", lambda: later)
    assert await kept.ask(cookie=people[8].cookie("app.example.com")) is not None


async def test_what_was_used_is_seen(kept: Keeping) -> None:
    assert await kept.ask() is not None
    before = len(kept.saw)
    carried(kept, 5)
    await until(lambda: len(kept.saw) > before)
    assert set(kept.saw[before:]) == {kept.ann.session.id}


async def test_connections_that_are_closed_are_forgotten(kept: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await kept.ask() is not None
    carried(kept, 5, 6)
    kept.connections.open_ = {(PEER, 6)}
    (given,) = kept.keeper._given.values()
    kept.keeper._take(given, is_over=False)
    await until(lambda: bool(kept.keeper._carrying))
    monkeypatch.setattr(keepers, "LOOK_AT_CONNECTIONS_EVERY", 0.01)
    kept.keeper.stop()
    kept.keeper.start()
    await until(lambda: [each.peers for each in kept.keeper._carrying.get(kept.ann.session.id, ())] == [{(PEER, 6)}])
