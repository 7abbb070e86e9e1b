"""The data broker's directory becomes what a snapshot says, with no write too many, and no half of it gone by mistake."""

import asyncio
from typing import Any

import pytest

from authenticate.directory.file_source import parse
from authenticate.directory.snapshot import DirectorySnapshot
from authenticate.directory.sync import NEVER_SKIPPED, WRITE_CONCURRENCY, RemovalLimitExceeded, apply, check_removals, diff
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryUser
from databroker.store.memory import MemoryStore
from tests.support.brokers import DisturbedBroker
from tests.support.providers import a_provider

PROVIDER = a_provider()
STARTED_AT = 1e12  # after all that is written before
FIRST, SECOND = "https://first.example", "https://second.example"


@pytest.fixture
def broker() -> DisturbedBroker:
    return DisturbedBroker(MemoryStore())


async def ids(broker: DisturbedBroker, type: str) -> list[str]:
    return [record.id for record in await broker.page(type, "", 10_000)]


def snapshot(users: int, groups: int = 0) -> DirectorySnapshot:
    people = [DirectoryUser(f"okta/{number}") for number in range(users)]
    return DirectorySnapshot({user.id: user for user in people}, {f"g{number}": DirectoryGroup(f"g{number}") for number in range(groups)})


async def test_only_differences_are_written_and_missing_records_are_deleted(broker: DisturbedBroker) -> None:
    first = parse(b"users: [{id: a, groups: [g]}, {id: b, name: B}]\ngroups: [{id: g, name: G}]", ".yaml", PROVIDER)
    await apply(await diff(first, broker), broker)
    assert await ids(broker, DIRECTORY_USER) == ["oidc/a", "oidc/b"]
    assert await diff(first, broker) == (await diff(first, broker))
    assert (await diff(first, broker)).put == ()

    second = parse(b"users: [{id: a, groups: [g, h]}]\ngroups: [{id: g, name: G}]", ".yaml", PROVIDER)
    changes = await diff(second, broker)
    assert [(type, value.id) for type, value in changes.put] == [(DIRECTORY_GROUP, "h"), (DIRECTORY_USER, "oidc/a")]
    assert changes.delete == ((DIRECTORY_USER, "oidc/b"),)


async def test_more_than_a_page_is_compared(broker: DisturbedBroker) -> None:
    many = parse(("users:\n" + "".join(f"- {{id: u{n:04}}}\n" for n in range(1201))).encode(), ".yaml", PROVIDER)
    await apply(await diff(many, broker), broker)
    assert (await diff(many, broker)).put == ()
    await apply(await diff(parse(b"{}", ".yaml", PROVIDER), broker), broker)
    assert await ids(broker, DIRECTORY_USER) == []


async def test_change_reports_previous_value(broker: DisturbedBroker) -> None:
    await apply(await diff(parse(b"users: [{id: a, name: A, groups: [g]}]", ".yaml", PROVIDER), broker), broker)
    changes = await diff(parse(b"users: [{id: a, name: B, groups: [g]}, {id: b}]", ".yaml", PROVIDER), broker)
    assert changes.counts == (1, 1, 0)
    assert changes.before == {(DIRECTORY_USER, "oidc/a"): DirectoryUser("oidc/a", name="A", group_ids=("g",))}
    assert changes.added == {(DIRECTORY_USER, "oidc/b")}


@pytest.mark.parametrize(
    ("remaining", "is_stopped"), [((10, 10), False), ((5, 5), False), ((4, 10), True), ((10, 4), True), ((0, 0), True)]
)
async def test_more_than_half_is_not_removed_by_mistake(broker: DisturbedBroker, remaining: tuple[int, int], is_stopped: bool) -> None:
    await apply(await diff(snapshot(10, 10), broker), broker)
    changes = await diff(snapshot(*remaining), broker)
    if is_stopped:
        with pytest.raises(RemovalLimitExceeded, match="gate sync --force"):
            check_removals(changes)
    else:
        check_removals(changes)


def of_members(*users: DirectoryUser) -> DirectorySnapshot:
    return DirectorySnapshot({user.id: user for user in users}, {}, partial_for="github/")


@pytest.mark.parametrize("is_listed", [False, True])
async def test_deactivated_user_is_readmitted_only_where_a_directory_lists_them(is_listed: bool, broker: DisturbedBroker) -> None:
    """The directory of before was pushed (SCIM); this one is a file that may not know them."""
    user = DirectoryUser("oidc/alice", is_deactivated=True)
    await broker.put(DIRECTORY_USER, user.id, user.to_data())
    users = [DirectoryUser("oidc/bob"), *([DirectoryUser("oidc/alice")] if is_listed else [])]
    await apply(await diff(DirectorySnapshot({each.id: each for each in users}, {}), broker), broker)
    record = await broker.get(DIRECTORY_USER, "oidc/alice")
    assert record is not None
    assert DirectoryUser.from_record(record).is_deactivated is not is_listed


async def test_user_not_listed_for_lack_of_groups_has_none(broker: DisturbedBroker) -> None:
    for user in (
        DirectoryUser("github/looked-up", name="L"),
        DirectoryUser("github/left", name="L", group_ids=("g",)),
        DirectoryUser("github/out", is_deactivated=True),
        DirectoryUser("okta/another", group_ids=("g",)),
    ):
        await broker.put(DIRECTORY_USER, user.id, user.to_data())
    listed = of_members(DirectoryUser("github/in", group_ids=("g",)))
    changes = await diff(listed, broker)
    await apply(changes, broker)
    stored = {record.id: DirectoryUser.from_record(record) for record in await broker.page(DIRECTORY_USER, "", 10)}
    assert stored == {
        "github/in": DirectoryUser("github/in", group_ids=("g",)),
        "github/looked-up": DirectoryUser("github/looked-up", name="L"),
        "github/left": DirectoryUser("github/left"),
        "github/out": DirectoryUser("github/out", is_deactivated=True),
    }
    assert len(await diff(listed, broker)) == 0


async def test_more_than_half_does_not_lose_all_groups_by_mistake(broker: DisturbedBroker) -> None:
    people = [DirectoryUser(f"github/{number}", group_ids=("g",)) for number in range(10)]
    await apply(await diff(of_members(*people), broker), broker)
    for number in range(20):  # looked up at a sign-in, in no group: they lend the others no weight
        await broker.put(DIRECTORY_USER, f"github/none-{number}", DirectoryUser(f"github/none-{number}").to_data())
    check_removals(await diff(of_members(*people[:5]), broker))
    with pytest.raises(RemovalLimitExceeded):
        check_removals(await diff(of_members(*people[:4]), broker))


async def test_nothing_is_too_much_where_nothing_was(broker: DisturbedBroker) -> None:
    check_removals(await diff(snapshot(0), broker))
    check_removals(await diff(snapshot(3, 3), broker))


async def test_changes_since_sync_start_are_preserved() -> None:
    """A user signed in and was looked up after the list was made, so the list does not contain them."""
    now = 1000.0
    broker = DisturbedBroker(MemoryStore(lambda: now))
    await broker.put(DIRECTORY_USER, "okta/old", DirectoryUser("okta/old").to_data())
    now = 2000.0
    for id in ("okta/new", "okta/0"):
        await broker.put(DIRECTORY_USER, id, DirectoryUser(id, group_ids=("fresh",)).to_data())
    changes = await diff(snapshot(1), broker, started_at=1500.0)
    assert changes.put == ()
    assert changes.delete == ((DIRECTORY_USER, "okta/old"),)


@pytest.mark.parametrize(
    ("data", "written"),
    [({"id": "okta/0", "shoe_size": 43}, []), ({"id": "okta/0", "group_ids": 7}, ["okta/0"]), ({"shoe_size": 43}, ["okta/0"])],
    ids=["of a later release", "malformed", "incomplete"],
)
async def test_unreadable_record_is_rewritten(broker: DisturbedBroker, data: dict[str, Any], written: list[str]) -> None:
    await broker.put(DIRECTORY_USER, "okta/0", data)
    assert [value.id for _, value in (await diff(snapshot(1), broker)).put] == written


async def test_writes_are_parallel_and_bounded(broker: DisturbedBroker) -> None:
    busy = peak = 0

    class Counting:
        async def put(self, type: str, id: str, data: object, **more: object) -> None:
            nonlocal busy, peak
            busy += 1
            peak = max(peak, busy)
            await asyncio.sleep(0)
            busy -= 1

    steps: list[int] = []
    await apply(await diff(snapshot(100), broker), Counting(), steps.append)  # type: ignore[arg-type]
    assert peak == WRITE_CONCURRENCY
    assert sum(steps) == 100


@pytest.mark.parametrize(
    ("held", "listed", "written"),
    [
        (FIRST, FIRST, 0),
        ("", FIRST, 2),  # once after the upgrade, as any other change
        (FIRST, SECOND, 2),
        (FIRST, "", 2),  # a file in the place of a vendor's directory
        ("", "", 0),
    ],
)
async def test_issuer_is_written_where_it_differs(broker: DisturbedBroker, held: str, listed: str, written: int) -> None:
    def of(issuer: str) -> DirectorySnapshot:
        return DirectorySnapshot({"okta/1": DirectoryUser("okta/1", issuer=issuer)}, {"g": DirectoryGroup("g", issuer=issuer)}, "", issuer)

    await apply(await diff(of(held), broker), broker)
    changes = await diff(of(listed), broker)
    assert changes.counts == (0, written, 0)
    check_removals(changes)
    await apply(changes, broker)
    assert len(await diff(of(listed), broker)) == 0


async def test_empty_membership_is_attributed_to_the_sync_issuer(broker: DisturbedBroker) -> None:
    for user in (DirectoryUser("github/left", group_ids=("g",), issuer=FIRST), DirectoryUser("github/none", issuer=FIRST)):
        await broker.put(DIRECTORY_USER, user.id, user.to_data())
    stay = {f"github/{number}": DirectoryUser(f"github/{number}", issuer=SECOND) for number in range(3)}
    await apply(await diff(DirectorySnapshot(stay, {}, "github/", SECOND), broker), broker)
    stored = {record.id: DirectoryUser.from_record(record).issuer for record in await broker.page(DIRECTORY_USER, "", 10)}
    assert (stored["github/left"], stored["github/none"]) == (SECOND, FIRST)


@pytest.mark.parametrize(("started_at", "groups"), [(STARTED_AT, ("looked up",)), (NEVER_SKIPPED, ("read",))])
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_look_up_between_comparison_and_write_stays_and_none_is_newer_than_a_file(
    broker: DisturbedBroker, is_known: bool, started_at: float, groups: tuple[str, ...]
) -> None:
    if is_known:
        await broker.put(DIRECTORY_USER, "okta/a", DirectoryUser("okta/a").to_data())
    reading = DirectorySnapshot({id: DirectoryUser(id, group_ids=("read",)) for id in ("okta/a", "okta/b")}, {})
    changes = await diff(reading, broker, started_at)
    await broker.put(DIRECTORY_USER, "okta/a", DirectoryUser("okta/a", group_ids=("looked up",)).to_data())
    await apply(changes, broker)
    users = [DirectoryUser.from_record(record) for record in await broker.page(DIRECTORY_USER, "", 10)]
    assert [(user.id, user.group_ids) for user in users] == [("okta/a", groups), ("okta/b", ("read",))]
