"""A sign-out at the provider of which it sends one `sid`: whatever else of the user's has ended there, ends here."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from authenticate.session import other_session_refresh
from databroker.records import TOKEN_REFRESH_REQUEST
from tests.support.authenticate_site import Site
from tests.support.eventually import eventually
from tests.support.fake_idp import ABSENT, Answer
from tests.support.fake_keycloak import FakeKeycloak


@pytest.fixture
async def idp() -> AsyncIterator[FakeKeycloak]:
    provider = await FakeKeycloak.started()
    assert isinstance(provider, FakeKeycloak)
    yield provider
    await provider.stop()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_session_refresh, "DELAYS", (0.0, 0.0))


async def signed_in(site: Site, *people: str) -> list[str]:
    """Sign each user in with a separate browser, and return their sessions at the provider."""
    for username in people:
        await site.browser().sign_in(username)
    return await sids(site)


async def sids(site: Site, username: str = "alice") -> list[str]:
    records = sorted(await site.sessions(), key=lambda record: record.data["issued_at"])
    return [record.data["claims"]["sid"] for record in records if record.data["subject"] == username]


async def until_signed_out(site: Site, username: str = "alice") -> None:
    async with asyncio.timeout(20):
        while await sids(site, username):
            await asyncio.sleep(0.01)


async def until_done(site: Site) -> None:
    await eventually(lambda: not site.service.provider_logout._others._pending)
    async with asyncio.timeout(20):
        while await site.broker.page(TOKEN_REFRESH_REQUEST, "", 1):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("has_subject", [True, False], ids=["sid and sub", "sid alone"])
async def test_all_sessions_that_ended_there_end(site: Site, idp: FakeKeycloak, has_subject: bool) -> None:
    first, *others = await signed_in(site, "alice", "alice", "alice", "bob")
    for sid in (first, *others):
        idp.end_session(sid)
    token = idp.logout_token(sid=first, sub="alice" if has_subject else ABSENT)
    assert await site.service.provider_logout.back_channel(token) == 1
    await until_signed_out(site)
    assert len(await sids(site, "bob")) == 1
    assert idp.refreshed == 0, "bob's was refreshed"


async def test_a_sid_that_was_never_here_counts_as_well(site: Site, idp: FakeKeycloak) -> None:
    (only,) = await signed_in(site, "alice")
    idp.end_session(only)
    assert await site.service.provider_logout.back_channel(idp.logout_token(sid="of-another-client", sub="alice")) == 0
    await until_signed_out(site)


async def test_a_browser_that_signs_out_has_the_others_refreshed(site: Site, idp: FakeKeycloak) -> None:
    idp.bend.claims = {"sid": "a-session-that-nobody-guesses"}
    await signed_in(site, "alice")
    idp.bend.claims = {}
    _, other = await signed_in(site, "alice")
    idp.end_session(other)
    assert await site.service.provider_logout.front_channel(idp.issuer, "a-session-that-nobody-guesses") == 1
    await until_signed_out(site)


async def test_those_that_go_on_there_go_on(site: Site, idp: FakeKeycloak) -> None:
    first, *others = await signed_in(site, "alice", "alice", "alice")
    idp.end_session(first)
    await site.service.provider_logout.back_channel(idp.logout_token(sid=first))
    await eventually(lambda: idp.refreshed >= len(others))
    await until_done(site)
    assert await sids(site) == others


async def test_provider_that_ends_other_tokens_later_is_retried(site: Site, idp: FakeKeycloak, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_session_refresh, "DELAYS", (0.0, 0.5))
    first, other = await signed_in(site, "alice", "alice")
    idp.end_session(first)
    await site.service.provider_logout.back_channel(idp.logout_token(sid=first))
    await eventually(lambda: idp.refreshed == 1)
    idp.end_session(other)
    await until_signed_out(site)


async def test_second_sign_out_reaches_sessions_started_after_the_first(
    site: Site, idp: FakeKeycloak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_session_refresh, "DELAYS", (0.1, 0.1))
    first, second = await signed_in(site, "alice", "alice")
    idp.end_session(first)
    await site.service.provider_logout.back_channel(idp.logout_token(sid=first))
    *_, later = await signed_in(site, "alice")
    for sid in (second, later):
        idp.end_session(sid)
    await site.service.provider_logout.back_channel(idp.logout_token(sid=second))
    await until_signed_out(site)


async def test_many_sign_outs_of_one_user_are_one_work(site: Site, idp: FakeKeycloak) -> None:
    first, second, third = await signed_in(site, "alice", "alice", "alice")
    for sid in (first, second):
        idp.end_session(sid)
        await site.service.provider_logout.back_channel(idp.logout_token(sid=sid))
    assert len(site.service.provider_logout._others._pending) <= 1
    await until_done(site)
    assert await sids(site) == [third]
    assert idp.refreshed <= 2 * len(other_session_refresh.DELAYS)


@pytest.mark.parametrize("is_over", [True, False])
async def test_without_a_refresh_token_the_access_token_is_tried(site: Site, idp: FakeKeycloak, is_over: bool) -> None:
    idp.bend.tokens = {"refresh_token": ABSENT}
    first, other = await signed_in(site, "alice", "alice")
    path, before = "/userinfo", idp.count("/userinfo")
    if is_over:
        idp.bend.answers[path] = Answer.json({"error": "invalid_token"}, 401)
    await site.service.provider_logout.back_channel(idp.logout_token(sid=first))
    await eventually(lambda: idp.count(path) > before)
    await until_done(site)
    assert await sids(site) == ([] if is_over else [other])
