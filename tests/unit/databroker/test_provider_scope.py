"""Own records of a directory: whatever ids it makes up, it reads and writes nothing of another's."""

import pytest

from databroker.broker_client import iter_records
from databroker.provider_scope import ForeignUser, ProviderScopedBroker, provider_scoped
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, SCIM_GROUP, SCIM_INDEX, SCIM_USER, SESSION
from databroker.store.memory import MemoryStore
from tests.support.providers import a_provider

NAMED = (DIRECTORY_GROUP, DIRECTORY_RUN, SCIM_USER, SCIM_GROUP, SCIM_INDEX)


def corp_and_partner(broker: MemoryStore) -> tuple[ProviderScopedBroker, ProviderScopedBroker]:
    return ProviderScopedBroker(broker, "corp/"), ProviderScopedBroker(broker, "partner/")


def test_the_only_directory_has_all_records(broker: MemoryStore) -> None:
    assert provider_scoped(broker, a_provider()) is broker  # type: ignore[comparison-overlap]
    assert isinstance(provider_scoped(broker, a_provider("corp", is_entry=True)), ProviderScopedBroker)


@pytest.mark.parametrize("type", NAMED)
async def test_one_id_of_two_directories_is_two_records(broker: MemoryStore, type: str) -> None:
    corp, partner = corp_and_partner(broker)
    await corp.put(type, "g", {"of": "corp"})
    await partner.put(type, "g", {"of": "partner"})
    assert [record.id for record in await broker.page(type, "", 10)] == ["corp/g", "partner/g"]
    for own, name in ((corp, "corp"), (partner, "partner")):
        found = await own.get(type, "g")
        assert found is not None
        assert (found.id, found.data["of"]) == ("g", name)
    await partner.delete(type, "g")
    assert await partner.get(type, "g") is None
    assert await corp.get(type, "g") is not None


@pytest.mark.parametrize("type", NAMED)
@pytest.mark.parametrize("id", ["corp/g", "../corp/g", "/corp/g", "corp/", "", "g\0", "partner/corp/g"])
async def test_no_id_leads_to_another_s_record(broker: MemoryStore, type: str, id: str) -> None:
    corp, partner = corp_and_partner(broker)
    stored = await corp.put(type, "g", {"of": "corp"})
    written = await partner.put(type, id, {"of": "partner"})
    assert written.id == id
    assert await corp.get(type, "g") == stored
    assert [record.id for record in await corp.page(type, "", 10)] == ["g"]
    assert [record.data["of"] for record in await partner.page(type, "", 10)] == ["partner"] * bool(id)
    await partner.delete(type, id)
    assert await corp.get(type, "g") == stored


@pytest.mark.parametrize("id", ["corp/ann", "ann", "", "partne", "partnership/ann", "Partner/ann"])
async def test_record_of_another_issuer_s_user_is_inaccessible(broker: MemoryStore, id: str) -> None:
    _, partner = corp_and_partner(broker)
    await broker.put(DIRECTORY_USER, "corp/ann", {})
    for work in (partner.get(DIRECTORY_USER, id), partner.put(DIRECTORY_USER, id, {}), partner.delete(DIRECTORY_USER, id)):
        with pytest.raises(ForeignUser):
            await work
    assert await partner.page(DIRECTORY_USER, "", 10) == []
    assert [record.id for record in await broker.page(DIRECTORY_USER, "", 10)] == ["corp/ann"]


@pytest.mark.parametrize("type", [DIRECTORY_GROUP, DIRECTORY_USER, SCIM_USER])
async def test_pages_go_on_to_the_last_of_one_s_own(broker: MemoryStore, type: str) -> None:
    for prefix in ("aaa/", "corp/", "corp-two/", "corp0/", "zzz/"):
        for number in range(7):
            await broker.put(type, f"{prefix}{number}", {})
    corp = ProviderScopedBroker(broker, "corp/")
    after, found = "", list[str]()
    while page := await corp.page(type, after, 3):
        after = page[-1].id
        found += [record.id for record in page]
    names = [f"corp/{number}" if type == DIRECTORY_USER else str(number) for number in range(7)]
    assert found == names == [record.id async for record in iter_records(corp, type)]


async def test_records_of_other_types_are_unscoped(broker: MemoryStore) -> None:
    corp, partner = corp_and_partner(broker)
    await corp.put(SESSION, "s", {}, expires=9e9)
    assert await partner.get(SESSION, "s") == await broker.get(SESSION, "s")
    assert [record.id for record in await partner.page(SESSION, "", 10)] == ["s"]


async def test_no_directory_waits_for_the_lease_of_another(broker: MemoryStore) -> None:
    corp, partner = corp_and_partner(broker)
    lease = await corp.acquire("scim", 60.0)
    assert lease is not None
    assert await corp.acquire("scim", 60.0) is None
    assert await partner.acquire("scim", 60.0) is not None
    assert await broker.acquire("scim", 60.0) is not None
    await corp.release(lease)
    assert await corp.acquire("scim", 60.0) is not None
