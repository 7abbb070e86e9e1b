"""The index finds one among many, keeps what must be unique so, and forgets."""

import pytest

from authenticate.scim.index import ScimIndex
from authenticate.scim.scim_errors import ScimError
from databroker.records import SCIM_INDEX, SCIM_USER
from databroker.store.memory import MemoryStore


async def test_indexed_value_is_found_in_any_case_and_removed(broker: MemoryStore) -> None:
    index = ScimIndex(broker)
    await index.put(SCIM_USER, "1", {"displayname": "Ann"})
    await index.put(SCIM_USER, "2", {"displayname": "ANN"})
    assert await index.find_ids(SCIM_USER, "displayname", "ann") == ("1", "2")
    await index.remove(SCIM_USER, "1", [("displayname", "ann")])
    assert await index.find_ids(SCIM_USER, "displayname", "Ann") == ("2",)
    await index.remove(SCIM_USER, "2", [("displayname", "ann")])
    assert await broker.page(SCIM_INDEX, "", 10) == []


async def test_a_name_belongs_to_one_that_exists(broker: MemoryStore) -> None:
    index = ScimIndex(broker)
    await index.put(SCIM_USER, "1", {"username": "ann"})
    await index.check_unique(SCIM_USER, "1", {"username": "ann"})
    await index.check_unique(SCIM_USER, "2", {"username": "ann"})  # what was never written takes no name
    await broker.put(SCIM_USER, "1", {})
    with pytest.raises(ScimError) as refused:
        await index.check_unique(SCIM_USER, "2", {"username": "ANN"})
    assert (refused.value.status, refused.value.kind) == (409, "uniqueness")


async def test_ids_of_the_provider_differ_in_case(broker: MemoryStore) -> None:
    index = ScimIndex(broker)
    await index.put(SCIM_USER, "1", {"subject": "Ab"})
    assert await index.find_ids(SCIM_USER, "subject", "ab") == ()
