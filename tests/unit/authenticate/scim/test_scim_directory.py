"""SCIM directory: pushes take effect immediately, and interrupted changes are completed by repetition."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from authenticate.scim.scim_directory import ScimDirectory
from authenticate.scim.scim_errors import ScimError
from databroker.records import (
    DIRECTORY_GROUP,
    DIRECTORY_USER,
    SCIM_GROUP,
    SCIM_INDEX,
    SCIM_USER,
    SESSION,
    DirectoryGroup,
    DirectoryUser,
    Record,
    SessionRecord,
)
from databroker.session_reader import find_directory_record
from databroker.store.memory import MemoryStore
from tests.support.options import MINIMAL, make_options
from tests.support.signed_in import put_session

ISSUER = MINIMAL["idp_provider_url"]
TOKEN = "0123456789abcdefghijklmnopqrstuv"
Make = Callable[..., ScimDirectory]


@pytest.fixture
def make(tmp_path: Path, broker: MemoryStore) -> Make:
    return lambda **settings: ScimDirectory(
        make_options(tmp_path, scim_token=TOKEN, **settings).first_provider, broker, lambda: 1000.0, [].append
    )


@pytest.fixture
def directory(make: Make) -> ScimDirectory:
    return make()


def scim_user(name: str = "ann", **more: Any) -> dict[str, Any]:
    return {"userName": f"{name}@example.com", "externalId": f"id-of-{name}", **more}


async def known(broker: MemoryStore, name: str = "ann") -> DirectoryUser | None:
    record = await broker.get(DIRECTORY_USER, f"oidc/id-of-{name}")
    return DirectoryUser.from_record(record) if record is not None else None


def session_of(name: str, issuer: str = ISSUER) -> SessionRecord:
    return SessionRecord("1", f"oidc/id-of-{name}", f"id-of-{name}", "oidc", 0, 4e9, issuer=issuer)


async def deactivate(directory: ScimDirectory, name: str, issuer: str = ISSUER) -> bool:
    return await directory.is_deactivated(session_of(name, issuer))


async def signed_in(broker: MemoryStore, name: str, id: str) -> None:
    session = SessionRecord(id, f"oidc/id-of-{name}", f"id-of-{name}", "oidc", 0, 4e9)
    await put_session(broker, id, session.to_data())


async def with_group(directory: ScimDirectory, **more: Any) -> tuple[Record, Record]:
    user = (await directory.users.create(scim_user())).after
    sales = {"displayName": "Sales", "externalId": "g-1", "members": [{"value": user.id}], **more}
    return user, (await directory.groups.create(sales)).after


def deactivation() -> dict[str, Any]:
    return {"Operations": [{"op": "replace", "value": {"active": False}}]}


async def test_writes_directory_records(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, group = await with_group(directory)
    assert await known(broker) == DirectoryUser("oidc/id-of-ann", "ann@example.com", "ann@example.com", ("g-1",), issuer=ISSUER)
    record = await broker.get(DIRECTORY_GROUP, "g-1")
    assert record is not None
    assert DirectoryGroup.from_record(record) == DirectoryGroup("g-1", "Sales", issuer=ISSUER)
    assert (await directory.find(SCIM_USER, user.id)).data["groups"] == {group.id: "g-1"}


async def test_deactivation_removes_groups_and_ends_sessions(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, _ = await with_group(directory)
    await directory.users.create(scim_user("bob"))
    for id, name in (("1", "ann"), ("2", "ann"), ("3", "bob")):
        await signed_in(broker, name, id)
    await directory.users.patch(user.id, deactivation())
    assert await known(broker) == DirectoryUser("oidc/id-of-ann", is_deactivated=True, issuer=ISSUER)
    assert [record.id for record in await broker.page(SESSION, "", 10)] == ["3"]
    assert await deactivate(directory, "ann")
    assert not await deactivate(directory, "bob")
    assert not await deactivate(directory, "nobody")


async def test_deactivated_without_record(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, _ = await with_group(directory)
    await directory.users.patch(user.id, deactivation())
    await broker.delete(DIRECTORY_USER, "oidc/id-of-ann")
    assert await deactivate(directory, "ann")


async def test_repeated_deactivation_ends_new_sessions(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, _ = await with_group(directory)
    await directory.users.patch(user.id, deactivation())
    await signed_in(broker, "ann", "1")
    await directory.users.patch(user.id, deactivation())
    assert await broker.page(SESSION, "", 10) == []


async def test_reactivated_user_has_current_groups(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, group = await with_group(directory)
    await directory.users.patch(user.id, deactivation())
    await directory.groups.create({"displayName": "New", "externalId": "g-2", "members": [{"value": user.id}]})
    await directory.groups.patch(group.id, {"Operations": [{"op": "remove", "path": f'members[value eq "{user.id}"]'}]})
    assert await known(broker) == DirectoryUser("oidc/id-of-ann", is_deactivated=True, issuer=ISSUER)
    await directory.users.patch(user.id, {"Operations": [{"op": "replace", "path": "active", "value": "True"}]})
    found = await known(broker)
    assert found is not None
    assert (found.group_ids, found.is_deactivated) == (("g-2",), False)


async def test_members_come_and_go(directory: ScimDirectory, broker: MemoryStore) -> None:
    _, group = await with_group(directory)
    bob = (await directory.users.create(scim_user("bob"))).after
    await directory.groups.replace(group.id, {"displayName": "Sales", "externalId": "g-1", "members": [{"value": bob.id}]})
    ann_known, bob_known = await known(broker), await known(broker, "bob")
    assert ann_known is not None
    assert bob_known is not None
    assert (ann_known.group_ids, bob_known.group_ids) == ((), ("g-1",))


async def test_a_group_with_another_id_is_another_group_to_its_members(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, group = await with_group(directory)
    await directory.groups.replace(group.id, {"displayName": "Sales", "externalId": "g-9", "members": [{"value": user.id}]})
    found = await known(broker)
    assert found is not None
    assert found.group_ids == ("g-9",)
    assert [record.id for record in await broker.page(DIRECTORY_GROUP, "", 10)] == ["g-9"]


async def test_a_deleted_group_is_nobodys(directory: ScimDirectory, broker: MemoryStore) -> None:
    _, group = await with_group(directory)
    await directory.groups.delete(group.id)
    found = await known(broker)
    assert found is not None
    assert found.group_ids == ()
    assert await broker.page(DIRECTORY_GROUP, "", 10) == await broker.page(SCIM_GROUP, "", 10) == []


async def test_a_deleted_user_leaves_nothing_but_that_they_must_not_get_in(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, group = await with_group(directory)
    await signed_in(broker, "ann", "1")
    await directory.users.delete(user.id)
    assert (await directory.find(SCIM_GROUP, group.id)).data["members"] == []
    for type in (SESSION, SCIM_USER):
        assert await broker.page(type, "", 10) == []
    assert await known(broker) == DirectoryUser("oidc/id-of-ann", is_deactivated=True, issuer=ISSUER)
    await directory.groups.delete(group.id)
    assert await broker.page(SCIM_INDEX, "", 10) == []


async def test_deleted_user_stays_deactivated_until_created_again(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, _ = await with_group(directory)
    await directory.users.delete(user.id)
    await directory.repair()  # at a restart
    assert await deactivate(directory, "ann")
    await directory.users.create(scim_user())
    assert not await deactivate(directory, "ann")
    assert await known(broker) == DirectoryUser("oidc/id-of-ann", "ann@example.com", "ann@example.com", issuer=ISSUER)


async def test_another_provider_id_is_another_user(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, _ = await with_group(directory)
    await signed_in(broker, "ann", "1")
    await directory.users.replace(user.id, {**scim_user(), "externalId": "id-of-new"})
    assert await known(broker) is None
    found = await known(broker, "new")
    assert found is not None
    assert found.group_ids == ("g-1",)
    assert await broker.page(SESSION, "", 10) == []
    await directory.users.create(scim_user("other", externalId="id-of-ann"))  # the old one is free again


@pytest.mark.parametrize(
    ("was_active", "attributes", "is_shut_out"),
    [
        (True, {}, False),
        (True, {"active": True}, False),
        (True, {"active": False}, True),
        (False, {}, True),
        (False, {"active": None}, True),
        (False, {"active": False}, True),
        (False, {"active": True}, True),
    ],
)
@pytest.mark.parametrize("is_patched", [False, True])
async def test_rename_does_not_reactivate(
    directory: ScimDirectory, broker: MemoryStore, was_active: bool, attributes: dict[str, Any], is_shut_out: bool, is_patched: bool
) -> None:
    user, _ = await with_group(directory)
    await signed_in(broker, "ann", "1")
    if not was_active:
        await directory.users.patch(user.id, deactivation())
    if is_patched:
        await directory.users.patch(user.id, {"Operations": [{"op": "replace", "value": {"externalId": "id-of-new", **attributes}}]})
    else:
        await directory.users.replace(user.id, {**scim_user(), "externalId": "id-of-new", **attributes})
    for _ in range(2):
        assert await deactivate(directory, "ann") is is_shut_out
        assert await known(broker) == (DirectoryUser("oidc/id-of-ann", is_deactivated=True, issuer=ISSUER) if is_shut_out else None)
        assert await broker.page(SESSION, "", 10) == []
        await directory.repair()  # at a restart
    await directory.users.create(scim_user("other", externalId="id-of-ann"))  # a new user has that id
    assert not await deactivate(directory, "ann")


@pytest.mark.parametrize("more", [{"userName": "ANN@example.com", "externalId": "x"}, {"userName": "x", "externalId": "id-of-ann"}])
async def test_refuses_duplicate_users(directory: ScimDirectory, more: dict[str, Any]) -> None:
    await directory.users.create(scim_user())
    with pytest.raises(ScimError) as refused:
        await directory.users.create(scim_user("bob", **more))
    assert (refused.value.status, refused.value.kind) == (409, "uniqueness")


async def test_two_groups_can_not_have_one_id_but_one_name(directory: ScimDirectory) -> None:
    await directory.groups.create({"displayName": "Sales", "externalId": "g-1"})
    await directory.groups.create({"displayName": "Sales", "externalId": "g-2"})
    with pytest.raises(ScimError):
        await directory.groups.create({"displayName": "Other", "externalId": "g-1"})


async def test_names_cannot_collide_with_ids(make: Make) -> None:
    """If names are ids, a group with another's id as its name would be that group."""
    directory = make(scim_group_id="displayName")
    await directory.groups.create({"displayName": "sales"})
    with pytest.raises(ScimError):
        await directory.groups.create({"displayName": "sales"})


async def test_refuses_user_without_id_attribute(directory: ScimDirectory, broker: MemoryStore) -> None:
    with pytest.raises(ScimError, match="scim_user_id"):
        await directory.users.create({"userName": "ann"})
    assert await broker.page(SCIM_INDEX, "", 10) == await broker.page(SCIM_USER, "", 10) == []


async def test_user_name_as_id(make: Make, broker: MemoryStore) -> None:
    await make(scim_user_id="userName").users.create({"userName": "ann"})
    assert await broker.get(DIRECTORY_USER, "oidc/ann") is not None


USER_NAMES = [
    ("userName", "Alice", "alice", True),
    ("userName", "alice", "Alice", True),
    ("userName", "ALICE", "Alice", True),
    ("userName", "alice", "alice", True),
    ("userName", "alice", "alice2", False),
    ("externalId", "Alice", "alice", False),
    ("externalId", "Alice", "Alice", True),
]


@pytest.mark.parametrize(("attribute", "pushed", "subject", "is_same"), USER_NAMES)
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_deactivation_ignores_user_name_case(
    make: Make, broker: MemoryStore, attribute: str, pushed: str, subject: str, is_same: bool, is_deleted: bool
) -> None:
    directory = make(scim_user_id=attribute)
    user = (await directory.users.create({"userName": pushed, "externalId": pushed})).after
    session = SessionRecord("1", f"oidc/{subject}", subject, "oidc", 0, 4e9, issuer=ISSUER)
    await put_session(broker, "1", session.to_data())
    assert not await directory.is_deactivated(session)
    if is_deleted:
        await directory.users.delete(user.id)
    else:
        await directory.users.patch(user.id, deactivation())
    assert (await broker.get(SESSION, "1") is None) is is_same
    assert await directory.is_deactivated(session) is is_same
    record = await find_directory_record(session, directory.provider, broker.get)
    assert (record is not None and record.data.get("is_deactivated", False)) is is_same
    await directory.repair()
    assert await directory.is_deactivated(session) is is_same
    if not is_deleted:
        # The mark alone, and the resource alone, each keep them out.
        for id in {f"oidc/{pushed}", f"oidc/{pushed.casefold()}"}:
            await broker.delete(DIRECTORY_USER, id)
        assert await directory.is_deactivated(session) is is_same
        await directory.users.patch(user.id, {"Operations": [{"op": "replace", "value": {"active": True}}]})
    else:
        await directory.users.create({"userName": pushed, "externalId": pushed})
    assert not await directory.is_deactivated(session)


@pytest.mark.parametrize(("pushed", "subject"), [("Alice", "alice"), ("Alice", "ALICE"), ("alice", "Alice")])
async def test_an_account_of_another_case_has_no_groups(make: Make, broker: MemoryStore, pushed: str, subject: str) -> None:
    directory = make(scim_user_id="userName")
    user = (await directory.users.create({"userName": pushed})).after
    await directory.groups.create({"displayName": "Sales", "members": [{"value": user.id}]})
    for active in (False, True):
        await directory.users.patch(user.id, {"Operations": [{"op": "replace", "value": {"active": active}}]})
    session = SessionRecord("1", f"oidc/{subject}", subject, "oidc", 0, 4e9, issuer=ISSUER)
    assert await find_directory_record(session, directory.provider, broker.get) is None
    exact = SessionRecord("1", f"oidc/{pushed}", pushed, "oidc", 0, 4e9, issuer=ISSUER)
    record = await find_directory_record(exact, directory.provider, broker.get)
    assert record is not None
    assert record.data["group_ids"]


async def test_a_reactivation_deletes_no_active_record_of_another_case(make: Make, broker: MemoryStore) -> None:
    other = DirectoryUser("oidc/alice", "alice@corp.example", issuer=ISSUER)
    await broker.put(DIRECTORY_USER, other.id, other.to_data())
    await make(scim_user_id="userName").users.create({"userName": "Alice"})
    record = await broker.get(DIRECTORY_USER, other.id)
    assert record is not None
    assert DirectoryUser.from_record(record) == other


async def test_group_is_named_by_its_name_or_else_by_id(make: Make, broker: MemoryStore) -> None:
    await make(scim_group_id="displayName").groups.create({"displayName": "Sales", "externalId": "g-1"})
    assert await broker.get(DIRECTORY_GROUP, "Sales") is not None
    _, group = await make().groups.create({"displayName": "Ours"})
    assert await broker.get(DIRECTORY_GROUP, group.id) is not None


async def test_unknown_members_are_ignored(directory: ScimDirectory) -> None:
    group = (await directory.groups.create({"displayName": "Sales", "members": [{"value": "nobody"}]})).after
    assert group.data["members"] == []


async def test_refuses_concurrent_change(directory: ScimDirectory) -> None:
    user = (await directory.users.create(scim_user())).after
    await directory.users.replace(user.id, scim_user(title="x"), f'W/"{user.version}"')
    with pytest.raises(ScimError) as refused:
        await directory.users.patch(user.id, deactivation(), f'W/"{user.version}"')
    assert refused.value.status == 412


async def test_a_group_that_broke_off_is_completed_by_the_same_request(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, group = await with_group(directory)
    request = {"Operations": [{"op": "remove", "path": f'members[value eq "{user.id}"]'}]}
    await directory.groups.patch(group.id, request)
    await broker.put(SCIM_GROUP, group.id, group.data)  # as if it had not come to that
    await directory.groups.patch(group.id, request)
    found = await known(broker)
    assert found is not None
    assert found.group_ids == ()


async def test_repair_removes_foreign_records(directory: ScimDirectory, broker: MemoryStore) -> None:
    await with_group(directory)
    bob = (await directory.users.create(scim_user("bob", active=False))).after
    for name in ("former", "bob"):
        left = DirectoryUser(f"oidc/id-of-{name}", group_ids=("admins",))
        await broker.put(DIRECTORY_USER, left.id, left.to_data())
    await broker.put(DIRECTORY_GROUP, "admins", DirectoryGroup("admins").to_data())
    await broker.delete(DIRECTORY_USER, "oidc/id-of-ann")  # as if a change had broken off
    await directory.repair()
    assert [record.id for record in await broker.page(DIRECTORY_USER, "", 10)] == ["oidc/id-of-ann", "oidc/id-of-bob"]
    assert await known(broker, "bob") == DirectoryUser("oidc/id-of-bob", is_deactivated=True, issuer=ISSUER)
    assert [record.id for record in await broker.page(DIRECTORY_GROUP, "", 10)] == ["g-1"]
    assert (await directory.find(SCIM_USER, bob.id)).data["resource"]["active"] is False


async def test_unchanged_users_are_not_written(directory: ScimDirectory, broker: MemoryStore) -> None:
    user, _ = await with_group(directory)
    before = await broker.get(DIRECTORY_USER, "oidc/id-of-ann")
    await directory.users.replace(user.id, scim_user(title="x"))
    assert await broker.get(DIRECTORY_USER, "oidc/id-of-ann") == before
