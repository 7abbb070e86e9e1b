"""Identity of a session, and how long it is cached."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authorize.identity.identity_loader import CachedIdentity, IdentityLoader, IdentitySourceRecords
from authorize.policy.identity import GrantPeriod, Identity
from config.options import Options
from config.settings.identity_providers import PLACEHOLDERS
from databroker.grants.grant_records import AccessGrant, UserGrants
from databroker.records import (
    ACCESS_GRANT,
    DIRECTORY_GROUP,
    DIRECTORY_USER,
    SESSION,
    USER,
    DirectoryGroup,
    DirectoryUser,
    Record,
    SessionRecord,
    UserRecord,
)
from databroker.replica import CACHE_CLEARED, RecordChange, Replica
from databroker.session_reader import SessionReader
from databroker.store.memory import MemoryStore
from foundation.auth_challenges import InvalidToken
from foundation.errors import BrokerError
from foundation.tasks import spawn
from tests.support.options import make_options
from tests.unit.authorize.broker import ISSUER, BreakableBroker, followed_broker, settled

NOW = 1500.0
World = tuple[BreakableBroker, Replica, IdentityLoader]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with followed_broker() as (broker, replica):
        yield broker, replica, IdentityLoader(replica, SessionReader(make_options(tmp_path)))


async def test_an_identity_is_made_of_session_user_and_directory(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in(claims={"team": "blue"})
    await broker.join("oidc/1", "g1", "g2")
    await broker.add_group("g1", "Sales", "sales@corp.com")
    found = await loader.load("s1", NOW)
    assert found is not None
    assert (found.user_id, found.subject, found.verified_email, found.name) == ("oidc/1", "1", "ann@corp.com", "Ann")
    assert (found.group_ids, found.group_names) == ({"g1", "g2"}, {"Sales", "sales@corp.com"})
    assert (found.groups, found.claims) == (("g1", "g2", "Sales"), {"team": ("blue",)})
    await broker.add_group("g2", "")
    await settled()
    found = await loader.load("s1", NOW)
    assert found is not None
    assert (found.groups, found.group_names) == (("g1", "g2", "Sales"), {"Sales", "sales@corp.com"})


async def test_an_identity_is_loaded_once(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in()
    await settled()
    found = await loader.load("s1", NOW)
    reads = broker.reads
    assert loader.peek("s1", NOW) is found is not None
    assert broker.reads == reads


@pytest.mark.parametrize("id", ["s2", "", "S1"])
async def test_unknown_session_has_no_identity(world: World, id: str) -> None:
    broker, _, loader = world
    await broker.sign_in("s1")
    assert await loader.load(id, NOW) is None


async def test_expired_session_has_no_identity(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in()
    assert await loader.load("s1", 2000.0) is None
    assert await loader.load("s1", 1999.0) is not None
    assert loader.peek("s1", 2000.0) is None


@pytest.mark.parametrize(
    ("type", "broken"),
    [
        *(
            (SESSION, broken)
            for broken in (
                {},
                {"id": "s1"},
                {"id": "s1", "user_id": 1, "subject": "1", "provider": "oidc", "issued": 1, "expires": 9e9},
                {"x": 1},
            )
        ),
        (USER, {"id": "oidc/1", "claims": 7}),
        (DIRECTORY_USER, {"group_ids": 7}),
        (USER, {"nonsense": 1}),
    ],
)
async def test_malformed_record_has_no_identity(world: World, type: str, broken: dict[str, object]) -> None:
    broker, _, loader = world
    await broker.sign_in()
    await broker.put(type, "s1" if type == SESSION else "oidc/1", broken)
    assert await loader.load("s1", NOW) is None


async def test_user_without_record_has_no_email(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in(claims={"email": "ann@corp.com"})
    await broker.delete(USER, "oidc/1")
    found = await loader.load("s1", NOW)
    assert found is not None
    assert (found.verified_email, found.email) == ("", "")


async def test_a_session_that_ended_is_not_served_from_the_cache(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in()
    await settled()
    await loader.load("s1", NOW)
    await broker.delete(SESSION, "s1")
    await settled()
    assert loader.peek("s1", NOW) is None
    assert await loader.load("s1", NOW) is None
    assert repr(loader) == "<IdentityLoader 0 cached>"


async def test_each_change_of_a_record_behind_an_identity_is_seen(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in()
    changes = [
        broker.sign_in(email="new@corp.com"),
        broker.sign_in(claims={"team": "red"}),
        broker.join("oidc/1", "g1"),
        broker.add_group("g1", "Sales"),
        broker.add_group("g1", "Marketing"),
        broker.delete(DIRECTORY_GROUP, "g1"),
        broker.delete(DIRECTORY_USER, "oidc/1"),
    ]
    before = await loader.load("s1", NOW)
    for change in changes:
        await change
        await settled()
        assert loader.peek("s1", NOW) is None
        after = await loader.load("s1", NOW)
        assert after is not None
        assert after != before
        assert loader.peek("s1", NOW) is after
        before = after
    assert repr(loader) == "<IdentityLoader 1 cached>"
    loader.forget(CACHE_CLEARED)
    assert loader.peek("s1", NOW) is None


async def test_records_that_leave_the_cache_for_others_take_the_identity_with_them(world: World) -> None:
    broker, replica, loader = world
    await broker.sign_in()
    await settled()
    found = await loader.load("s1", NOW)
    assert loader.peek("s1", NOW) is found is not None
    replica._cache[USER].drop("oidc/1")  # as one that makes room
    assert loader.peek("s1", NOW) is None


async def test_changes_of_other_users_change_no_identity(world: World) -> None:
    broker, replica, loader = world
    await broker.sign_in()
    await settled()
    found = await loader.load("s1", NOW)
    for number in range(3):
        writes = replica.writes
        await replica.get(USER, f"oidc/other{number}")
        assert replica.writes > writes
        assert loader.peek("s1", NOW) is found is not None
    loader.forget(RecordChange(9, USER, "oidc/other", None))
    assert loader.peek("s1", NOW) is found


@pytest.mark.parametrize("ends", ["session", "user", "directory_user", "grants"])
def test_an_identity_is_cached_until_the_first_of_its_records_ends(ends: str) -> None:
    identity = Identity("s1", "oidc/1", "1", "oidc", expires_at=NOW + 100)
    records = {
        name: Record(SESSION, name, {}, 1, NOW, NOW + 50 if name == ends else None)
        for name in ("session", "user", "directory_user", "grants")
    }
    assert CachedIdentity(identity, IdentitySourceRecords(**records)).expires_at == NOW + 50
    assert CachedIdentity(identity, IdentitySourceRecords(records["session"], None, None)).expires_at == (
        NOW + 50 if ends == "session" else NOW + 100
    )


async def test_a_group_that_changes_while_an_identity_is_loaded_is_not_missed(world: World) -> None:
    broker, replica, loader = world
    await broker.sign_in()
    await broker.join("oidc/1", "g1")
    await broker.add_group("g1", "Sales")
    await settled()
    for type, id in ((SESSION, "s1"), (USER, "oidc/1"), (DIRECTORY_USER, "oidc/1")):
        await replica.get(type, id)
    broker.holds_back = asyncio.Event()
    loading = spawn(loader.load("s1", NOW), name="load of a test")
    await settled()
    await broker.add_group("g1", "Marketing")
    await settled()
    broker.holds_back.set()
    assert (await loading) is not None
    assert loader.peek("s1", NOW) is None
    found = await loader.load("s1", NOW)
    assert found is not None
    assert found.group_names == {"Marketing"}


async def test_while_the_broker_is_down_a_known_session_is_served_and_an_unknown_one_is_an_error(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in()
    await settled()
    await loader.load("s1", NOW)
    broker.is_down = True
    assert loader.peek("s1", NOW) is not None
    with pytest.raises(BrokerError):
        await loader.load("s2", NOW)


@pytest.mark.parametrize(
    ("provider", "names"), [("oidc", {"Sales"}), ("github", {"Sales"}), ("azure", set()), ("okta", set()), ("onelogin", set())]
)
async def test_groups_have_names_only_where_the_provider_keeps_them_unique(
    world: World, tmp_path: Path, provider: str, names: set[str]
) -> None:
    broker, replica, _ = world
    options = make_options(tmp_path, idp_provider=provider)
    loader = IdentityLoader(replica, SessionReader(options))
    await broker.sign_in(user_id=f"{provider}/1", issuer=options.first_provider.issuer)
    await broker.join(f"{provider}/1", "g1")
    await broker.add_group("g1", "Sales")
    found = await loader.load("s1", NOW)
    assert found is not None
    assert (found.group_names, found.groups) == (names, ("g1", "Sales"))


@pytest.mark.parametrize(
    "changed", [{"user_id": "google/1"}, {"issuer": "https://idp.example.com/"}, {"issuer": "https://other.example"}, {"issuer": ""}]
)
async def test_session_of_other_provider_has_no_identity(world: World, changed: dict[str, str]) -> None:
    broker, _, loader = world
    await broker.sign_in(**changed)
    assert await loader.load("s1", NOW) is None


async def test_record_of_other_issuer_is_ignored(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in(claims={"team": "blue"})
    foreign = UserRecord("oidc/1", "ceo@corp.com", True, "Boss", {"team": "red", "groups": ["admins"]}, issuer="https://other.example")
    await broker.put(USER, "oidc/1", foreign.to_data())
    found = await loader.load("s1", NOW)
    assert found is not None
    assert (found.email, found.verified_email, found.name, found.groups, found.claims) == ("", "", "", (), {"team": ("blue",)})


@pytest.mark.parametrize(
    ("user_issuer", "of_group", "groups", "is_untold"),
    [
        (ISSUER, ISSUER, ("g1", "Sales"), False),
        ("", "", ("g1", "Sales"), False),
        ("https://other.example", ISSUER, (), True),
        (ISSUER, "https://other.example", ("g1",), False),
    ],
)
async def test_directory_of_other_issuer_adds_no_groups(
    world: World, tmp_path: Path, user_issuer: str, of_group: str, groups: tuple[str, ...], is_untold: bool
) -> None:
    broker, replica, _ = world
    loader = IdentityLoader(replica, SessionReader(make_options(tmp_path, groups_claim="", scim_token="a-token-of-32-characters-and-more")))
    await broker.sign_in()
    directory_user = DirectoryUser("oidc/1", "boss@corp.com", "Boss", ("g1",), issuer=user_issuer)
    await broker.put(DIRECTORY_USER, "oidc/1", directory_user.to_data())
    await broker.put(DIRECTORY_GROUP, "g1", DirectoryGroup("g1", "Sales", issuer=of_group).to_data())
    found = await loader.load("s1", NOW)
    session = SessionRecord("token", "oidc/1", "1", "oidc", 1000.0, 2000.0, issuer=ISSUER)
    by_token = await loader.for_bearer(session, UserRecord("oidc/1"))
    for identity in (found, by_token):
        assert isinstance(identity, Identity)
        assert (identity.groups, identity.groups_incomplete) == (groups, is_untold)
        assert identity.group_names == {"Sales"} & set(groups)
        assert identity.directory_email == ("" if is_untold else "boss@corp.com")


async def test_a_group_named_like_the_id_of_another_does_not_pass_for_it(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in()
    await broker.join("oidc/1", "evil")
    await broker.add_group("evil", "00g1", "00g2")
    found = await loader.load("s1", NOW)
    assert found is not None
    assert found.group_names == {"00g1", "00g2"}
    await broker.add_group("00g1", "Administrators")
    await settled()
    found = await loader.load("s1", NOW)
    assert found is not None
    assert (found.group_ids, found.group_names) == ({"evil"}, {"00g2"})


async def test_replaced_loader_is_garbage_collected(world: World, tmp_path: Path) -> None:
    broker, replica, _ = world
    old = IdentityLoader(replica, SessionReader(make_options(tmp_path)))
    old_id = id(old)
    del old
    gc.collect()
    await broker.add_group("g1", "Sales")
    await settled()
    assert not any(id(thing) == old_id and isinstance(thing, IdentityLoader) for thing in gc.get_objects())


async def test_bearer_identity_is_rebuilt_only_on_directory_change(world: World) -> None:
    broker, _, loader = world
    session, user = SessionRecord("token", "oidc/1", "1", "oidc", 1000.0, 2000.0), UserRecord("oidc/1", "ann@corp.com")
    before = None
    for change in (
        broker.join("oidc/2", "g1"),
        broker.join("oidc/1", "g1"),
        broker.join("oidc/1", "g2"),
        broker.add_group("g2", "Sales"),
        broker.delete(DIRECTORY_USER, "oidc/1"),
    ):
        await change
        await settled()
        found = await loader.for_bearer(session, user)
        assert found is not None
        assert found != before
        assert await loader.for_bearer(session, user) is found
        before = found
    verified_again = SessionRecord("token", "oidc/1", "1", "oidc", 1000.0, 2000.0, {"team": "red"})
    found = await loader.for_bearer(verified_again, user)
    assert isinstance(found, Identity)
    assert found.claims == {"team": ("red",)}


@pytest.mark.parametrize(("attribute", "is_refused"), [("userName", True), ("externalId", False)])
async def test_bearer_token_of_deactivated_user_is_rejected(world: World, tmp_path: Path, attribute: str, is_refused: bool) -> None:
    broker, replica, _ = world
    options = make_options(tmp_path, scim_user_id=attribute, scim_token="a-token-of-32-characters-and-more")
    loader = IdentityLoader(replica, SessionReader(options))
    session = SessionRecord("token", "oidc/Ann", "Ann", "oidc", 1000.0, 2000.0, issuer=ISSUER)
    user = UserRecord("oidc/Ann", issuer=ISSUER)
    assert isinstance(await loader.for_bearer(session, user), Identity)
    await broker.put(DIRECTORY_USER, "oidc/ann", DirectoryUser("oidc/ann", is_deactivated=True, issuer=ISSUER).to_data())
    await settled()
    assert isinstance(await loader.for_bearer(session, user), InvalidToken) is is_refused
    await broker.put(USER, "oidc/Ann", user.to_data())
    await settled()
    record = await replica.get(USER, "oidc/Ann")
    assert record is not None
    assert isinstance(await loader.for_sign_in(record, NOW), InvalidToken) is is_refused


@pytest.mark.parametrize("provider", ["gone", "", "google", "service_account"])
async def test_bearer_token_of_unconfigured_provider_is_rejected(world: World, provider: str) -> None:
    _, _, loader = world
    session = SessionRecord("token", f"{provider}/1", "1", provider, 1000.0, 2000.0, issuer=ISSUER)
    assert isinstance(await loader.for_bearer(session, UserRecord(f"{provider}/1", "ann@corp.com")), InvalidToken)


async def give(broker: BreakableBroker, *routes: str, until: float = 1800.0, issuer: str = ISSUER) -> None:
    held = tuple(AccessGrant(route, route, 1000.0, until, "root", "a reason") for route in routes)
    await broker.put(ACCESS_GRANT, "oidc/1", UserGrants("oidc/1", issuer, "Ann", held).to_data())


@pytest.fixture
async def access_world(tmp_path: Path) -> AsyncIterator[World]:
    async with followed_broker() as (broker, replica):
        yield broker, replica, IdentityLoader(replica, SessionReader(make_options(tmp_path)), uses_grants=True)


async def test_temporary_access_is_part_of_an_identity_as_it_changes(access_world: World) -> None:
    broker, _, loader = access_world
    await broker.sign_in()
    await settled()
    before = await loader.load("s1", NOW)
    assert before is not None
    assert before.grants == {}
    assert loader.peek("s1", NOW) is before
    await give(broker, "wiki")
    await settled()
    assert loader.peek("s1", NOW) is None
    found = await loader.load("s1", NOW)
    assert found is not None
    assert found.grants == {"wiki": GrantPeriod(1000.0, 1800.0)}
    assert found.sources is not None
    assert "temporary access" in found.sources.modified_at
    await give(broker)
    await settled()
    after = await loader.find_browser_identity("s1", NOW)
    assert after is not None
    assert after.grants == {}


async def test_grant_of_other_issuers_user_is_ignored(access_world: World) -> None:
    broker, _, loader = access_world
    await broker.sign_in()
    await give(broker, "wiki", issuer="https://other.example.com")
    found = await loader.load("s1", NOW)
    assert found is not None
    assert found.grants == {}


async def test_where_no_rule_looks_at_temporary_access_nobodys_is_read(world: World) -> None:
    broker, _, loader = world
    await broker.sign_in()
    await give(broker, "wiki")
    reads = broker.reads
    found = await loader.load("s1", NOW)
    assert found is not None
    assert (found.grants, broker.reads - reads) == ({}, 3)


def test_grants_are_loaded_only_if_rules_use_them(tmp_path: Path) -> None:
    replica = Replica(MemoryStore())
    route = {"from": "https://a.example.com", "to": "http://127.0.0.1:9"}
    for policy, expected in (({"allow": {"granted": True}}, True), ({"allow": {"groups": "a"}}, False)):
        assert IdentityLoader.from_options(make_options(tmp_path, policy=[{**route, "policy": policy}]), replica)._uses_grants is expected


async def test_malformed_grant_has_no_identity(access_world: World) -> None:
    broker, _, loader = access_world
    await broker.sign_in()
    await broker.put(ACCESS_GRANT, "oidc/1", {"user_id": "oidc/1", "issuer": ISSUER, "grants": [{"route": 1}]})
    assert await loader.load("s1", NOW) is None


async def test_leftover_directory_records_are_ignored(world: World, tmp_path: Path) -> None:
    broker, replica, _ = world
    settings = {"id": "oidc", "provider": "oidc", "url": ISSUER, "client_id": "gate", "client_secret": "secret"}
    loader = IdentityLoader(replica, SessionReader(make_options(tmp_path, **dict.fromkeys(PLACEHOLDERS), identity_providers=[settings])))
    await broker.sign_in()
    await broker.put(DIRECTORY_USER, "oidc/1", DirectoryUser("oidc/1", "boss@corp.com", "Boss", ("admins",)).to_data())
    found = await loader.load("s1", NOW)
    assert found is not None
    assert (found.groups, found.directory_email) == ((), "")


def entries(directory: Path, **corp: Any) -> Options:
    """Options with corp and partner, which both have a file."""
    keys = {"provider": "oidc", "client_id": "gate", "client_secret": "secret", "directory_file": "people.yaml"}
    (directory / "people.yaml").write_text("users: []")
    settings = {"id": "corp", "url": "https://corp.example", "domains": ["corp.example"], **keys, **corp}
    partner = {"id": "partner", "url": "https://partner.example", "domains": ["partner.example"], **keys}
    settings = {key: value for key, value in settings.items() if value is not None}
    return make_options(directory, **dict.fromkeys(PLACEHOLDERS), identity_providers=[settings, partner])


async def test_each_directory_names_its_own_groups(world: World, tmp_path: Path) -> None:
    broker, replica, _ = world
    loader = IdentityLoader(replica, SessionReader(entries(tmp_path)))
    for id, name in (("corp", "Engineering"), ("partner", "Administrators")):
        issuer = f"https://{id}.example"
        await broker.sign_in(f"s-{id}", f"{id}/1", issuer=issuer)
        directory_user = DirectoryUser(f"{id}/1", f"boss@{id}.example", group_ids=("g1",), issuer=issuer)
        await broker.put(DIRECTORY_USER, directory_user.id, directory_user.to_data())
        await broker.put(DIRECTORY_GROUP, f"{id}/g1", DirectoryGroup("g1", name, issuer=issuer).to_data())
    # A leftover of a provider's keys, which belongs to no configured provider.
    await broker.add_group("g1", "Owners")
    for id, name in (("corp", "Engineering"), ("partner", "Administrators")):
        found = await loader.load(f"s-{id}", NOW)
        assert found is not None
        assert (found.group_ids, found.group_names, found.groups) == ({"g1"}, {name}, ("g1", name))
        assert (found.directory_email, found.groups_incomplete) == (f"boss@{id}.example", False)


async def test_a_name_is_no_group_s_that_has_it_as_an_id_in_the_same_directory(world: World, tmp_path: Path) -> None:
    broker, replica, _ = world
    loader = IdentityLoader(replica, SessionReader(entries(tmp_path)))
    await broker.sign_in("s", "corp/1", issuer="https://corp.example")
    await broker.put(DIRECTORY_USER, "corp/1", DirectoryUser("corp/1", group_ids=("g1", "g2"), issuer="https://corp.example").to_data())
    for id, name in (("g1", "taken"), ("g2", "theirs"), ("taken", "")):
        await broker.put(DIRECTORY_GROUP, f"corp/{id}", DirectoryGroup(id, name, issuer="https://corp.example").to_data())
    # Group names of one provider do not affect those of another.
    await broker.put(DIRECTORY_GROUP, "partner/theirs", DirectoryGroup("theirs", issuer="https://partner.example").to_data())
    found = await loader.load("s", NOW)
    assert found is not None
    assert found.group_names == {"theirs"}


async def test_an_address_of_a_directory_is_of_its_provider_s_domains(world: World, tmp_path: Path) -> None:
    broker, replica, _ = world
    loader = IdentityLoader(replica, SessionReader(entries(tmp_path)))
    await broker.sign_in("s", "partner/1", issuer="https://partner.example")
    directory_user = DirectoryUser("partner/1", "ceo@corp.example", issuer="https://partner.example")
    await broker.put(DIRECTORY_USER, directory_user.id, directory_user.to_data())
    found = await loader.load("s", NOW)
    assert found is not None
    assert (found.directory_email, found.verified_email, found.email) == ("", "", "")


async def test_user_missing_in_directory_has_unknown_groups(world: World, tmp_path: Path) -> None:
    broker, replica, _ = world
    okta = {"provider": "okta", "directory_file": None, "service_account": '{"api_key": "k"}'}
    loader = IdentityLoader(replica, SessionReader(entries(tmp_path, **okta)))
    for id in ("corp", "partner"):
        await broker.sign_in(f"s-{id}", f"{id}/1", issuer=f"https://{id}.example")
    found = {id: await loader.load(f"s-{id}", NOW) for id in ("corp", "partner")}
    assert {id: each and each.groups_incomplete for id, each in found.items()} == {"corp": True, "partner": False}, "a file is complete"
