"""Sessions that a logout by the provider ends, and the part of it that gate stores."""

import asyncio
from unittest.mock import patch

import pytest

from authenticate.session import provider_initiated_logout
from authenticate.session.session_index import MAX_SIGN_IN_SECONDS
from authenticate.session.session_service import LoggedOutDuringSignIn
from databroker.records import LOGOUT_MARKER, SESSION
from foundation.errors import BadRequest, BrokerError, ProviderError
from tests.support.authenticate_site import Browser, Site
from tests.support.fake_idp import ABSENT

SID = "a-session-of-the-provider"


async def signed_in(site: Site, sub: str = "alice", sid: object = SID) -> Browser:
    site.idp.bend.claims = {"sid": sid}
    browser = site.browser()
    await browser.sign_in(sub)
    return browser


async def people(site: Site) -> list[tuple[str, object]]:
    return sorted((record.data["subject"], record.data["claims"].get("sid")) for record in await site.sessions())


async def test_a_sid_ends_its_sessions_and_no_others(site: Site) -> None:
    await signed_in(site)
    await signed_in(site)
    await signed_in(site, sid="another-session-of-hers")
    await signed_in(site, "bob", sid="a-session-of-his")
    assert await site.service.provider_logout.back_channel(site.idp.logout_token(sid=SID)) == 2
    assert await people(site) == [("alice", "another-session-of-hers"), ("bob", "a-session-of-his")]


async def test_a_subject_ends_all_its_sessions(site: Site) -> None:
    await signed_in(site)
    await signed_in(site, sid=ABSENT)
    await signed_in(site, "bob")
    assert await site.service.provider_logout.back_channel(site.idp.logout_token(sub="alice")) == 2
    assert await people(site) == [("bob", SID)]


async def test_sid_of_another_user_ends_nothing(site: Site) -> None:
    await signed_in(site)
    assert await site.service.provider_logout.back_channel(site.idp.logout_token(sid=SID, sub="bob")) == 0
    assert len(await site.sessions()) == 1


async def test_a_token_is_used_once(site: Site) -> None:
    token = site.idp.logout_token(sid=SID)
    await signed_in(site)
    assert await site.service.provider_logout.back_channel(token) == 1
    site.clock.ahead = 5
    await signed_in(site)
    with pytest.raises(ProviderError, match="used before"):
        await site.service.provider_logout.back_channel(token)
    assert len(await site.sessions()) == 1


async def test_token_rejected_by_internal_failure_can_be_retried(site: Site) -> None:
    token = site.idp.logout_token(sid=SID)
    await signed_in(site)
    logout = site.service.provider_logout
    with patch.object(site.broker, "delete", side_effect=BrokerError("away")), pytest.raises(BrokerError):
        await logout.back_channel(token)
    assert len(await site.sessions()) == 1
    assert await logout.back_channel(token) == 1
    with pytest.raises(ProviderError, match="used before"):
        await logout.back_channel(token)


@pytest.mark.parametrize("channel", ["back", "front"])
async def test_a_sign_in_that_was_under_way_ends_too(channel: str, site: Site) -> None:
    """The provider ends what it has just begun: the ID token is older than the word, the session younger."""
    site.idp.bend.claims = {"sid": SID, "iat": int(site.clock()) - 1}
    browser = site.browser()
    url = site.idp.pick(await browser.to_provider(), "alice")
    logout = site.service.provider_logout
    await (logout.back_channel(site.idp.logout_token(sid=SID)) if channel == "back" else logout.front_channel(site.idp.issuer, SID))
    response = await browser.get(url)
    assert response.status == 400
    assert "signed out at" in response.text
    assert "_gate" not in browser.cookies
    assert await site.sessions() == []


async def test_strangers_have_only_so_many_sign_outs_noted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_initiated_logout, "MAX_MARKS", 3)
    for number in range(5):
        await site.service.provider_logout.front_channel(site.idp.issuer, f"{SID}-{number}")
    assert len(await site.broker.page(LOGOUT_MARKER, "", 100)) == 3
    site.clock.ahead = MAX_SIGN_IN_SECONDS + 1
    await site.service.provider_logout.front_channel(site.idp.issuer, f"{SID}-later")
    assert len(await site.broker.page(LOGOUT_MARKER, "", 100)) == 1


async def test_whichever_comes_first_no_session_is_left(site: Site) -> None:
    """The two run at the same time, in every order that the steps of one leave to the other."""
    for lead in range(6):
        site.idp.bend.claims = {"sid": f"{SID}-{lead}", "iat": int(site.clock()) - 1}
        browser = site.browser()
        url = site.idp.pick(await browser.to_provider(), "alice")
        token = site.idp.logout_token(sid=f"{SID}-{lead}")
        sign_in = asyncio.create_task(browser.get(url))
        for _ in range(lead * 50):
            await asyncio.sleep(0)
        await site.service.provider_logout.back_channel(token)
        await sign_in
        assert await site.sessions() == []


async def test_create_is_explicit(site: Site) -> None:
    await signed_in(site)
    (record,) = await site.sessions()
    await site.service.provider_logout.back_channel(site.idp.logout_token(sub="alice", iat=int(site.clock()) + 30))
    site.idp.bend.claims = {"sid": ABSENT}
    browser = site.browser()
    assert (await browser.sign_in()).status == 400
    assert await site.broker.get(SESSION, record.id) is None
    assert LoggedOutDuringSignIn.status == 400


async def test_browser_ends_sessions_by_id(site: Site) -> None:
    await signed_in(site)
    await signed_in(site, sid="short")
    logout = site.service.provider_logout
    assert await logout.front_channel(site.idp.issuer, "a-session-of-somebody-else") == 0
    for issuer, sid in ((site.idp.issuer, ""), (site.idp.issuer, "short"), ("https://evil.example", SID), ("", SID)):
        with pytest.raises(BadRequest):
            await logout.front_channel(issuer, sid)
    assert len(await site.sessions()) == 2
    assert await logout.front_channel(site.idp.issuer, SID) == 1
    assert await people(site) == [("alice", "short")]
