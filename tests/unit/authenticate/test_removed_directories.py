"""Records of a directory go with the configuration that does not know it, and no others."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.removed_directories import RemovedDirectories
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, SCIM_GROUP, SCIM_INDEX, SCIM_USER
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.options import make_options
from tests.unit.authenticate.test_removed_providers import CORP, PARTNER, entry, several

TYPES = (DIRECTORY_USER, DIRECTORY_GROUP, DIRECTORY_RUN)
OKTA = {"service_account": '{"api_key": "k"}'}


@pytest.fixture
async def broker() -> MemoryStore:
    """Records of the directories of corp and partner, and those of the former `idp_*` keys."""
    broker = MemoryStore()
    for type in TYPES:
        for id in ("corp/1", "partner/1", "partner/2", "gone/1"):
            await broker.put(type, id, {"id": id})
    await broker.put(DIRECTORY_USER, "okta/1", {"id": "okta/1"})
    await broker.put(DIRECTORY_GROUP, "raw", {"id": "raw"})
    await broker.put(DIRECTORY_RUN, "1000", {"id": "1000"})
    return broker


async def left(broker: MemoryStore) -> dict[str, list[str]]:
    return {type: [record.id for record in await broker.page(type, "", 100)] for type in TYPES}


async def test_remaining_records_belong_to_providers_with_a_directory(tmp_path: Path, broker: MemoryStore) -> None:
    (tmp_path / "people.yaml").write_text("users: []")
    entries = (entry("corp", CORP) | {"directory_file": "people.yaml"}, entry("partner", PARTNER))
    with capture_logs() as logged:
        await RemovedDirectories(several(tmp_path, *entries), broker).run()
    assert await left(broker) == {type: ["corp/1"] for type in TYPES}
    deleted = {line["provider"]: line["users"] for line in logged if line["event"] == "records of removed directory deleted"}
    assert deleted == {"partner": 2, "gone": 1, "okta": 1}


async def test_a_directory_that_another_process_may_read_is_left_alone(tmp_path: Path, broker: MemoryStore) -> None:
    entries: tuple[dict[str, Any], ...] = (
        entry("corp", "https://corp.okta.com") | {"provider": "okta"},
        entry("partner", PARTNER),
    )
    options = several(tmp_path, *entries).model_copy(update={"services": "authenticate"})
    options.__dict__.pop("providers", None)
    await RemovedDirectories(options, broker).run()
    assert await left(broker) == {type: ["corp/1"] for type in TYPES}


async def test_provider_entry_data_is_dropped_for_keys_of_one_provider(tmp_path: Path, broker: MemoryStore) -> None:
    await broker.put(DIRECTORY_GROUP, "team/raw", {"id": "team/raw"})
    with capture_logs() as logged:
        await RemovedDirectories(make_options(tmp_path), broker).run()
    assert await left(broker) == {DIRECTORY_USER: ["okta/1"], DIRECTORY_GROUP: ["raw", "team/raw"], DIRECTORY_RUN: ["1000"]}
    deleted = {line["provider"]: line["users"] for line in logged if line["event"] == "records of removed directory deleted"}
    assert deleted == {"corp": 1, "partner": 2, "gone": 1}


@pytest.mark.parametrize(
    ("keys", "stay"), [({"directory_file": "people.yaml"}, ["oidc/1", "oidc/2", "okta/1"]), ({}, ["oidc/2", "okta/1"])]
)
async def test_users_of_entry_named_like_the_only_provider_stay_where_it_has_a_directory(
    tmp_path: Path, broker: MemoryStore, keys: dict[str, str], stay: list[str]
) -> None:
    """A deactivated user also stays deactivated, even if another source is responsible now."""
    (tmp_path / "people.yaml").write_text("users: []")
    for type, id in ((DIRECTORY_USER, "oidc/1"), (DIRECTORY_GROUP, "oidc/g"), (DIRECTORY_RUN, "oidc/1"), (SCIM_USER, "oidc/7")):
        await broker.put(type, id, {"id": id})
    await broker.put(DIRECTORY_USER, "oidc/2", {"id": "oidc/2", "is_deactivated": True})
    await RemovedDirectories(make_options(tmp_path, **keys), broker).run()
    groups = ["oidc/g", "raw"] if keys else ["raw"]
    assert await left(broker) == {DIRECTORY_USER: stay, DIRECTORY_GROUP: groups, DIRECTORY_RUN: ["1000"]}
    assert await broker.page(SCIM_USER, "", 10) == []


async def test_users_and_groups_of_another_provider_kind_return_with_it(tmp_path: Path) -> None:
    """Records from an entry's directory file are recognized by their groups, whose names no other entry uses."""
    broker = MemoryStore()
    values = {"issuer": "https://corp.okta.com"}
    for type, id in ((DIRECTORY_USER, "okta/1"), (DIRECTORY_GROUP, "g"), (DIRECTORY_GROUP, "team/raw"), (SCIM_USER, "7")):
        await broker.put(type, id, values)
    before = await left(broker)
    for type, id in ((DIRECTORY_USER, "corp/1"), (DIRECTORY_GROUP, "corp/g"), (DIRECTORY_GROUP, "corp/h")):
        await broker.put(type, id, values)
    await RemovedDirectories(make_options(tmp_path), broker).run()
    assert await left(broker) == before
    assert [record.id for record in await broker.page(SCIM_USER, "", 10)] == ["7"]


async def test_failed_deletion_is_retried_next_time(tmp_path: Path, broker: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    delete, fails = broker.delete, iter([True])

    async def failing_once(type: str, id: str) -> bool:
        if (type, id) == (DIRECTORY_GROUP, "partner/2") and next(fails, False):
            raise BrokerError("away")
        return await delete(type, id)

    monkeypatch.setattr(broker, "delete", failing_once)
    await RemovedDirectories(make_options(tmp_path), broker).run()
    assert await left(broker) == {DIRECTORY_USER: ["okta/1"], DIRECTORY_GROUP: ["raw"], DIRECTORY_RUN: ["1000"]}


PUSHED = (SCIM_USER, SCIM_GROUP, SCIM_INDEX)


@pytest.mark.parametrize(
    ("keys", "stays"),
    [({"scim_token": "0123456789abcdefghijklmnopqrstuv"}, ["corp/1"]), ({"directory_file": "people.yaml"}, []), ({}, [])],
)
async def test_pushed_records_stay_while_that_provider_may_push(
    tmp_path: Path, broker: MemoryStore, keys: dict[str, Any], stays: list[str]
) -> None:
    (tmp_path / "people.yaml").write_text("users: []")
    for type in PUSHED:
        for id in ("corp/1", "partner/1", "of-the-keys-of-one-provider"):
            await broker.put(type, id, {})
    await RemovedDirectories(several(tmp_path, entry("corp", CORP) | keys, entry("partner", PARTNER)), broker).run()
    for type in PUSHED:
        assert [record.id for record in await broker.page(type, "", 10)] == stays
    assert (await left(broker))[DIRECTORY_USER] == (["corp/1"] if keys else [])


async def test_records_pushed_to_entries_are_deleted_for_keys_of_one_provider(tmp_path: Path, broker: MemoryStore) -> None:
    for type in PUSHED:
        for id in ("corp/1", "ours"):
            await broker.put(type, id, {})
    await RemovedDirectories(make_options(tmp_path), broker).run()
    for type in PUSHED:
        assert [record.id for record in await broker.page(type, "", 10)] == ["ours"]


async def test_unavailable_broker_is_retried(tmp_path: Path, broker: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    page, answers = broker.page, iter([BrokerError("away"), BrokerError("away")])

    async def away_at_first(*arguments: Any) -> Any:
        if (error := next(answers, None)) is not None:
            raise error
        return await page(*arguments)

    monkeypatch.setattr(broker, "page", away_at_first)
    with capture_logs() as logged:
        await RemovedDirectories(several(tmp_path, entry("corp", CORP)), broker).run()
    monkeypatch.undo()
    assert await left(broker) == {type: [] for type in TYPES}
    assert sum("deleting records of removed directories failed" in line["event"] for line in logged) == 2
