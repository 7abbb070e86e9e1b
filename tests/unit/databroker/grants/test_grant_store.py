"""Temporary access is granted, listed and revoked exactly once, also under concurrent writes."""

import asyncio
from dataclasses import replace

import pytest

from databroker.grants.grant_records import MAX_REASON_LENGTH, RETENTION_SECONDS, AccessGrant, GrantSubject, UserGrants
from databroker.grants.grant_store import MAX_DURATION_SECONDS, AccessError, GrantStore, validate_reason
from databroker.records import ACCESS_GRANT, Record, UserRecord
from databroker.session_reader import active_grants
from databroker.store.base import VersionConflict
from databroker.store.memory import MemoryStore
from tests.support.clock import NOW, Clock

ANN = UserRecord("oidc/1", "ann@corp.com", issuer="https://idp.example.com")
ACCESS = AccessGrant("a1", "0123456789abcdef wiki", NOW, NOW + 3600, "root", "an incident", "wiki")


@pytest.fixture
def accesses(broker: MemoryStore, clock: Clock) -> GrantStore:
    return GrantStore(broker, clock)


async def held(accesses: GrantStore, *, expired: bool = False) -> list[str]:
    return [access.id async for _, access in accesses.iter_grants(expired=expired)]


async def test_granted_access_is_listed_with_its_user_until_it_expires(accesses: GrantStore, broker: MemoryStore, clock: Clock) -> None:
    await accesses.grant(ANN, replace(ACCESS, reason="  an\n incident "))
    await accesses.grant(ANN, replace(ACCESS, id="a2", route="other", expires_at=NOW + 7200))
    ((record, access), _) = [each async for each in accesses.iter_grants()]
    assert (record.user_id, record.issuer, record.display_name, access) == ("oidc/1", ANN.issuer, "ann@corp.com", ACCESS)
    clock.now += 3600
    assert await held(accesses) == ["a2"]
    clock.now += 3600
    assert await held(accesses) == []
    assert await held(accesses, expired=True) == ["a1", "a2"]
    await accesses.grant(ANN, replace(ACCESS, id="a3", expires_at=clock.now + 3600))
    await accesses.revoke("oidc/1", ACCESS.route)
    assert await held(accesses, expired=True) == ["a2"], "replaced, or revoked"
    clock.now += 3600 + RETENTION_SECONDS
    assert await broker.get(ACCESS_GRANT, "oidc/1") is None, "nothing is left of what has ended"


async def test_of_one_route_the_longer_access_counts(accesses: GrantStore) -> None:
    await accesses.grant(ANN, ACCESS)
    await accesses.grant(ANN, replace(ACCESS, id="a2", expires_at=NOW + 7200))
    assert await held(accesses) == ["a2"]
    with pytest.raises(AccessError, match="lasts longer"):
        await accesses.grant(ANN, replace(ACCESS, id="a3"))
    assert await held(accesses) == ["a2"]


async def test_access_to_a_tool_is_separate_from_other_access_to_the_route(accesses: GrantStore) -> None:
    tool, other = replace(ACCESS, id="t1", tool="delete_repo"), replace(ACCESS, id="t2", tool="merge")
    for access in (ACCESS, tool, other):
        await accesses.grant(ANN, access)
    assert await held(accesses) == ["a1", "t1", "t2"]
    assert len({access.route_hash for access in (ACCESS, tool, other)}) == 3
    with pytest.raises(AccessError, match="lasts longer"):
        await accesses.grant(ANN, replace(tool, id="t3"))
    assert await accesses.revoke("oidc/1", tool.key)
    assert await held(accesses) == ["a1", "t2"]
    with pytest.raises(AccessError, match="revoked"):
        await accesses.grant(ANN, replace(tool, id="t4"), NOW)
    await accesses.grant(ANN, replace(other, id="t5", expires_at=NOW + 7200), NOW)
    assert await held(accesses) == ["a1", "t5"]


async def test_two_grants_under_one_number_apply_once(accesses: GrantStore) -> None:
    await accesses.grant(ANN, ACCESS)
    await accesses.grant(ANN, replace(ACCESS, expires_at=NOW + 7200))
    assert [access.expires_at for access in await accesses.active_for("oidc/1", ANN.issuer)] == [ACCESS.expires_at]
    assert await accesses.active_for("oidc/1", "https://other.example.com") == []
    assert await accesses.active_for("oidc/2", ANN.issuer) == []


async def test_revocation_takes_effect_once(accesses: GrantStore) -> None:
    await accesses.grant(ANN, ACCESS)
    await accesses.grant(ANN, replace(ACCESS, id="a2", route="other"))
    assert await accesses.revoke("oidc/1", ACCESS.route)
    assert await held(accesses) == ["a2"]
    assert not await accesses.revoke("oidc/1", ACCESS.route)
    assert await accesses.revoke("oidc/1", "other")
    assert await held(accesses) == []
    await accesses.grant(ANN, replace(ACCESS, id="a3"))
    assert await held(accesses) == ["a3"]
    assert not await accesses.revoke("oidc/2", ACCESS.route)


async def test_replaced_access_is_found_and_ended(accesses: GrantStore) -> None:
    await accesses.grant(ANN, ACCESS)
    await accesses.grant(ANN, replace(ACCESS, id="a2", expires_at=NOW + 7200))
    assert await accesses.find("oidc/1", "a1") is None
    found = await accesses.find("oidc/1", ACCESS.route_hash)
    assert found is not None
    assert found[1].id == "a2"
    assert await accesses.revoke("oidc/1", ACCESS.route)
    assert await held(accesses) == []


async def test_late_approval_does_not_restore_revoked_access(accesses: GrantStore, broker: MemoryStore, clock: Clock) -> None:
    await accesses.grant(ANN, ACCESS)
    assert await accesses.revoke("oidc/1", ACCESS.route)
    for _ in range(2):
        with pytest.raises(AccessError, match="was revoked"):
            await accesses.grant(ANN, ACCESS)
        # Nor once others are written: of another route, or of this one, approved since then.
        await accesses.grant(ANN, replace(ACCESS, id="a2", route="other"))
        await accesses.grant(ANN, replace(ACCESS, id="a3"), approved=NOW + 1)
    assert await held(accesses) == ["a2", "a3"]
    record = await broker.get(ACCESS_GRANT, "oidc/1")
    assert record is not None
    assert [access.id for access in active_grants(GrantSubject("oidc/1", ANN.issuer), record)] == ["a2", "a3"]
    clock.now += 3600 + RETENTION_SECONDS
    await accesses.grant(ANN, replace(ACCESS, id="a4", route="third", expires_at=clock.now + 1))
    record = await broker.get(ACCESS_GRANT, "oidc/1")
    assert record is not None
    assert [access.id for access in UserGrants.from_record(record).grants] == ["a4"], "what would have ended can't be given anyway"


async def test_records_of_another_issuer_s_user_do_not_continue(accesses: GrantStore) -> None:
    await accesses.grant(replace(ANN, issuer="https://old.example.com"), ACCESS)
    await accesses.grant(ANN, replace(ACCESS, id="a2", route="other"))
    assert await held(accesses) == ["a2"]


@pytest.mark.parametrize("until", [NOW, NOW - 1, NOW + MAX_DURATION_SECONDS + 1, float("inf"), float("nan")])
async def test_access_ends_in_the_future_and_within_bounds(accesses: GrantStore, until: float) -> None:
    with pytest.raises(AccessError, match="30 days"):
        await accesses.grant(ANN, replace(ACCESS, expires_at=until))
    assert await held(accesses) == []


@pytest.mark.parametrize("why", ["", " \n", "a" * (MAX_REASON_LENGTH + 1), "a\u202eb", "a\x00b"])
def test_a_reason_is_there_and_can_be_read(why: str) -> None:
    with pytest.raises(AccessError, match="give a reason"):
        validate_reason(why)


async def test_concurrent_grants_are_all_stored(accesses: GrantStore, broker: MemoryStore) -> None:
    read = broker.get

    async def get(type: str, id: str) -> Record | None:
        record = await read(type, id)
        await asyncio.sleep(0)  # as over a line: the others read the same
        return record

    broker.get = get  # type: ignore[method-assign]
    await asyncio.gather(*(accesses.grant(ANN, replace(ACCESS, id=f"a{place}", route=f"r{place}")) for place in range(4)))
    assert sorted(await held(accesses)) == ["a0", "a1", "a2", "a3"]


async def test_repeated_conflict_is_reported(accesses: GrantStore, broker: MemoryStore) -> None:
    await accesses.grant(ANN, ACCESS)

    async def conflict(*args: object, **more: object) -> None:
        raise VersionConflict("somebody was first")

    broker.put = conflict  # type: ignore[assignment]
    with pytest.raises(AccessError, match="another administrator"):
        await accesses.grant(ANN, replace(ACCESS, id="a2", route="other"))
    with pytest.raises(AccessError, match="another administrator"):
        await accesses.revoke("oidc/1", ACCESS.route)


async def test_unreadable_record_is_not_treated_as_missing(accesses: GrantStore, broker: MemoryStore) -> None:
    await broker.put(ACCESS_GRANT, "oidc/1", UserGrants("oidc/2", "x").to_data())
    with pytest.raises(ValueError, match="a user"):
        await accesses.grant(ANN, ACCESS)


async def test_unreadable_record_hides_no_other(accesses: GrantStore, broker: MemoryStore) -> None:
    await broker.put(ACCESS_GRANT, "oidc/0", {"user_id": "oidc/0", "issuer": "x", "grants": [{"id": "a0"}]})
    await accesses.grant(ANN, ACCESS)
    assert await held(accesses) == ["a1"]
