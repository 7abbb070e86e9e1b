"""Upstreams get the person's own tokens, fresh, after one refresh for all that wait; or the request is refused in words."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authorize.policy.compiled_route import CompiledRoute, compile_route
from authorize.policy.identity import Identity
from authorize.upstream.provider_token_headers import ProviderTokens, SessionTokens
from databroker.records import SESSION, TOKEN_REFRESH_REQUEST, SessionRecord
from databroker.store.memory import MemoryStore
from foundation.errors import NoIdentity, UpstreamCredentialsUnavailable
from tests.support.authenticate_site import Clock
from tests.support.fake_idp import Answer, FakeIdP
from tests.support.options import make_options
from tests.support.session_refresh import RefreshEnvironment
from tests.unit.authorize.builders import make_route, user


def route_of(**headers: str) -> CompiledRoute:
    keys = {"to": "https://up", "pass_provider_tokens": True, "allow_any_authenticated_user": True}
    return compile_route(make_route(**{**keys, "set_request_headers": headers}), "policy[0]")


ACCESS = route_of(Authorization="Bearer ${access_token}")
ID = route_of(**{"X-Id": "${id_token}"})
BOTH = route_of(**{"X-Access": "${access_token}", "X-Id": "a $$ ${id_token} z"})


class Stage:
    def __init__(self, directory: Path, renewals: RefreshEnvironment):
        self.renewals = renewals
        self.idp, self.clock = renewals.idp, renewals.clock
        self.options = make_options(directory, idp_provider_url=renewals.idp.issuer)

    def tokens(self, route: CompiledRoute) -> ProviderTokens:
        return ProviderTokens(self.options, [route], self.renewals.broker, self.clock)

    async def change(self, **changes: Any) -> SessionRecord:
        session = await self.renewals.session()
        assert session is not None
        session = replace(session, **changes)
        await self.renewals.broker.put(SESSION, session.id, session.to_data(), expires=session.expires_at)
        return session


@pytest.fixture
async def idp() -> AsyncIterator[FakeIdP]:
    idp = await FakeIdP.started()
    yield idp
    await idp.stop()


@pytest.fixture
async def stage(tmp_path: Path, idp: FakeIdP) -> AsyncIterator[Stage]:
    clock = Clock()
    renewals = RefreshEnvironment(tmp_path, idp, MemoryStore(clock), clock)
    yield Stage(tmp_path, renewals)
    await renewals.close()


@asynccontextmanager
async def refreshing(renewals: RefreshEnvironment) -> AsyncIterator[None]:
    """The elected process only handles requests, because its schedule does not run."""
    task = asyncio.create_task(renewals.worker._follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await renewals.worker._drain()


def ann() -> Identity:
    return user(session_id="session")


async def test_both_tokens_are_in_configured_headers(stage: Stage) -> None:
    session = await stage.renewals.signed_in()
    assert await stage.tokens(BOTH).headers_for(BOTH, ann()) == (
        (b"x-access", session.access_token.encode()),
        (b"x-id", b"a $ " + session.id_token.encode() + b" z"),
    )
    assert await stage.tokens(ACCESS).headers_for(ACCESS, ann()) == ((b"authorization", b"Bearer " + session.access_token.encode()),)
    assert stage.idp.refreshed == 0


@pytest.mark.parametrize("ahead", [3575, 3601, 7200])
async def test_an_old_token_is_refreshed_once_for_all_that_wait(stage: Stage, ahead: int) -> None:
    before = await stage.renewals.signed_in()
    several = [stage.tokens(ACCESS), stage.tokens(ACCESS)]  # as in two processes
    stage.clock.ahead = ahead
    async with refreshing(stage.renewals):
        identity = ann()
        found = await asyncio.gather(*(tokens.headers_for(ACCESS, identity) for tokens in several for _ in range(20)))
    after = await stage.renewals.session()
    assert after is not None
    assert after.access_token != before.access_token
    assert set(found) == {((b"authorization", b"Bearer " + after.access_token.encode()),)}
    assert (stage.idp.refreshed, stage.idp.reused) == (1, 0)


async def test_an_id_token_is_refreshed_while_the_access_token_lasts(stage: Stage) -> None:
    before = await stage.renewals.signed_in()
    await stage.change(access_token_expires_at=stage.clock() + 40_000)
    stage.clock.ahead = 7200
    async with refreshing(stage.renewals):
        ((_, token_header),) = await stage.tokens(ID).headers_for(ID, ann())
    assert token_header != before.id_token.encode()
    assert stage.idp.refreshed == 1


async def test_an_id_token_that_is_not_verified_yet_is_waited_for(stage: Stage) -> None:
    """A refresh writes what it was given before it asks for the keys, so that a refresh token that works once is not lost."""
    await stage.renewals.signed_in()
    half = await stage.change(
        access_token_expires_at=stage.clock() + 40_000, tokens_received_at=stage.clock() + 7200, unverified_id_token="new"
    )
    held = SessionTokens.from_session(half)
    assert held.is_due("id_token", stage.clock() + 7201)
    assert not held.cannot_be_refreshed("id_token", stage.clock() + 7201)
    assert SessionTokens.from_session(replace(half, unverified_id_token="")).cannot_be_refreshed("id_token", stage.clock() + 7201)


async def test_refresh_without_id_token_is_tried_once(stage: Stage) -> None:
    await stage.renewals.signed_in()
    await stage.change(access_token_expires_at=stage.clock() + 40_000, tokens_received_at=stage.clock() + 7000)
    stage.clock.ahead = 7200
    with pytest.raises(NoIdentity, match="ID token, which has expired"):
        await stage.tokens(ID).headers_for(ID, ann())
    assert stage.idp.refreshed == 0


async def test_without_a_refresh_token_a_token_is_used_to_its_end_and_no_further(stage: Stage) -> None:
    session = await stage.renewals.signed_in(refresh_token="")
    tokens, identity = stage.tokens(ACCESS), ann()
    stage.clock.ahead = 3590
    assert await tokens.headers_for(ACCESS, identity) == ((b"authorization", b"Bearer " + session.access_token.encode()),)
    stage.clock.ahead = 3601
    with pytest.raises(NoIdentity, match="sign out"):
        await tokens.headers_for(ACCESS, identity)


async def test_failed_refresh_is_not_retried_immediately(stage: Stage) -> None:
    await stage.renewals.signed_in()
    stage.idp.bend.answers["/token"] = Answer(500)
    stage.clock.ahead = 3601
    tokens = stage.tokens(ACCESS)
    async with refreshing(stage.renewals):
        for _ in range(3):
            with pytest.raises(UpstreamCredentialsUnavailable, match="no new token"):
                await tokens.headers_for(ACCESS, ann())
    assert len([request for request in stage.idp.requests if request.path == "/token"]) <= 2
    assert await stage.renewals.broker.get(TOKEN_REFRESH_REQUEST, "session") is None


async def test_a_session_that_the_refresh_ends_has_no_token(stage: Stage) -> None:
    await stage.renewals.signed_in()
    stage.idp.bend.answers["/token"] = Answer.json({"error": "invalid_grant"}, 400)
    stage.clock.ahead = 3601
    async with refreshing(stage.renewals):
        with pytest.raises(NoIdentity, match="not signed in"):
            await stage.tokens(ACCESS).headers_for(ACCESS, ann())


@pytest.mark.parametrize(
    "token", ["", "a b", "a\r\nX-Admin: 1", "a\0", "é", "a" * 16_385], ids=["none", "blank", "line", "NUL", "letter", "long"]
)
async def test_malformed_token_is_not_sent(stage: Stage, token: str) -> None:
    await stage.renewals.signed_in(access_token=token)
    with pytest.raises(NoIdentity, match="passed on"):
        await stage.tokens(ACCESS).headers_for(ACCESS, ann())


async def test_user_of_other_provider_has_no_token(stage: Stage) -> None:
    await stage.renewals.signed_in()
    for identity in (user(session_id="another"), user(session_id="bearer/x")):
        with pytest.raises(NoIdentity, match="not signed in"):
            await stage.tokens(ACCESS).headers_for(ACCESS, identity)
    await stage.change(issuer="https://elsewhere.example")
    with pytest.raises(NoIdentity, match="not signed in"):
        await stage.tokens(ACCESS).headers_for(ACCESS, ann())


async def test_anonymous_header_is_omitted_and_authorization_rejected(stage: Stage) -> None:
    assert await stage.tokens(BOTH).headers_for(BOTH, None) == ()
    with pytest.raises(NoIdentity, match="signed-in user"):
        await stage.tokens(ACCESS).headers_for(ACCESS, None)


async def test_a_changed_record_is_read_again_and_a_session_that_ended_gives_nothing(stage: Stage) -> None:
    await stage.renewals.signed_in()
    tokens = stage.tokens(ACCESS)
    await tokens.headers_for(ACCESS, ann())
    await stage.change(access_token="another")
    assert await tokens.headers_for(ACCESS, ann()) == ((b"authorization", b"Bearer another"),)
    await stage.renewals.broker.delete(SESSION, "session")
    with pytest.raises(NoIdentity):
        await tokens.headers_for(ACCESS, ann())


async def test_tokens_are_neither_logged_nor_displayed(stage: Stage) -> None:
    session = await stage.renewals.signed_in(access_token="the-marker")
    stage.idp.bend.answers["/token"] = Answer(500)
    tokens = stage.tokens(ACCESS)
    await tokens.headers_for(ACCESS, ann())
    stage.clock.ahead = 3601
    with capture_logs() as logs:
        async with refreshing(stage.renewals):
            with pytest.raises(UpstreamCredentialsUnavailable) as refused:
                await tokens.headers_for(ACCESS, ann())
    text = f"{logs} {refused.value!r} {tokens!r} {SessionTokens.from_session(session)!r}"
    assert logs
    assert "the-marker" not in text
    assert session.id_token not in text


async def test_route_without_tokens_needs_no_broker(stage: Stage) -> None:
    plain = compile_route(make_route(), "policy[0]")
    tokens = ProviderTokens(stage.options, [plain], None, time.time)
    assert await tokens.headers_for(plain, ann()) == ()
