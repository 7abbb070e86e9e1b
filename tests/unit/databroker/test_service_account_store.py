"""Service accounts are created, renewed and revoked once each, and no stored data is a usable credential."""

import pytest

from databroker.records import SERVICE_ACCOUNT, ServiceAccountRecord
from databroker.service_account_store import (
    MAX_GROUPS,
    NO_EXPIRY,
    AccountConflict,
    AccountError,
    NoSuchAccount,
    ServiceAccounts,
    accounts_created_by,
    ended_with_creator,
)
from databroker.store.memory import MemoryStore
from foundation.crypto.service_account_token import hash_token, parse_name, verify_token
from tests.support.clock import NOW, Clock

DAY = 86400.0


@pytest.fixture
def accounts(broker: MemoryStore, clock: Clock) -> ServiceAccounts:
    return ServiceAccounts(broker, clock)


async def stored(broker: MemoryStore, name: str = "ci") -> ServiceAccountRecord:
    record = await broker.get(SERVICE_ACCOUNT, name)
    assert record is not None
    assert record.expires == record.data["expires_at"]
    return ServiceAccountRecord.from_record(record)


async def test_account_is_stored_without_its_secret(accounts: ServiceAccounts, broker: MemoryStore) -> None:
    token = await accounts.create("ci", ["b", " a ", "", "b"], DAY, "ann@a.org")
    account = await stored(broker)
    assert (account.groups, account.created_at, account.expires_at, account.created_by) == (("b", "a"), NOW, NOW + DAY, "ann@a.org")
    assert verify_token(token, account.secret_hash)
    assert parse_name(token) == "ci"
    assert token.rpartition("_")[2] not in repr(account.to_data())
    assert account.secret_hash not in repr(account)


async def test_a_name_is_taken_once_and_free_again_afterwards(accounts: ServiceAccounts, broker: MemoryStore, clock: Clock) -> None:
    first = await accounts.create("ci", [], DAY, "")
    with pytest.raises(AccountError, match="already"):
        await accounts.create("ci", ["board"], None, "")
    assert verify_token(first, (await stored(broker)).secret_hash)
    clock.now += DAY
    await accounts.create("ci", [], None, "")
    assert (await stored(broker)).expires_at == NO_EXPIRY
    await accounts.revoke("ci")
    await accounts.create("ci", [], DAY, "")
    assert not verify_token(first, (await stored(broker)).secret_hash)


async def test_records_created_by_service_account_are_found_through_all_creators(accounts: ServiceAccounts) -> None:
    makers = {
        "ci--z--a": "service_account/ci--z",
        "ci--z": "service_account/ci",
        "ci--b": "ann",
        "ci--b--c": "service_account/ci--b",
        "ci": "ops",
    }
    for name, maker in makers.items():
        await accounts.create(name, [], DAY, maker)
    found = await accounts.list()
    assert [accounts_created_by(name, found) for name in ("ci", "ci--z", "ops")] == [["ci--z", "ci--z--a"], ["ci--z--a"], []]
    for gone in ("ci", "ci--z"):
        await accounts.revoke(gone)
    assert accounts_created_by("ci", await accounts.list()) == ["ci--z--a"], "a maker that is gone is known by its name"
    await accounts.revoke("ci--b")
    assert accounts_created_by("ci", await accounts.list()) == ["ci--b--c", "ci--z--a"]


async def test_account_with_unconfirmed_creator_is_reported_as_ended(accounts: ServiceAccounts, clock: Clock) -> None:
    secret = hash_token(await accounts.create("ci", [], DAY, "ops"))
    made = hash_token(await accounts.create("ci--a", [], DAY, "service_account/ci", creator_secret_hash=secret))
    await accounts.create("ci--a--b", [], DAY, "service_account/ci--a", creator_secret_hash=made)
    assert ended_with_creator(await accounts.list(), clock.now) == frozenset()
    await accounts.rotate("ci", overlap=60)
    assert ended_with_creator(await accounts.list(), clock.now + 59) == frozenset()
    assert ended_with_creator(await accounts.list(), clock.now + 60) == {"ci--a", "ci--a--b"}


async def test_a_record_that_can_not_be_read_hides_no_other_and_is_revoked(accounts: ServiceAccounts, broker: MemoryStore) -> None:
    await accounts.create("ci", [], DAY, "ann")
    later = {**(await stored(broker)).to_data(), "name": "later", "may_not": "something that only a later release knows"}
    await broker.put(SERVICE_ACCOUNT, "later", later)
    assert [account.name for account in await accounts.list()] == ["ci"]
    with pytest.raises(AccountError, match="later release"):
        await accounts.rotate("later")
    await accounts.revoke("later")


async def test_a_new_secret_ends_the_old_one_at_once_or_after_an_overlap(
    accounts: ServiceAccounts, broker: MemoryStore, clock: Clock
) -> None:
    first = await accounts.create("ci", ["a"], DAY, "ann")
    clock.now += 60
    second = await accounts.rotate("ci", overlap=600)
    account = await stored(broker)
    assert verify_token(second, account.secret_hash)
    assert verify_token(first, account.previous_secret_hash)
    assert (account.previous_secret_expires_at, account.rotated_at, account.expires_at) == (NOW + 660, NOW + 60, NOW + DAY)
    third = await accounts.rotate("ci", lifetime=2 * DAY)
    account = await stored(broker)
    assert verify_token(third, account.secret_hash)
    assert (account.previous_secret_hash, account.expires_at, account.groups) == ("", NOW + 60 + 2 * DAY, ("a",))


async def test_missing_record_is_not_changed(accounts: ServiceAccounts) -> None:
    for work in (accounts.rotate("ci"), accounts.revoke("ci")):
        with pytest.raises(AccountError, match="service account ci not found"):
            await work


@pytest.mark.parametrize("name", ["", "-ci", "ci-", "CI", "c_i", "c/i", "c i", "c@i", "ci\n", "\u0441i", "x" * 64])
async def test_names_have_one_spelling(accounts: ServiceAccounts, name: str) -> None:
    with pytest.raises(AccountError, match="a name must have"):
        await accounts.create(name, [], DAY, "")


async def test_groups_and_lifetimes_have_bounds(accounts: ServiceAccounts) -> None:
    for groups in ([str(number) for number in range(MAX_GROUPS + 1)], ["x" * 256], ["a\x00b"]):
        with pytest.raises(AccountError, match="groups"):
            await accounts.create("ci", groups, DAY, "")
    with pytest.raises(AccountError, match="must be positive"):
        await accounts.create("ci", [], -1.0, "")


async def test_all_are_listed(accounts: ServiceAccounts) -> None:
    for name in ("b", "a", "c"):
        await accounts.create(name, [], DAY, "")
    assert [account.name for account in await accounts.list()] == ["a", "b", "c"]


async def test_permissions_are_granted_at_creation_and_stay(accounts: ServiceAccounts, broker: MemoryStore) -> None:
    await accounts.create("ci", [], DAY, "ann", ["routes:read", "sessions:read", "routes:read"])
    await accounts.rotate("ci")
    assert (await stored(broker)).permissions == ("sessions:read", "routes:read")
    await accounts.create("none", [], DAY, "ann")
    assert (await stored(broker, "none")).permissions == ()
    with pytest.raises(AccountError, match="unknown permission sessions:everything"):
        await accounts.create("other", [], DAY, "ann", ["routes:read", "sessions:everything"])


async def test_an_account_ends_no_later_than_it_may(accounts: ServiceAccounts, broker: MemoryStore) -> None:
    await accounts.create("ci", [], None, "ann", not_after=NOW + DAY)
    assert (await stored(broker)).expires_at == NOW + DAY


async def test_conflict_is_distinguished_from_missing(accounts: ServiceAccounts) -> None:
    await accounts.create("ci", [], DAY, "ann")
    with pytest.raises(AccountConflict):
        await accounts.create("ci", [], DAY, "ann")
    for work in (accounts.rotate, accounts.revoke):
        with pytest.raises(NoSuchAccount):
            await work("other")
