"""Provider directory: one process keeps it current at its interval, and a user who signs in has their groups at once."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.directory.directory_service import DirectoryService
from authenticate.directory.provider_directory import RETRY_INTERVAL, SyncScheduler
from authenticate.directory.vendor_source import DirectorySource
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryUser
from databroker.store.memory import MemoryStore
from foundation.errors import ProviderError
from tests.support.fake_api import as_json
from tests.support.options import make_options
from tests.unit.authenticate.directory.test_sync_run import Held


class Stop(Exception):
    pass


class Clockwork:
    """A schedule whose sleeping turns the clock, until it has slept often enough."""

    def __init__(self, tmp_path: Path, **settings: Any):
        self.now = 1000.0
        self.slept: list[float] = []
        self.broker = MemoryStore(lambda: self.now)
        self.source = Held()
        self.options = make_options(tmp_path, idp_refresh_directory_interval="10m", **settings)

    async def run(self, sleeps: int) -> list[float]:
        self.slept.clear()

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.now += seconds
            if len(self.slept) == sleeps:
                raise Stop

        with pytest.raises(Stop):
            await SyncScheduler(self.source, self.broker, self.options, lambda: self.now, sleep=sleep).run()  # type: ignore[arg-type]
        return self.slept

    async def known(self) -> int:
        return len(await self.broker.page(DIRECTORY_USER, "", 1000))


async def test_it_is_read_at_once_and_every_interval(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    assert await clockwork.run(3) == [600, 600, 600]
    assert await clockwork.known() == 3


async def test_restart_waits_for_rest_of_interval(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    await clockwork.run(1)
    clockwork.now -= 400
    assert await clockwork.run(1) == [400]


async def test_after_a_failure_it_is_tried_sooner_and_less_and_less_often(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    clockwork.source.error = ProviderError("away")
    assert await clockwork.run(7) == [
        RETRY_INTERVAL,
        2 * RETRY_INTERVAL,
        4 * RETRY_INTERVAL,
        8 * RETRY_INTERVAL,
        16 * RETRY_INTERVAL,
        600,
        600,
    ]


async def test_another_source_is_read_at_once(tmp_path: Path) -> None:
    clockwork = Clockwork(tmp_path)
    await clockwork.run(1)
    clockwork.now -= 600

    class Other(Held):
        def __str__(self) -> str:
            return "other"

    clockwork.source = Other(4)
    await clockwork.run(1)
    assert await clockwork.known() == 4


async def test_the_directory_file_is_followed_while_the_service_runs(tmp_path: Path) -> None:
    file = tmp_path / "directory.yaml"
    file.write_text("users: [{id: alice, groups: [g1]}]")
    broker = MemoryStore()
    service = DirectoryService(make_options(tmp_path, directory_file=str(file)), broker)
    await service.start()
    async with asyncio.timeout(20):
        while await broker.get(DIRECTORY_USER, "oidc/alice") is None:
            await asyncio.sleep(0.01)
    await service.stop()
    assert await broker.acquire("directory", 1.0) is not None


async def test_new_sign_in_has_groups_immediately(staged) -> None:
    stage = await staged("okta")
    service = DirectoryService(stage.options, stage.broker, stage.clock)
    user = stage.directory.expected_user("ann")
    await service.sync_user(user.id, "")
    assert await stage.users() == {user.id: user}
    assert set(await stage.groups()) == set(user.group_ids)
    before = await stage.versions()
    await service.sync_user(user.id, "")
    assert await stage.versions() == before
    await service.stop()


async def test_a_look_up_that_is_late_brings_no_group_back(staged, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await staged("okta")
    user, members = stage.directory.expected_user("ann"), stage.directory.company.members
    await stage.read()
    look_up = DirectorySource.look_up

    async def late(*args: Any) -> Any:
        monkeypatch.undo()
        answer = await look_up(*args)
        members.update({group: [name for name in names if name != "ann"] for group, names in members.items()})
        assert not (await stage.read_after_restart()).error
        return answer

    monkeypatch.setattr(DirectorySource, "look_up", late)
    service = DirectoryService(stage.options, stage.broker, stage.clock)
    await service.sync_user(user.id, "")
    assert user.group_ids
    assert (await stage.users())[user.id].group_ids == ()
    await service.stop()


async def test_a_record_that_changes_again_and_again_is_left_to_the_next_reading(staged, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await staged("okta")
    user = stage.directory.expected_user("ann")
    look_up = DirectorySource.look_up

    async def late(*args: Any) -> Any:
        answer = await look_up(*args)
        await stage.broker.put(DIRECTORY_USER, user.id, DirectoryUser(user.id, issuer=user.issuer).to_data())
        return answer

    monkeypatch.setattr(DirectorySource, "look_up", late)
    service = DirectoryService(stage.options, stage.broker, stage.clock)
    with capture_logs() as logs:
        await service.sync_user(user.id, "")
    assert [entry["user_id"] for entry in logs if entry["log_level"] == "warning"] == [user.id]
    assert (await stage.users())[user.id].group_ids == ()
    await service.stop()


async def test_a_look_up_replaces_no_group_that_a_reading_has_written_since(staged, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await staged("okta")
    user = stage.directory.expected_user("ann")
    fuller = DirectoryGroup(user.group_ids[0], "Named by the reading", issuer=user.issuer)
    service = DirectoryService(stage.options, stage.broker, stage.clock)
    get = stage.broker.get

    async def overtaken(type: str, id: str) -> Any:
        known = await get(type, id)
        if type == DIRECTORY_GROUP and id == fuller.id:
            await stage.broker.put(type, id, fuller.to_data())
        return known

    monkeypatch.setattr(stage.broker, "get", overtaken)
    await service.sync_user(user.id, "")
    assert (await stage.groups())[fuller.id] == fuller
    assert (await stage.users())[user.id] == user
    await service.stop()


async def test_failed_look_up_blocks_no_sign_in_and_is_logged(staged) -> None:
    stage = await staged("okta")
    service = DirectoryService(stage.options, stage.broker, stage.clock)
    stage.directory.fault = lambda request: as_json({}, 500)
    with capture_logs() as logs:
        await service.sync_user("okta/00u101", "")
    assert [entry["user_id"] for entry in logs if entry["log_level"] == "warning"] == ["okta/00u101"]
    assert await stage.users() == {}
    await service.stop()


async def test_known_user_data_is_retained_where_directory_does_not_list_the_user(staged) -> None:
    stage = await staged("okta")
    service = DirectoryService(stage.options, stage.broker, stage.clock)
    await stage.broker.put(DIRECTORY_USER, "okta/gone", DirectoryUser("okta/gone").to_data())
    await service.sync_user("okta/gone", "")
    assert set(await stage.users()) == {"okta/gone"}
    assert await stage.broker.page(DIRECTORY_GROUP, "", 10) == []
    await service.stop()


async def test_signed_in_user_and_groups_belong_to_this_issuer(staged) -> None:
    """Another server's have the same ids: its people lend this one's neither groups nor a group's name."""
    stage = await staged("okta")
    user, group = stage.directory.expected_user("ann"), DirectoryGroup("", "admins", issuer="https://other.example")
    group = replace(group, id=user.group_ids[0])
    foreign_user = DirectoryUser(user.id, group_ids=("admins",), issuer="https://other.example")
    await stage.broker.put(DIRECTORY_USER, user.id, foreign_user.to_data())
    await stage.broker.put(DIRECTORY_GROUP, group.id, group.to_data())
    service = DirectoryService(stage.options, stage.broker, stage.clock)
    await service.sync_user(user.id, "")
    assert (await stage.users())[user.id].issuer == stage.directory.issuer == stage.options.idp_provider_url
    assert (await stage.groups())[group.id] == stage.directory.expected()[1][group.id]
    await service.stop()
