"""Wishes for fresh tokens: each is fulfilled once, also where another refresh is under way, and is gone when nothing more will come."""

import asyncio
from typing import Any

import pytest

from authenticate.session.refresh_requests import RefreshRequests
from databroker.records import TOKEN_REFRESH_REQUEST
from tests.support.fake_idp import Answer
from tests.support.session_refresh import RefreshEnvironment


async def wish(renewals: RefreshEnvironment, wanted: RefreshRequests, id: str = "session", **data: Any) -> None:
    wanted.handle(await renewals.broker.put(TOKEN_REFRESH_REQUEST, id, data))


async def fulfilled(renewals: RefreshEnvironment, wanted: RefreshRequests) -> None:
    await asyncio.wait(set(wanted.running.values()))
    assert await renewals.broker.get(TOKEN_REFRESH_REQUEST, "session") is None


async def test_tokens_that_are_not_due_are_refreshed_and_later_ones_are_left_alone(one: RefreshEnvironment) -> None:
    await one.signed_in()
    wanted = RefreshRequests(one.refresh, one.broker)
    for _ in range(2):  # the second is equal, and too late
        await wish(one, wanted, tokens_received_at=0.0)
        await fulfilled(one, wanted)
    assert (one.idp.refreshed, one.idp.reused) == (1, 0)


async def test_a_wish_waits_for_a_refresh_that_is_under_way(one: RefreshEnvironment) -> None:
    await one.signed_in()
    wanted = RefreshRequests(one.refresh, one.broker)
    lease = await one.broker.acquire("session refresh/session", 60.0)
    assert lease is not None
    await wish(one, wanted, tokens_received_at=0.0)
    await asyncio.sleep(0)
    await one.broker.release(lease)
    await fulfilled(one, wanted)
    assert one.idp.refreshed == 1


@pytest.mark.parametrize(("provider", "is_held_up"), [("oidc", True), ("partner", False)])
async def test_a_slow_provider_holds_up_its_own_refreshes_alone(one: RefreshEnvironment, provider: str, is_held_up: bool) -> None:
    await one.signed_in("bob", "slow", provider=provider)
    await one.signed_in()
    wanted = RefreshRequests(one.refresh, one.broker, concurrency=1)
    lease = await one.broker.acquire("session refresh/slow", 60.0)
    assert lease is not None
    await wish(one, wanted, "slow", tokens_received_at=0.0)
    await wish(one, wanted, tokens_received_at=0.0)
    await asyncio.wait({wanted.running["session"]}, timeout=0.5 if is_held_up else 5.0)
    assert ("session" in wanted.running, one.idp.refreshed) == (is_held_up, 0 if is_held_up else 1)
    await one.broker.release(lease)
    await asyncio.wait(set(wanted.running.values()))
    assert wanted.running == {}


async def test_a_wish_that_can_not_be_fulfilled_is_gone_and_the_session_goes_on(one: RefreshEnvironment) -> None:
    await one.signed_in()
    one.idp.bend.answers["/token"] = Answer(500)
    wanted = RefreshRequests(one.refresh, one.broker)
    await wish(one, wanted, tokens_received_at=0.0)
    await fulfilled(one, wanted)
    assert await one.session() is not None


async def test_malformed_requests_and_requests_for_unknown_sessions_are_dropped(one: RefreshEnvironment) -> None:
    wanted = RefreshRequests(one.refresh, one.broker)
    for data in ({}, {"tokens_received_at": 0.0}):
        await wish(one, wanted, **data)
        await fulfilled(one, wanted)


async def test_a_wish_that_came_before_the_elected_process_is_found(one: RefreshEnvironment) -> None:
    await one.signed_in()
    await one.broker.put(TOKEN_REFRESH_REQUEST, "session", {"tokens_received_at": 0.0})
    await one.worker._load_all()
    await fulfilled(one, one.worker._refresh_requests)
    assert one.idp.refreshed == 1
