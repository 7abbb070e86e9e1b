"""Directory records: a push for one issuer never affects users of another, in any order."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from authenticate.scim.scim_directory import ScimDirectory
from authorize.upstream.account_connections import AccountConnection
from databroker.records import DIRECTORY_USER, DirectoryUser, SessionRecord
from databroker.session_reader import directory_user_for_session
from databroker.store.memory import MemoryStore
from tests.support.connections import a_connection, put_connection, server_in, stored_connection
from tests.support.options import make_options

FIRST, SECOND = "https://first.example", "https://second.example"
ANN = {"userName": "ann@example.com", "externalId": "ann"}
OUT = {"Operations": [{"op": "replace", "value": {"active": False}}]}
TOKEN = "0123456789abcdefghijklmnopqrstuv"
Push = Callable[["World"], Awaitable[Any]]


def session(issuer: str) -> SessionRecord:
    return SessionRecord("s", "oidc/ann", "ann", "oidc", 0, 4e9, issuer=issuer)


class World:
    """Two configurations over one data broker; the first one's provider has pushed ann, and the group that she is in."""

    def __init__(self, tmp_path: Path):
        self.broker, self.revoked = MemoryStore(), list[AccountConnection]()
        self.first, self.second = (
            ScimDirectory(
                make_options(tmp_path, scim_token=TOKEN, idp_provider_url=issuer).first_provider,
                self.broker,
                lambda: 1000.0,
                self.revoked.append,
            )
            for issuer in (FIRST, SECOND)
        )

    async def push(self) -> "World":
        self.user = (await self.first.users.create(ANN)).after.id
        self.group = (await self.first.groups.create({"displayName": "Sales", "externalId": "g-1", **self.members()})).after.id
        return self

    def members(self) -> dict[str, Any]:
        return {"members": [{"value": self.user}]}

    async def groups(self, issuer: str) -> tuple[str, ...] | None:
        """None for users without directory records."""
        directory_user = directory_user_for_session(session(issuer), await self.broker.get(DIRECTORY_USER, "oidc/ann"))
        return directory_user.group_ids if directory_user is not None else None

    async def both(self) -> tuple[Any, Any]:
        return await self.groups(FIRST), await self.groups(SECOND)


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return await World(tmp_path).push()


def put_user(world: World) -> Any:
    return world.second.users.replace(world.user, {**ANN, "title": "x"})


def patch_user(world: World) -> Any:
    return world.second.users.patch(world.user, {"Operations": [{"op": "add", "path": "title", "value": "x"}]})


def put_group(world: World) -> Any:
    return world.second.groups.replace(world.group, {"displayName": "Sales", "externalId": "g-1", **world.members()})


def add_member(world: World) -> Any:
    return world.second.groups.patch(world.group, {"Operations": [{"op": "add", "path": "members", "value": world.members()["members"]}]})


def replace_members(world: World) -> Any:
    return world.second.groups.patch(world.group, {"Operations": [{"op": "replace", "value": world.members()}]})


def rename_group(world: World) -> Any:
    return world.second.groups.patch(world.group, {"Operations": [{"op": "replace", "path": "displayName", "value": "S"}]})


def remove_member(world: World) -> Any:
    path = f'members[value eq "{world.user}"]'
    return world.second.groups.patch(world.group, {"Operations": [{"op": "remove", "path": path}]})


def start(world: World) -> Any:
    return world.second.repair()


@pytest.mark.parametrize(
    ("pushes", "first", "second"),
    [
        ([], ("g-1",), None),
        ([start], ("g-1",), None),
        # A user that the second provider pushes belongs to it from then on, without the groups of the first.
        ([put_user], None, ()),
        ([patch_user], None, ()),
        ([put_user, start], None, ()),
        ([put_user, rename_group], None, ()),
        ([put_user, remove_member], None, ()),
        ([put_user, put_group], None, ("g-1",)),
        ([put_user, add_member], None, ("g-1",)),
        ([put_user, replace_members], None, ("g-1",)),
        # A group says nothing of who its members are.
        ([put_group], (), None),
        ([add_member], (), None),
        ([rename_group], (), None),
        ([put_group, put_user], None, ("g-1",)),
        ([add_member, patch_user, start], None, ("g-1",)),
        ([rename_group, put_user], None, ()),
    ],
)
async def test_each_push_belongs_to_its_issuer(world: World, pushes: list[Push], first: Any, second: Any) -> None:
    for push in pushes:
        await push(world)
    assert await world.both() == (first, second)


async def test_restored_issuer_and_repeated_push(world: World) -> None:
    before = [(record.id, record.version) for record in await world.broker.page(DIRECTORY_USER, "", 10)]
    await world.second.repair()
    await world.first.repair()
    assert [(record.id, record.version) for record in await world.broker.page(DIRECTORY_USER, "", 10)] == before
    await put_user(world)
    await world.first.users.replace(world.user, ANN)
    assert await world.both() == (("g-1",), None)


async def test_deactivation_is_per_issuer(world: World) -> None:
    await world.first.users.patch(world.user, OUT)
    await world.second.repair()
    for directory in (world.first, world.second):
        assert await directory.is_deactivated(session(FIRST))
        assert not await directory.is_deactivated(session(SECOND))
    await put_user(world)  # without `active`
    assert await world.second.is_deactivated(session(SECOND))
    await world.second.users.replace(world.user, {**ANN, "active": True})
    assert not await world.second.is_deactivated(session(SECOND))
    await world.second.users.delete(world.user)
    assert await world.second.is_deactivated(session(SECOND))
    assert not await world.second.is_deactivated(session(FIRST))


async def test_deactivation_without_record_is_per_issuer(world: World) -> None:
    await world.first.users.patch(world.user, OUT)
    await world.broker.delete(DIRECTORY_USER, "oidc/ann")
    assert await world.second.is_deactivated(session(FIRST))
    assert not await world.second.is_deactivated(session(SECOND))


async def test_a_tenant_of_the_shared_endpoint_is_of_it(tmp_path: Path) -> None:
    guid, broker = "11111111-2222-3333-4444-555555555555", MemoryStore()
    options = make_options(tmp_path, scim_token=TOKEN, idp_provider="azure", idp_provider_url=None)
    shared = ScimDirectory(options.first_provider, broker, lambda: 1000.0, [].append)
    await shared.users.create({**ANN, "externalId": "1"})
    record = await broker.get(DIRECTORY_USER, "azure/1")
    for host, counts in (("https://login.microsoftonline.com", True), ("https://login.microsoftonline.us", False)):
        of_tenant = SessionRecord("s", "azure/1", "1", "azure", 0, 4e9, issuer=f"{host}/{guid}/v2.0")
        assert isinstance(directory_user_for_session(of_tenant, record), DirectoryUser) is counts


@pytest.mark.parametrize("end", ["deactivate", "delete"])
async def test_accounts_at_third_party_servers_end_with_the_user(world: World, tmp_path: Path, end: str) -> None:
    route = {"from": "https://third.example.com", "to": "https://mcp.example.org", "allow_any_authenticated_user": True}
    server = server_in(make_options(tmp_path, policy=[{**route, "mcp": {"path": "/mcp", "upstream_oauth": {}}}]))
    for user_id in ("oidc/ann", "oidc/bob"):
        await put_connection(world.broker, a_connection(server, lambda: 1000.0, user_id=user_id))
    await (world.first.users.patch(world.user, OUT) if end == "deactivate" else world.first.users.delete(world.user))
    assert await stored_connection(world.broker, "oidc/ann") is None
    assert await stored_connection(world.broker, "oidc/bob") is not None
    assert [each.user_id for each in world.revoked] == ["oidc/ann"]
