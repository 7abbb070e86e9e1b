"""The elected worker: each session in its time, through trouble, and never signed out before its token has expired."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from databroker.leader_election import run_elected
from databroker.records import SESSION, Record
from foundation.errors import BrokerError
from tests.support.eventually import eventually
from tests.support.fake_idp import Answer
from tests.support.session_refresh import RefreshEnvironment


@asynccontextmanager
async def working(process: RefreshEnvironment) -> AsyncIterator[None]:
    task = asyncio.create_task(process.worker.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_sessions_are_refreshed_a_minute_before_and_not_earlier(one: RefreshEnvironment) -> None:
    await one.signed_in(id="before")
    async with working(one):
        await one.signed_in(id="after")
        await eventually(lambda: len(one.worker._schedule) == 2)
        assert one.idp.refreshed == 0
        one.clock.ahead = 3541
        await eventually(lambda: one.idp.refreshed == 2)
        await eventually(lambda: not one.worker._running)
        one.clock.ahead = 3541 + 3000
        await asyncio.sleep(0.03)
    assert (one.idp.refreshed, one.idp.reused) == (2, 0)


async def test_claims_are_read_at_the_interval(one: RefreshEnvironment) -> None:
    await one.signed_in()
    one.idp.bend.userinfo = {"name": "Alice Brown"}
    async with working(one):
        await eventually(lambda: len(one.worker._schedule) == 1)
        one.clock.ahead = 601
        await eventually(lambda: _named(one, "Alice Brown"))
    assert one.idp.refreshed == 0


async def test_outage_ends_no_session_before_token_expires(one: RefreshEnvironment) -> None:
    await one.signed_in()
    one.idp.bend.answers["/token"] = Answer(500)
    async with working(one):
        one.clock.ahead = 3545
        await eventually(lambda: _in_trouble(one))
        one.clock.ahead = 3590
        await eventually(lambda: one.worker._failures["session"].count == 2)
        assert await one.session() is not None
        one.idp.bend.answers.clear()
        one.clock.ahead = 3605  # the last try comes when the token expires
        await eventually(lambda: one.idp.refreshed == 1)
        await eventually(lambda: not one.worker._failures)
        assert await one.session() is not None


async def test_a_token_that_expired_in_trouble_ends_the_session(one: RefreshEnvironment) -> None:
    await one.signed_in()
    one.idp.bend.answers["/token"] = Answer(500)
    async with working(one):
        one.clock.ahead = 3545
        await eventually(lambda: _in_trouble(one))
        one.clock.ahead = 3620
        await eventually(lambda: _ended(one))


@pytest.mark.parametrize(
    ("answer", "not_before"),
    [(Answer.json({"error": "invalid_token"}, 401), 120), (Answer(403), 180), (Answer(500), 180)],
    ids=["refused", "forbidden", "in trouble"],
)
async def test_renewed_grant_alone_confirms_no_user(one: RefreshEnvironment, answer: Answer, not_before: int) -> None:
    """Some providers renew a blocked user's tokens, although userinfo refuses them. The first refresh is due after 60 of 120 seconds."""
    one.idp.lifetime = 120
    await one.signed_in()
    one.idp.bend.answers["/userinfo"] = answer
    async with working(one):
        for ahead in range(0, 600, 10):
            one.clock.ahead = ahead
            await asyncio.sleep(0.05)
            if ahead >= not_before and await one.session() is None:
                break
            assert await one.session() is not None
        await eventually(lambda: _ended(one))
    assert one.idp.refreshed > 1


async def test_after_a_pause_provider_is_retried_for_a_minute_first(one: RefreshEnvironment) -> None:
    await one.signed_in()
    one.clock.ahead = 20_000  # long past the token's expiry
    one.idp.bend.answers["/token"] = Answer(500)
    async with working(one):
        await eventually(lambda: _in_trouble(one))
        assert await one.session() is not None
        one.clock.ahead += 61
        await eventually(lambda: _ended(one))


async def test_a_provider_that_ends_the_grant_ends_the_session(one: RefreshEnvironment) -> None:
    await one.signed_in(refresh_token="revoked")
    async with working(one):
        one.clock.ahead = 3545
        await eventually(lambda: _ended(one))
    assert len(one.worker._schedule) == 0


async def test_signed_out_session_is_not_refreshed(one: RefreshEnvironment) -> None:
    await one.signed_in()
    async with working(one):
        await eventually(lambda: len(one.worker._schedule) == 1)
        await one.broker.delete(SESSION, "session")
        await eventually(lambda: len(one.worker._schedule) == 0)
        one.clock.ahead = 3545
        await asyncio.sleep(0.03)
    assert one.idp.refreshed == 0


async def test_two_processes_elect_one(processes: list[RefreshEnvironment]) -> None:
    for number in range(20):
        await processes[0].signed_in(id=f"s{number}")
    processes[0].clock.ahead = 3545
    elections = [asyncio.create_task(run_elected(process.broker, "session refresh", process.worker.run)) for process in processes]
    await eventually(lambda: processes[0].idp.refreshed >= 20)
    await asyncio.sleep(0.03)
    for election in elections:
        election.cancel()
    await asyncio.wait(elections)
    assert (processes[0].idp.refreshed, processes[0].idp.reused) == (20, 0)


async def test_an_answer_under_way_is_written_down_at_the_end(one: RefreshEnvironment) -> None:
    await one.signed_in()
    one.clock.ahead = 3545
    answer = one.idp.bend.holds["/token"] = asyncio.Event()
    async with working(one):
        await eventually(lambda: one.worker._running)
        assert "1 under way" in repr(one.worker)
        answer.set()
    session = await one.session()
    assert session is not None
    assert session.tokens_received_at > 0


async def test_broker_failure_drops_no_session(one: RefreshEnvironment) -> None:
    await one.signed_in()
    get, failures = one.broker.get, iter(range(2))

    async def stumbling(type: str, id: str) -> Record | None:
        if next(failures, None) is not None:
            raise BrokerError("away")
        return await get(type, id)

    async with working(one):
        await eventually(lambda: len(one.worker._schedule) == 1)
        one.broker.get = stumbling
        one.clock.ahead = 3545
        await eventually(lambda: one.worker._failures and len(one.worker._schedule) == 1)
        one.clock.ahead = 3595
        await eventually(lambda: one.idp.refreshed >= 1)
    assert await one.session() is not None


async def test_malformed_record_does_not_block_others(one: RefreshEnvironment) -> None:
    await one.broker.put(SESSION, "bad", {"what": 1})
    await one.signed_in()
    async with working(one):
        one.clock.ahead = 3545
        await eventually(lambda: one.idp.refreshed == 1)


async def _in_trouble(one: RefreshEnvironment) -> bool:
    return "1 failing" in repr(one.worker)


async def _ended(one: RefreshEnvironment) -> bool:
    return await one.session() is None


async def _named(one: RefreshEnvironment, name: str) -> bool:
    session = await one.session()
    return session is not None and session.claims["name"] == name
