"""Several directories: each is synced, fails and is reported separately, and adds no data to another's users."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.directory.directory_service import DirectoryService
from config.settings.identity_providers import PLACEHOLDERS
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, DirectoryGroup, DirectoryUser
from databroker.store.memory import MemoryStore
from foundation.readiness import ReadinessState
from foundation.telemetry import metrics
from tests.support.fake_api import as_json
from tests.support.fake_directories import FakeDirectory, Okta
from tests.support.options import make_options

KEYS: dict[str, Any] = {"client_id": "gate", "client_secret": "secret"}


def read(id: str, directory: FakeDirectory) -> dict[str, Any]:
    """Entry whose directory is read from this vendor."""
    written = directory.settings()
    vendor = {"provider": directory.provider, "url": f"https://{id}.example", "service_account": written["idp_service_account"]}
    return {"id": id, "domains": [f"{id}.example"], "directory_url": directory.url, **vendor, **KEYS}


class Desk:
    """A data broker, and the directories of these entries, of which one is a file."""

    def __init__(self, tmp_path: Path, *entries: dict[str, Any]):
        self.file = tmp_path / "people.yaml"
        self.file.write_text("users: [{id: '00u101', groups: [00g7, staff]}]\ngroups: [{id: 00g7, name: Of the file}]")
        filed = {"id": "filed", "provider": "oidc", "url": "https://filed.example", "domains": [], "directory_file": str(self.file), **KEYS}
        self.options = make_options(tmp_path, **dict.fromkeys(PLACEHOLDERS), identity_providers=[*entries, filed])
        self.broker = MemoryStore()
        self.service = DirectoryService(self.options, self.broker)

    async def users(self, id: str) -> dict[str, DirectoryUser]:
        found = await self.broker.page(DIRECTORY_USER, "", 1000)
        return {record.id: DirectoryUser.from_record(record) for record in found if record.id.startswith(f"{id}/")}

    async def groups(self, id: str) -> dict[str, DirectoryGroup]:
        found = await self.broker.page(DIRECTORY_GROUP, "", 1000)
        return {record.id: DirectoryGroup.from_record(record) for record in found if record.id.startswith(f"{id}/")}

    async def runs(self) -> dict[str, str]:
        """The last error of each directory that was read, "" for none."""
        return {record.id.partition("/")[0]: record.data["error"] for record in await self.broker.page(DIRECTORY_RUN, "", 1000)}

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(20):
            while not await condition():
                await asyncio.sleep(0.01)


@pytest.fixture
async def corp() -> AsyncIterator[Okta]:
    async with Okta() as directory:
        yield directory


@pytest.fixture
async def partner() -> AsyncIterator[Okta]:
    """Directory in which all users have the same ids as at corp."""
    async with Okta() as directory:
        directory.company.users = {"ann": ("Mallory", "ceo@corp.example")}
        directory.company.members = {"engineering": [], "backend": ["ann"], "empty": []}
        yield directory


async def test_each_directory_describes_its_own_users(tmp_path: Path, corp: Okta, partner: Okta) -> None:
    desk = Desk(tmp_path, read("corp", corp), read("partner", partner))
    await desk.service.start()

    async def all_are_read() -> bool:
        return set(await desk.runs()) == {"corp", "partner"} and bool(await desk.users("filed"))

    try:
        await desk.until(all_are_read)
    finally:
        await desk.service.stop()
    ann, engineering, backend = corp.user_id("ann"), corp.group_id("engineering"), corp.group_id("backend")
    of_corp, of_partner, filed = [await desk.users(id) for id in ("corp", "partner", "filed")]
    assert len(of_corp) == 4
    assert of_corp[f"corp/{ann}"] == DirectoryUser(
        f"corp/{ann}", "ann@corp.example", "Ann Adams", (engineering,), issuer="https://corp.example"
    )
    assert of_partner == {
        f"partner/{ann}": DirectoryUser(f"partner/{ann}", "ceo@corp.example", "Mallory", (backend,), issuer="https://partner.example")
    }
    assert filed["filed/00u101"].group_ids == ("00g7", "staff")
    names = {id: {group.name for group in (await desk.groups(id)).values()} for id in ("corp", "partner", "filed")}
    assert names == {"corp": set(corp.company.groups), "partner": set(partner.company.groups), "filed": {"Of the file", ""}}
    sizes = {tuple(sample.labels.values()): sample.value for sample in metrics.directory_entries.collect()[0].samples}
    assert (sizes["corp", "users"], sizes["partner", "users"]) == (4.0, 1.0)
    assert desk.service.readiness().state is ReadinessState.OK
    for synced_line in ("corp synced at", "partner synced at", "filed synced at"):
        assert synced_line in desk.service.readiness().reason


async def test_one_that_is_away_costs_the_others_nothing_and_is_named(tmp_path: Path, corp: Okta, partner: Okta) -> None:
    partner.fault = lambda request: as_json({}, 403)
    desk = Desk(tmp_path, read("corp", corp), read("partner", partner))
    desk.file.write_text("users: {")

    async def both_were_tried() -> bool:
        return set(await desk.runs()) == {"corp", "partner"} and "filed" in desk.service.readiness().reason

    with capture_logs() as logged:
        await desk.service.start()
        try:
            await desk.until(both_were_tried)
        finally:
            await desk.service.stop()
    runs = await desk.runs()
    assert (runs["corp"], "403" in runs["partner"]) == ("", True)
    assert (len(await desk.users("corp")), await desk.users("partner"), await desk.users("filed")) == (4, {}, {})
    state = desk.service.readiness()
    assert (state.state, "groups of partner not updated since" in state.reason, "groups of filed not updated since" in state.reason) == (
        ReadinessState.DEGRADED,
        True,
        True,
    )
    assert "corp" not in state.reason
    assert {line["provider"] for line in logged if line["log_level"] == "error"} == {"partner", "filed"}


async def test_one_that_is_slow_keeps_no_other_waiting(tmp_path: Path, corp: Okta, partner: Okta) -> None:
    desk = Desk(tmp_path, read("corp", corp), read("partner", partner))
    # Another process reads partner's for as long as this lasts.
    assert await desk.broker.acquire("directory reading of partner", 60.0) is not None

    async def corp_is_read() -> bool:
        return "corp" in await desk.runs()

    await desk.service.start()
    try:
        await desk.until(corp_is_read)
    finally:
        await desk.service.stop()
    assert await desk.users("partner") == {}


async def test_user_is_looked_up_only_at_their_own_provider(tmp_path: Path, corp: Okta, partner: Okta) -> None:
    desk = Desk(tmp_path, read("corp", corp), read("partner", partner))
    ann = corp.user_id("ann")
    await desk.service.sync_user(f"partner/{ann}", "")
    assert await desk.users("corp") == {}
    assert [user.name for user in (await desk.users("partner")).values()] == ["Mallory"]
    assert corp.requests == []
    for id in (f"filed/{ann}", f"unknown/{ann}", ann):
        await desk.service.sync_user(id, "")
    assert corp.requests == []
    await desk.service.stop()


async def test_a_directory_that_is_gone_is_measured_no_more(tmp_path: Path) -> None:
    metrics.record_directory_sync("gone", 1000.0, {"users": 3, "groups": 2})
    service = DirectoryService(make_options(tmp_path), MemoryStore())
    await service.start()
    for metric in (metrics.directory_last_success, metrics.directory_entries):
        assert "gone" not in {sample.labels["provider"] for sample in metric.collect()[0].samples}
    assert service.readiness().reason == "none is configured"
