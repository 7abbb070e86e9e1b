"""The secret of a service account authenticates that account alone, until it expires (classes B13, B15)."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from authorize.identity.service_account_loader import (
    IDENTITY_SECONDS,
    ServiceAccountLoader,
    build_account_identity,
    find_account,
    load_account_identity,
)
from authorize.policy.identity import Identity
from databroker.records import SERVICE_ACCOUNT, ServiceAccountRecord
from databroker.replica import Replica
from databroker.service_account_store import ServiceAccounts
from databroker.store.memory import MemoryStore
from foundation.auth_challenges import InvalidToken
from foundation.crypto.service_account_token import hash_token, new_token
from foundation.errors import BrokerError
from foundation.tasks import spawn
from tests.support.brokers import DisturbedBroker
from tests.support.eventually import eventually
from tests.unit.authorize.broker import BreakableBroker, followed_broker, settled
from tests.unit.authorize.builders import user
from tests.unit.authorize.policy.policy_texts import answer

NOW = 1500.0


async def identified(loader: ServiceAccountLoader, token: str, now: float) -> Identity | None:
    found = await loader.identify(token, now)
    return None if isinstance(found, InvalidToken) else found


class World:
    def __init__(self, broker: BreakableBroker, loader: ServiceAccountLoader):
        self.broker = broker
        self.loader = loader
        self.accounts = ServiceAccounts(broker, lambda: NOW)

    async def identify(self, token: str, now: float) -> Identity | None:
        return await identified(self.loader, token, now)

    async def keep(self, account: ServiceAccountRecord) -> None:
        await self.broker.put(SERVICE_ACCOUNT, account.name, account.to_data())
        await settled()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with followed_broker() as (broker, replica):
        yield World(broker, ServiceAccountLoader(replica))


async def test_the_secret_is_the_account(world: World) -> None:
    await world.keep(ServiceAccountRecord("ci", ("deployers",), 1000.0, 99_000.0, hash_token(token := new_token("ci"))))
    identity = await world.identify(token, NOW)
    assert identity is not None
    assert (identity.user_id, identity.subject, identity.session_id) == ("service_account/ci",) * 3
    assert (identity.email, identity.verified_email, dict(identity.claims)) == ("", "", {})
    assert (identity.groups, identity.group_ids, identity.issued_at) == (("deployers",), frozenset({"deployers"}), 1000.0)
    reads = world.broker.reads
    assert await world.identify(token, NOW) is identity, "what is signed of it is kept, so it must stay the same"
    assert world.broker.reads == reads


async def test_rejects_other_secret(world: World) -> None:
    token, other = new_token("ci"), new_token("other")
    await world.keep(ServiceAccountRecord("ci", (), 1000.0, 99_000.0, hash_token(token)))
    await world.keep(ServiceAccountRecord("other", (), 1000.0, 99_000.0, hash_token(other)))
    assert await world.identify(token, NOW) is not None
    for invalid in (new_token("ci"), new_token("nobody"), token[:-1], "", "gate_sa_ci_", hash_token(token)):
        assert await world.identify(invalid, NOW) is None


async def test_revoked_or_rotated_secret_is_rejected_after_change(world: World) -> None:
    first = await world.accounts.create("ci", [], None, "")
    assert await world.identify(first, NOW) is not None
    second = await world.accounts.rotate("ci")
    await settled()
    assert await world.identify(first, NOW) is None
    assert await world.identify(second, NOW) is not None
    await world.accounts.revoke("ci")
    await settled()
    assert await world.identify(second, NOW) is None


async def test_previous_secret_is_accepted_during_overlap(world: World) -> None:
    first = await world.accounts.create("ci", [], None, "")
    await world.accounts.rotate("ci", overlap=60)
    await settled()
    assert await world.identify(first, NOW + 59) is not None
    assert await world.identify(first, NOW + 60) is None
    assert await world.identify(new_token("ci"), NOW) is None


async def test_account_ends_on_time_and_its_assertions_sooner(world: World) -> None:
    account = ServiceAccountRecord("ci", (), 1000.0, NOW + 2 * IDENTITY_SECONDS, hash_token(token := new_token("ci")))
    await world.keep(account)
    identity = await world.identify(token, NOW)
    assert identity is not None
    assert identity.expires_at == NOW + IDENTITY_SECONDS
    later = await world.identify(token, NOW + IDENTITY_SECONDS)
    assert later is not None
    assert later.expires_at == account.expires_at
    assert await world.identify(token, account.expires_at) is None


MADE = {"ci--a": "ci", "ci--a--b": "ci--a"}


async def chain(world: World) -> dict[str, str]:
    """The tokens of an account and of what it has made by the API, through two levels."""
    tokens = {"ci": await world.accounts.create("ci", [], None, "ops")}
    for name, maker in MADE.items():
        secret = hash_token(tokens[maker])
        tokens[name] = await world.accounts.create(name, [], None, f"service_account/{maker}", creator_secret_hash=secret)
    await settled()
    return tokens


async def living(world: World, tokens: dict[str, str], now: float = NOW) -> set[str]:
    """Return which enforcement points accept the account: routes, the API, and approvals."""
    found = {name for name, token in tokens.items() if await world.identify(token, now) is not None}
    api = {name for name, token in tokens.items() if not isinstance(await find_account(token, world.broker, now), InvalidToken)}
    at_desk = {name for name in tokens if await load_account_identity(f"service_account/{name}", world.broker, now) is not None}
    assert found == api <= at_desk
    return found


Ends = Callable[[World], Awaitable[object]]
ENDS: dict[str, tuple[Ends, set[str]]] = {
    "the first maker is revoked": (lambda world: world.accounts.revoke("ci"), set()),
    "the maker in the middle is revoked": (lambda world: world.accounts.revoke("ci--a"), {"ci"}),
    "the first maker has a new secret": (lambda world: world.accounts.rotate("ci"), set()),
    "the maker in the middle has a new secret": (lambda world: world.accounts.rotate("ci--a"), {"ci"}),
    "the last one is revoked": (lambda world: world.accounts.revoke("ci--a--b"), {"ci", "ci--a"}),
}


@pytest.mark.parametrize("end", ENDS)
async def test_an_account_ends_with_the_secrets_by_which_it_was_made(world: World, end: str) -> None:
    tokens = await chain(world)
    assert await living(world, tokens) == set(tokens)
    reads = world.broker.reads
    assert {name for name, token in tokens.items() if await world.identify(token, NOW)} == set(tokens)
    assert world.broker.reads == reads, "what is known of makers costs no question"
    end_account, left = ENDS[end]
    await end_account(world)
    await settled()
    assert await living(world, tokens) == left


async def test_an_account_ends_when_its_maker_expires(world: World) -> None:
    tokens = await chain(world)
    record = await world.broker.get(SERVICE_ACCOUNT, "ci")
    assert record is not None
    await world.keep(replace(ServiceAccountRecord.from_record(record), expires_at=NOW + 600))
    assert await living(world, {name: tokens[name] for name in MADE}, NOW + 599) == set(MADE)
    assert await living(world, tokens, NOW + 600) == set()


async def test_account_created_in_overlap_expires_with_its_secret(world: World) -> None:
    old = await world.accounts.create("ci", [], None, "ops")
    new = await world.accounts.rotate("ci", overlap=60)
    tokens = {}
    for name, maker in (("ci--old", old), ("ci--new", new)):
        tokens[name] = await world.accounts.create(name, [], None, "service_account/ci", creator_secret_hash=hash_token(maker))
    await settled()
    assert await living(world, tokens) == {"ci--old", "ci--new"}
    identity = await world.identify(tokens["ci--old"], NOW)
    assert identity is not None
    assert identity.expires_at == NOW + 60
    assert await living(world, tokens, NOW + 60) == {"ci--new"}


@pytest.mark.parametrize("name", ["ci", "ci--a"])
async def test_reused_name_does_not_restore_account(world: World, name: str) -> None:
    tokens = await chain(world)
    await world.accounts.revoke(name)
    again = await world.accounts.create(name, [], None, "ann")
    await settled()
    assert await living(world, {**tokens, name: again}) == {"ci", name}


@pytest.mark.parametrize(
    "facts", [{"creator_secret_hash": ""}, {"created_by": "service_account/ci--a"}, {"created_by": "service_account/"}]
)
async def test_account_without_valid_creator_is_rejected(world: World, facts: dict[str, str]) -> None:
    tokens = await chain(world)
    record = await world.broker.get(SERVICE_ACCOUNT, "ci--a")
    assert record is not None
    await world.keep(replace(ServiceAccountRecord.from_record(record), **facts))
    assert (await world.identify(tokens["ci--a"], NOW) is None) == (facts != {"created_by": "service_account/"})


async def test_malformed_or_moved_record_is_rejected(world: World) -> None:
    token = new_token("ci")
    valid = ServiceAccountRecord("ci", (), 1000.0, 99_000.0, hash_token(token))
    for invalid in ({}, {**valid.to_data(), "expires": "x"}, {**valid.to_data(), "more": 1}, replace(valid, name="other").to_data()):
        await world.broker.put(SERVICE_ACCOUNT, "ci", invalid)
        await settled()
        assert await world.identify(token, NOW) is None


async def test_other_ids_are_not_accounts(world: World) -> None:
    await world.keep(ServiceAccountRecord("ci", (), 1000.0, 99_000.0, hash_token(new_token("ci"))))
    assert await load_account_identity("service_account/ci", world.broker, NOW) is not None
    for other in ("oidc/ci", "ci", "/ci"):
        assert await load_account_identity(other, world.broker, NOW) is None


async def test_unavailable_broker_raises(world: World) -> None:
    world.broker.is_down = True
    with pytest.raises(BrokerError):
        await world.identify(new_token("ci"), NOW)


async def test_an_account_of_another_server_is_another_though_its_version_is_the_same() -> None:
    tokens = [new_token("ci") for _ in range(2)]
    stores = [MemoryStore(lambda: NOW) for _ in tokens]
    for store, token in zip(stores, tokens, strict=True):
        await store.put(SERVICE_ACCOUNT, "ci", ServiceAccountRecord("ci", (), 1000.0, 99_000.0, hash_token(token)).to_data())
    line = DisturbedBroker(stores[0])
    replica = Replica(line, initial_backoff=0.001, clock=lambda: NOW)
    loader, following = ServiceAccountLoader(replica), spawn(replica.run(), name="replica of a test")
    try:
        await settled()
        assert await identified(loader, tokens[0], NOW) is not None
        line.cut()
        await eventually(lambda: not replica.sync_token)
        line.mend(stores[1])
        await eventually(lambda: replica.sync_token)
        await replica.get(SERVICE_ACCOUNT, "ci")
        assert [await identified(loader, token, NOW) is not None for token in tokens] == [False, True]
    finally:
        following.cancel()
        await asyncio.wait({following})


async def test_rejection_has_reason_without_secret(world: World) -> None:
    token, ended = new_token("ci"), new_token("old")
    await world.keep(ServiceAccountRecord("ci", (), 1000.0, 99_000.0, hash_token(new_token("ci"))))
    await world.keep(ServiceAccountRecord("old", (), 1000.0, NOW, hash_token(ended)))
    expected = {
        token: "service account ci: .* another secret",
        ended: "service account old: .* expired",
        new_token("nobody"): "service account nobody: not found",
        token[:-1]: "service account: .* mistyped",
    }
    for presented, reason in expected.items():
        refused = await world.loader.identify(presented, NOW)
        assert isinstance(refused, InvalidToken)
        assert re.match(reason, refused.reason)
        assert presented not in refused.reason


def test_rules_do_not_confuse_accounts_and_users() -> None:
    account = build_account_identity(ServiceAccountRecord("ann", ("sales",), 1000.0, 99_000.0, ""), NOW)
    identity = user("ann@corp.com", subject="service_account/ann")

    def holds(entry: str, caller) -> bool:
        return answer({"user": entry}, caller) is True

    assert holds("service_account/ann", account)
    assert not holds("service_account/ann", identity)
    assert holds("oidc/service_account/ann", identity)
    for entry in ("ann", "ann@corp.com", "oidc/ann", "service_account/bob", "service_account/an"):
        assert not holds(entry, account)
    assert answer({"groups": "sales"}, account)
    assert not answer({"domain": "corp.com"}, account)
