"""One reading: all or nothing, alone, and in the history with what came of it."""

import asyncio

import pytest

from authenticate.directory import sync_run
from authenticate.directory.snapshot import DirectorySnapshot, TimeBudget
from authenticate.directory.sync_run import COMMAND, SyncOptions, SyncRun
from databroker.leader_election import LeaseHeldElsewhere
from databroker.records import DIRECTORY_RUN, DIRECTORY_USER, DirectoryRunRecord, DirectoryUser
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError, ProviderError
from tests.support.providers import a_provider


class Held:
    """Source of `users` users, which waits for `may_answer`."""

    def __init__(self, users: int = 3):
        self.users = users
        self.error: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    provider = a_provider("okta")

    def __str__(self) -> str:
        return "held"

    async def fetch(self, budget: TimeBudget) -> DirectorySnapshot:
        budget.requests += 2
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        users = [DirectoryUser(f"okta/{number}") for number in range(self.users)]
        return DirectorySnapshot({user.id: user for user in users}, {})


class Desk:
    def __init__(self) -> None:
        self.now = 1000.0
        self.broker = MemoryStore(lambda: self.now)
        self.source = Held()

    async def read(self, options: SyncOptions | None = None, timeout: float = 60.0) -> DirectoryRunRecord:
        self.now += 10
        return await SyncRun(self.source, self.broker, timeout, lambda: self.now, options or SyncOptions()).run()

    async def known(self) -> int:
        return len(await self.broker.page(DIRECTORY_USER, "", 1000))

    async def history(self) -> list[DirectoryRunRecord]:
        return [DirectoryRunRecord.from_record(record) for record in await self.broker.page(DIRECTORY_RUN, "", 1000)]


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def test_history_reports_each_outcome(desk: Desk) -> None:
    await desk.read()
    desk.source.users = 2
    await desk.read(SyncOptions(COMMAND))
    desk.source.error = ProviderError("no")
    await desk.read()
    facts = [(run.triggered_by, run.users, run.added, run.changed, run.removed, run.requests, run.error) for run in await desk.history()]
    assert facts == [
        ("schedule", 3, 3, 0, 0, 2, ""),
        ("syncdirectory", 2, 0, 0, 1, 2, ""),
        ("schedule", 0, 0, 0, 0, 2, "no"),
    ]
    assert await desk.known() == 2


async def test_the_history_has_a_bound(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_run, "MAX_RUNS", 3)
    for _ in range(6):
        await desk.read()
    assert [run.started_at for run in await desk.history()] == [1040.0, 1050.0, 1060.0]


async def test_more_than_half_gone_stops_it_unless_by_force(desk: Desk) -> None:
    await desk.read()
    desk.source.users = 1
    assert "2 of 3 users would be removed" in (await desk.read()).error
    assert await desk.known() == 3
    assert (await desk.read(SyncOptions(force=True))).removed == 2
    assert await desk.known() == 1


async def test_a_dry_run_shows_and_writes_nothing(desk: Desk) -> None:
    progress: list[int] = []
    run = await desk.read(SyncOptions(dry_run=True, on_diff=lambda changes: progress.append(len(changes))))
    assert (run.added, progress) == (3, [3])
    assert await desk.known() == 0
    assert await desk.history() == []


async def test_only_one_reads_at_a_time(desk: Desk) -> None:
    desk.source.may_answer.clear()
    first = asyncio.create_task(desk.read())
    for _ in range(100):
        await asyncio.sleep(0)
    with pytest.raises(LeaseHeldElsewhere):
        await desk.read(timeout=0.01)
    desk.source.may_answer.set()
    assert (await first).error == ""
    assert (await desk.read()).error == ""


async def test_it_ends_when_its_time_is_over(desk: Desk) -> None:
    desk.source.may_answer.clear()
    asyncio.get_running_loop().call_later(3, desk.source.may_answer.set)  # releases a sync that has no deadline
    assert "idp_refresh_directory_timeout" in (await desk.read(timeout=0.01)).error
    assert await desk.known() == 0


async def test_broker_failure_midway_is_reported(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*arguments: object, **options: object) -> None:
        raise BrokerError("away")

    monkeypatch.setattr(desk.broker, "put", away)
    assert (await desk.read()).error == "away"
