"""Linked accounts at the authenticate host: sessions that a user sees and ends, and the end of a session whose address changed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler

from authenticate import background_work
from authenticate.session.linked_account_index import LinkedAccountIndexer
from authenticate.session.session_refresh import RefreshStep, SessionEnded
from authenticate.session.session_service import SessionService
from authenticate.views.profile import build_user_profile
from config.settings.linked_accounts import VERIFIED_EMAIL
from databroker.records import DIRECTORY_USER, SESSION, DirectoryUser, SessionRecord
from tests.support.authenticate_site import ORIGIN, Browser
from tests.support.fake_idp import ABSENT, FakeIdP
from tests.support.several_providers import SeveralSite, entry
from tests.unit.authenticate.test_several_providers import to

IDS = ("corp", "partner", "third")
ANN, BEN = "ann@shared.example", "ben@shared.example"
LINKED: dict[str, Any] = {"link_by": VERIFIED_EMAIL, "domains": ["shared.example"]}


@pytest.fixture
async def idps() -> AsyncIterator[dict[str, FakeIdP]]:
    started = {id: await FakeIdP.started() for id in IDS}
    yield started
    for idp in started.values():
        await idp.stop()


@pytest.fixture
async def site(tmp_path: Path, idps: dict[str, FakeIdP], django_pages: ASGIHandler) -> AsyncIterator[SeveralSite]:
    """The third provider may assert the same addresses, and links none."""
    entries = [entry(id, idp, **(LINKED if id != "third" else {"domains": ["shared.example"]})) for id, idp in idps.items()]
    site = SeveralSite(tmp_path, idps, django_pages, identity_providers=entries)
    await site.service.start()
    yield site
    await site.service.stop()


def set_address(site: SeveralSite, id: str, email: str, verified: object = True) -> None:
    """Set the claims that this provider asserts for alice from now on."""
    claims = {"email": email, "email_verified": verified}
    site.idps[id].bend.claims, site.idps[id].bend.userinfo = {"sid": f"sid-of-{id}", **claims}, claims


async def signed_in(
    site: SeveralSite, id: str, email: str = ANN, verified: object = True, sub: str = "alice"
) -> tuple[Browser, SessionRecord]:
    browser, known = site.browser(), {record.id for record in await site.sessions()}
    set_address(site, id, email, verified)
    response = await browser.get(site.idps[id].pick(await to(site, browser, id), sub))
    assert response.status == 302, response.text
    (record,) = [record for record in await site.sessions() if record.id not in known]
    return browser, SessionRecord.from_record(record)


async def seen(site: SeveralSite, session: SessionRecord) -> set[str]:
    return {each.id for each in await site.service.sessions.list_for_same_user(session, site.clock())}


async def left(site: SeveralSite) -> set[str]:
    return {record.id for record in await site.sessions()}


async def test_user_sees_and_ends_sessions_of_both_accounts(site: SeveralSite) -> None:
    browser, at_corp = await signed_in(site, "corp")
    _, at_partner = await signed_in(site, "partner", sub="bob")
    _, other = await signed_in(site, "partner", BEN)
    assert at_partner.user_id == "partner/bob"
    assert await seen(site, at_corp) == await seen(site, at_partner) == {at_corp.id, at_partner.id}
    assert (await browser.get(f"{ORIGIN}/.gate/sessions")).text.count('name="end" value="') >= 1
    assert await site.service.sessions.end_all_for(at_corp) == 2
    assert await left(site) == {other.id}


@pytest.mark.parametrize(
    ("id", "email", "verified"),
    [("partner", BEN, True), ("partner", ANN, False), ("third", ANN, True), ("partner", "ann@sub.shared.example", True)],
)
async def test_sessions_of_other_users_are_neither_visible_nor_ended(site: SeveralSite, id: str, email: str, verified: object) -> None:
    _, mine = await signed_in(site, "corp")
    _, foreign = await signed_in(site, id, email, verified, sub="bob")
    for one, other in ((mine, foreign), (foreign, mine)):
        assert await seen(site, one) == {one.id}
        assert await site.service.sessions.get_for_same_user(one, other.id, site.clock()) is None
    assert await site.service.sessions.end_all_for(mine) == 1
    assert await left(site) == {foreign.id}


async def test_session_is_inaccessible_once_its_account_has_another_address(site: SeveralSite) -> None:
    _, mine = await signed_in(site, "corp")
    _, before = await signed_in(site, "partner", sub="bob")
    _, after = await signed_in(site, "partner", BEN, sub="bob")
    assert await seen(site, mine) == {mine.id}
    assert await seen(site, after) == {before.id, after.id}, "of one account they are one person's, as without a link"
    assert await site.service.sessions.end_all_for(mine) == 1
    assert await left(site) == {before.id, after.id}


async def test_a_provider_s_word_ends_its_own_sessions_alone(site: SeveralSite) -> None:
    _, at_corp = await signed_in(site, "corp")
    _, at_partner = await signed_in(site, "partner")
    corp, logout = site.idps["corp"], site.service.provider_logout
    assert await logout.back_channel(corp.logout_token(sid="sid-of-partner")) == 0
    assert await logout.back_channel(corp.logout_token(sub="alice")) == 1
    assert await left(site) == {at_partner.id}
    assert at_corp.id not in await left(site)


@pytest.mark.parametrize(("email", "verified"), [(BEN, True), (ANN, False), ("ann@sub.shared.example", True)])
async def test_refresh_that_changes_the_account_user_ends_session(site: SeveralSite, email: str, verified: object) -> None:
    _, session = await signed_in(site, "corp")
    set_address(site, "corp", email, verified)
    with pytest.raises(SessionEnded, match="the address that links"):
        await site.service.refresh.renew(session.id, RefreshStep.TOKENS, if_received_at=0.0)
    assert await left(site) == set()


@pytest.mark.parametrize(("id", "before", "after"), [("corp", ANN, "ANN@shared.example"), ("third", ANN, BEN), ("corp", ANN, ANN)])
async def test_refresh_that_preserves_the_user_continues(site: SeveralSite, id: str, before: str, after: str) -> None:
    _, session = await signed_in(site, id, before)
    set_address(site, id, after)
    renewed = await site.service.refresh.renew(session.id, RefreshStep.TOKENS, if_received_at=0.0)
    assert renewed.claims["email"] == after
    assert await left(site) == {session.id}


async def test_newly_linked_account_changes_user_and_requires_sign_in(site: SeveralSite) -> None:
    _, session = await signed_in(site, "corp", ANN, verified=False)
    set_address(site, "corp", ANN)
    with pytest.raises(SessionEnded):
        await site.service.refresh.renew(session.id, RefreshStep.TOKENS, if_received_at=0.0)


async def test_two_unidentified_accounts_are_not_one_user(site: SeveralSite) -> None:
    found = [
        (await signed_in(site, id, ANN, verified=False, sub=sub))[1] for id, sub in (("corp", "alice"), ("corp", "bob"), ("third", "bob"))
    ]
    for one in found:
        assert await seen(site, one) == {one.id}
        for other in found:
            assert (await site.service.sessions.get_for_same_user(one, other.id, site.clock()) is None) is (one.id != other.id)


@pytest.mark.parametrize(
    ("id", "email", "verified", "sent"),
    [
        ("corp", ANN, True, (f"{VERIFIED_EMAIL}/{ANN}", ANN)),
        ("corp", ANN, False, ("corp/alice", "")),
        ("corp", "ann@elsewhere.example", True, ("corp/alice", "")),
        ("third", ANN, True, ("third/alice", ANN)),
    ],
)
async def test_users_see_claims_sent_to_applications(
    site: SeveralSite, id: str, email: str, verified: object, sent: tuple[str, str]
) -> None:
    browser, session = await signed_in(site, id, email, verified)
    profile = await build_user_profile(site.service, session)
    assert (profile["released"]["id"], profile["released"]["email"]) == sent
    page = (await browser.get(f"{ORIGIN}/.gate/sessions")).text.partition("Claims from")[0]
    assert sent[0] in page
    assert ("not shared:" in page) is (not sent[1])


@pytest.mark.parametrize("keys", [{"domains": ["shared.example"]}, {"link_by": VERIFIED_EMAIL, "domains": ["shared.example", "a.example"]}])
async def test_accounts_linked_under_live_sessions_are_one_user(
    site: SeveralSite, idps: dict[str, FakeIdP], tmp_path: Path, django_pages: ASGIHandler, keys: dict[str, Any]
) -> None:
    """A reload turns `link_by` on, or widens `domains`."""
    domain = keys["domains"][-1]
    before = [entry("corp", idps["corp"], **keys), entry("partner", idps["partner"], **{**LINKED, "domains": ["shared.example", domain]})]
    if "link_by" not in keys:
        before = [entry(id, idps[id], **keys) for id in ("corp", "partner")]
    else:
        before[0]["domains"] = ["shared.example"]
    reloaded = SeveralSite(tmp_path, idps, django_pages, identity_providers=before)
    address = f"ann@{domain}"
    _, at_corp = await signed_in(reloaded, "corp", address)
    _, at_partner = await signed_in(reloaded, "partner", address, sub="bob")
    assert at_partner.id not in await seen(reloaded, at_corp)
    widened = {**LINKED, "domains": ["shared.example", domain]} if "link_by" in keys else LINKED
    after = SeveralSite(tmp_path, idps, django_pages, identity_providers=[entry(id, idps[id], **widened) for id in ("corp", "partner")])
    sessions = SessionService(after.options, reloaded.broker)
    await LinkedAccountIndexer(sessions, reloaded.broker).run()
    both = {at_corp.id, at_partner.id}
    for session in (at_corp, at_partner):
        assert {each.id for each in await sessions.list_for_same_user(session, reloaded.clock())} == both
    assert await sessions.end_all_for(at_corp) == 2
    assert await left(reloaded) == set()


async def test_session_of_account_verified_by_later_sign_in_belongs_to_user(site: SeveralSite) -> None:
    _, at_corp = await signed_in(site, "corp")
    site.idps["partner"].bend.discovery = {"claims_supported": ["sub"]}
    _, silent = await signed_in(site, "partner", ANN, ABSENT, sub="bob")
    record = await site.broker.get(SESSION, silent.id)
    assert record is not None
    claims = {name: value for name, value in record.data["claims"].items() if name != "email_verified"}
    await site.broker.put(SESSION, silent.id, {**record.data, "claims": claims}, expires=silent.expires_at)
    assert await seen(site, at_corp) == {at_corp.id}
    _, verified = await signed_in(site, "partner", ANN, sub="bob")
    assert await seen(site, at_corp) == {at_corp.id, silent.id, verified.id}


async def test_a_sign_in_of_a_configuration_without_the_provider_leaves_no_session(
    site: SeveralSite, idps: dict[str, FakeIdP], tmp_path: Path, django_pages: ASGIHandler
) -> None:
    """Its sweep has been there while the provider held its response."""
    entries = [entry(id, idps[id], domains=["shared.example"]) for id in ("corp", "third")]
    without_partner = SeveralSite(tmp_path, idps, django_pages, identity_providers=entries)
    set_address(site, "partner", ANN)
    set_address(site, "third", ANN)
    for id, stays in (("partner", False), ("third", True)):
        browser = site.browser()
        url = site.idps[id].pick(await to(site, browser, id), "alice")
        site.idps[id].bend.holds["/token"] = held = asyncio.Event()
        site.service.sessions.successor_reader = None
        under_way = asyncio.create_task(browser.get(url))
        while not site.idps[id].count("/token"):
            await asyncio.sleep(0.01)
        site.service.on_replaced(without_partner.options)
        held.set()
        response = await under_way
        assert (response.status == 302) is stays
        assert any("_gate" in name for name in browser.cookies) is stays
        assert bool(await left(site)) is stays


async def test_additions_after_first_sweep_are_found_by_second(
    idps: dict[str, FakeIdP], tmp_path: Path, django_pages: ASGIHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process, or a push under way, writes by the former configuration when this one is in force here."""
    monkeypatch.setattr(background_work, "CLEANUP_DELAYS", (0.0, 0.3))
    entries = [entry("corp", idps["corp"]), entry("third", idps["third"])]
    site = SeveralSite(tmp_path, idps, django_pages, identity_providers=entries)
    await site.service.start()
    await asyncio.sleep(0.1)
    late = SessionRecord("late", "partner/alice", "alice", "partner", site.clock(), site.clock() + 600, issuer=idps["partner"].issuer)
    await site.broker.put(SESSION, late.id, late.to_data(), expires=late.expires_at)
    await site.broker.put(DIRECTORY_USER, "partner/alice", DirectoryUser("partner/alice").to_data())
    async with asyncio.timeout(20):
        while await left(site) or await site.broker.page(DIRECTORY_USER, "", 1):
            await asyncio.sleep(0.02)
    await site.service.stop()
