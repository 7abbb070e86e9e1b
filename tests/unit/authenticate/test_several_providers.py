"""Several providers: a response of one to a request for another signs in no user, and data of one is never sent to another."""

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.core.handlers.asgi import ASGIHandler
from structlog.testing import capture_logs

from authenticate.provider.tokens.signed_token import InvalidSignedToken
from authenticate.session.session_refresh import RefreshStep
from authorize.policy.reasons import Reason
from databroker.grants.grant_records import AccessGrant
from databroker.grants.grant_store import GrantStore
from databroker.records import USER, SessionRecord, UserRecord
from databroker.session_reader import user_for_session
from foundation.errors import BadRequest
from tests.support.authenticate_site import APP, ATTEMPT, ORIGIN, Browser
from tests.support.fake_idp import ABSENT, DISCOVERY, Answer, FakeIdP, signed
from tests.support.several_providers import SeveralSite, entry

IDS = ("corp", "partner", "third")
PAIRS = list(itertools.permutations(IDS, 2))
SID = "a-session-of-the-provider"


@pytest.fixture
async def idps() -> AsyncIterator[dict[str, FakeIdP]]:
    started = {id: await FakeIdP.started() for id in IDS}
    for id, idp in started.items():
        idp.kid = f"key-of-{id}"
    yield started
    for idp in started.values():
        await idp.stop()


@pytest.fixture
async def site(tmp_path: Path, idps: dict[str, FakeIdP], django_pages: ASGIHandler) -> AsyncIterator[SeveralSite]:
    site = SeveralSite(tmp_path, idps, django_pages)
    await site.service.start()
    yield site
    await site.service.stop()


def choice_url(site: SeveralSite, **answer: str) -> str:
    query = urlsplit(site.sign_in_url()).query
    return f"{ORIGIN}/.gate/choose?{urlencode({'gate_choice': query, **answer})}"


async def to(site: SeveralSite, browser: Browser, id: str, by: str = "same-origin") -> str:
    """The authorization URL of the provider that this browser chooses, or another site chooses for it."""
    url = (await browser.get(choice_url(site, gate_idp=id), sec_fetch_site=by)).location
    assert url.startswith(site.idps[id].issuer)
    return url


async def signed_in(site: SeveralSite, id: str, sub: str = "alice", **claims: Any) -> tuple[Browser, SessionRecord]:
    browser, idp = site.browser(), site.idps[id]
    idp.bend.claims = {"sid": f"{SID}-{id}", "email": f"{sub}@{id}.example", **claims}
    idp.bend.userinfo = {"email": f"{sub}@{id}.example"}
    known = {record.id for record in await site.sessions()}
    response = await browser.get(idp.pick(await to(site, browser, id), sub))
    assert response.status == 302, response.text
    (record,) = [record for record in await site.sessions() if record.id not in known]
    return browser, SessionRecord.from_record(record)


def query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def request_count(idp: FakeIdP, path: str) -> int:
    return idp.count(path)


@pytest.mark.parametrize("id", IDS)
async def test_users_belong_to_their_chosen_provider(site: SeveralSite, id: str) -> None:
    _, session = await signed_in(site, id)
    assert (session.user_id, session.provider, session.subject, session.issuer) == (f"{id}/alice", id, "alice", site.idps[id].issuer)
    assert all(not idp.requests for other, idp in site.idps.items() if other != id)


async def test_one_subject_at_three_providers_is_three_users(site: SeveralSite) -> None:
    sessions = [(await signed_in(site, id))[1] for id in IDS]
    assert {session.user_id for session in sessions} == {f"{id}/alice" for id in IDS}
    for session in sessions:
        assert {each.id for each in await site.service.sessions.list_for_same_user(session, site.clock())} == {session.id}
        for other in sessions:
            assert (await site.service.sessions.get_for_same_user(session, other.id, site.clock()) is None) is (other.id != session.id)


@pytest.mark.parametrize(("chosen", "other"), PAIRS)
@pytest.mark.parametrize("names_itself", ["as itself", "as the chosen one", "not at all"])
async def test_code_of_another_provider_is_rejected_and_not_disclosed(
    site: SeveralSite, chosen: str, other: str, names_itself: str
) -> None:
    browser = site.browser()
    callback = site.idps[other].pick(await to(site, browser, chosen), "alice")
    parameters = query(callback)
    if names_itself == "as the chosen one":
        parameters["iss"] = site.idps[chosen].issuer
    elif names_itself == "not at all":
        del parameters["iss"]
    response = await browser.get(f"{ORIGIN}/oauth2/callback?{urlencode(parameters)}")
    assert response.status == 400
    assert await site.sessions() == []
    assert request_count(site.idps[other], "/token") == 0
    assert request_count(site.idps[chosen], "/token") == (1 if names_itself == "as the chosen one" else 0)


@pytest.mark.parametrize(("chosen", "other"), PAIRS)
async def test_an_error_of_another_provider_is_not_the_chosen_one_s(site: SeveralSite, chosen: str, other: str) -> None:
    browser = site.browser()
    url = await to(site, browser, chosen)
    error_query = urlencode({"state": parse_qs(urlsplit(url).query)["state"][0], "error": "access_denied", "iss": site.idps[other].issuer})
    assert (await browser.get(f"{ORIGIN}/oauth2/callback?{error_query}")).status == 400
    assert (await browser.get(site.idps[chosen].pick(url, "alice"))).status == 302, "the attempt goes on"


@pytest.mark.parametrize(("hostile", "other"), PAIRS)
@pytest.mark.parametrize("trick", ["a token of the other", "the other's issuer", "the other's key", "the other's whole answer"])
async def test_users_of_hostile_provider_are_never_another_s(site: SeveralSite, hostile: str, other: str, trick: str) -> None:
    mine, others = site.idps[hostile], site.idps[other]
    if trick == "a token of the other":
        mine.bend.token = lambda header, claims: signed(header | {"kid": others.kid}, claims, others.signing_key, others.algorithm)
        mine.bend.claims = {"iss": others.issuer}
    elif trick == "the other's issuer":
        mine.bend.claims = {"iss": others.issuer}
    elif trick == "the other's key":
        mine.bend.token = lambda header, claims: signed(header | {"kid": others.kid}, claims, others.signing_key, others.algorithm)
    else:
        answer = others.signed_in("alice")
        mine.bend.tokens = {name: answer[name] for name in ("id_token", "access_token")}
    browser = site.browser()
    response = await browser.get(mine.pick(await to(site, browser, hostile), "alice"))
    assert response.status in (400, 503)
    assert await site.sessions() == []


@pytest.mark.parametrize("brought", [str, str.upper, "{}=".format, "{} ".format], ids=["unchanged", "capitals", "padded", "a blank behind"])
@pytest.mark.parametrize(("hostile", "other"), PAIRS)
async def test_a_code_that_a_hostile_provider_has_seen_is_no_answer_of_another(
    site: SeveralSite, hostile: str, other: str, brought: Callable[[str], str]
) -> None:
    """Mix-up (RFC 9700 4.4) without `iss`: the hostile provider redirects its users to another provider, with the challenge of an attempt
    that it began.  It receives their code at its token endpoint, and presents the code in its own browser."""
    mine, others = site.idps[hostile], site.idps[other]
    for idp in (mine, others):
        idp.bend.discovery = {"authorization_response_iss_parameter_supported": ABSENT}
    mallory, victim = site.browser(), site.browser()
    own = query(await to(site, mallory, other))
    sent_on = {**own, "state": query(await to(site, victim, hostile))["state"]}
    code = query(others.pick(f"{others.issuer}/authorize?{urlencode(sent_on)}", "alice"))["code"]
    assert (await victim.get(f"{ORIGIN}/oauth2/callback?{urlencode({'code': code, 'state': sent_on['state']})}")).status == 400
    assert request_count(mine, "/token") == 1, "it has seen the code"
    with capture_logs() as logged:
        response = await mallory.get(f"{ORIGIN}/oauth2/callback?{urlencode({'code': brought(code), 'state': own['state']})}")
    assert [line["provider"] for line in logged if "authorization code replay rejected" in line["event"]] == [other]
    assert (response.status, request_count(others, "/token")) == (400, 0)
    assert await site.sessions() == []


@pytest.mark.parametrize(("hostile", "other"), PAIRS)
async def test_provider_with_endpoints_of_another_signs_in_none_of_its_users(site: SeveralSite, hostile: str, other: str) -> None:
    others = site.idps[other]
    names = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
    site.idps[hostile].bend.discovery = {f"{name}_endpoint": f"{others.issuer}/{path}" for name, path in names.items()}
    site.idps[hostile].bend.discovery["jwks_uri"] = f"{others.issuer}/jwks"
    browser = site.browser()
    url = (await browser.get(choice_url(site, gate_idp=hostile))).location
    for issuer in (others.issuer, site.idps[hostile].issuer):
        response = await browser.get(others.pick(url, "alice", iss=issuer))
        assert response.status in (400, 503)
    assert await site.sessions() == []


@pytest.mark.parametrize("sub", ["corp/alice", "/alice", "../corp/alice"])
async def test_subject_resembling_another_provider_s_user_is_rejected(site: SeveralSite, sub: str) -> None:
    _, session = await signed_in(site, "corp")
    mallory = site.idps["partner"]
    mallory.bend.claims, mallory.bend.userinfo = {"sub": sub}, {"sub": sub}
    other = site.browser()
    assert (await other.get(mallory.pick(await to(site, other, "partner"), "alice"))).status == 302
    (record,) = [record for record in await site.sessions() if record.id != session.id]
    stranger = SessionRecord.from_record(record)
    assert (stranger.user_id, stranger.subject) == (f"partner/{sub}", sub)
    assert await site.service.sessions.get_for_same_user(stranger, session.id, site.clock()) is None
    assert await site.service.sessions.end_all_for(stranger) == 1
    assert [record.id for record in await site.sessions()] == [session.id]


async def test_reused_id_inherits_nothing_from_previous_user(site: SeveralSite, tmp_path: Path, django_pages: ASGIHandler) -> None:
    """The entry now points at another issuer, where another user has the same subject."""
    _, session = await signed_in(site, "partner")
    user = UserRecord(session.user_id, name="Alice", issuer=session.effective_issuer)
    now = site.clock()
    access = AccessGrant("a" * 32, "app", now, now + 600, "boss", "to look")
    accesses = GrantStore(site.broker, site.clock)
    await accesses.grant(user, access)
    later = SeveralSite(
        tmp_path, site.idps, django_pages, identity_providers=[entry("corp", site.idps["corp"]), entry("partner", site.idps["third"])]
    )
    later.broker = site.broker
    heir = SessionRecord("heir", session.user_id, "alice", "partner", now, now + 600, issuer=site.idps["third"].issuer)
    assert await accesses.active_for(session.user_id, session.effective_issuer) == [access]
    assert await accesses.active_for(heir.user_id, heir.effective_issuer) == []
    assert user_for_session(heir, await site.broker.get(USER, session.user_id)).name == ""
    assert await later.service.sessions.get_for_same_user(heir, session.id, now) is None
    await later.service.stop()


@pytest.mark.parametrize("answer", [{"gate_address": "<script>x</script>@nowhere.example"}, {"gate_idp": "gone"}, {}])
async def test_provider_page_cannot_be_framed_or_echo_the_link(site: SeveralSite, answer: dict[str, str]) -> None:
    page = await site.browser().get(choice_url(site, **answer))
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert "<script" not in page.text
    assert "nowhere.example" not in page.text
    assert page.set_cookies == []


async def test_choice_made_by_attacker_signs_victim_in_nowhere(site: SeveralSite) -> None:
    """A link with the sender's attempt, opened by another: each callback is for the browser that began it."""
    sender, victim = site.browser(), site.browser()
    callback = site.idps["partner"].pick(await to(site, sender, "partner"), "alice")
    assert (await victim.get(callback)).status == 400
    assert await site.sessions() == []


@pytest.mark.parametrize(("teller", "other"), PAIRS)
async def test_logout_by_one_provider_affects_no_user_of_another(site: SeveralSite, teller: str, other: str) -> None:
    _, session = await signed_in(site, other)
    mine, others, logout = site.idps[teller], site.idps[other], site.service.provider_logout
    sid = f"{SID}-{other}"
    assert await logout.back_channel(mine.logout_token(sid=sid)) == 0
    assert await logout.back_channel(mine.logout_token(sub="alice")) == 0
    assert await logout.front_channel(mine.issuer, sid) == 0
    for forged in (mine.logout_token(sid=sid, iss=others.issuer), mine.logout_token(sub="alice", iss=others.issuer)):
        with pytest.raises(InvalidSignedToken):
            await logout.back_channel(forged)
    with pytest.raises(InvalidSignedToken, match="another issuer"):
        await logout.back_channel(mine.logout_token(sid=sid, iss="https://idp.nobody.example"))
    with pytest.raises(InvalidSignedToken, match="another issuer"):
        await logout.back_channel(mine.logout_token(sid=sid, iss=ABSENT))
    with pytest.raises(BadRequest):
        await logout.front_channel("https://idp.nobody.example", sid)
    assert [record.id for record in await site.sessions()] == [session.id]
    assert await logout.back_channel(others.logout_token(sid=sid)) == 1


@pytest.mark.parametrize("id", IDS)
async def test_a_session_is_refreshed_revoked_and_signed_out_at_its_own_provider(site: SeveralSite, id: str) -> None:
    browser, session = await signed_in(site, id)
    before = {other: len(idp.requests) for other, idp in site.idps.items()}
    renewed = await site.service.refresh.renew(session.id, RefreshStep.TOKENS, if_received_at=0.0)
    assert renewed.access_token != session.access_token
    page = await browser.get(f"{ORIGIN}/.gate/signout/")
    token = page.text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
    response = await browser.post(f"{ORIGIN}/.gate/signout/", {"_gate_csrf": token})
    assert response.location.startswith(f"{site.idps[id].issuer}/end?")
    assert {other: len(idp.requests) > before[other] for other, idp in site.idps.items()} == {other: other == id for other in IDS}


async def test_outage_of_one_provider_blocks_no_user_of_another(site: SeveralSite) -> None:
    site.idps["partner"].bend.answers[DISCOVERY] = Answer(status=500)
    assert (await site.browser().get(choice_url(site, gate_idp="partner"))).status == 503
    await signed_in(site, "corp")
    assert "sign-in at partner is unavailable since" in site.service.readiness().reason
    assert "corp" not in site.service.readiness().reason


async def test_start_contacts_no_provider(site: SeveralSite) -> None:
    assert (await site.browser().get(site.sign_in_url())).status == 200
    assert all(not idp.requests for idp in site.idps.values())


async def test_provider_page_has_no_script_and_cannot_be_framed(site: SeveralSite) -> None:
    browser = site.browser()
    page = await browser.get(site.sign_in_url())
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "<script" not in page.text
    for id in IDS:
        assert id.title() in page.text
    assert page.set_cookies == []
    hrefs = [part.partition('"')[0].replace("&amp;", "&") for part in page.text.split('href="/.gate/choose')[1:]]
    found = [(await site.browser().get(f"{ORIGIN}/.gate/choose{href}")).location for href in hrefs]
    assert [url.partition("/authorize")[0] for url in found] == [site.idps[id].issuer for id in IDS]


@pytest.mark.parametrize(
    ("address", "id"), [("ann@corp.example", "corp"), (" Ann@PARTNER.example ", "partner"), ("ann@sub.corp.example", None), ("ann", None)]
)
async def test_an_address_that_is_typed_chooses_and_goes_along(site: SeveralSite, address: str, id: str | None) -> None:
    response = await site.browser().get(choice_url(site, gate_address=address))
    if id is None:
        assert response.status == 400
        assert "Choose one below" in response.text
        assert address not in response.text
        return
    assert response.location.startswith(site.idps[id].issuer)
    assert parse_qs(urlsplit(response.location).query)["login_hint"] == [address.strip()]


async def test_provider_choice_is_remembered_until_sign_out(site: SeveralSite) -> None:
    browser, session = await signed_in(site, "partner")
    await site.service.sessions.end(session)
    assert (await browser.get(site.sign_in_url())).location.startswith(site.idps["partner"].issuer)
    page = await browser.get(f"{ORIGIN}/.gate/signout/")
    token = page.text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
    await browser.post(f"{ORIGIN}/.gate/signout/", {"_gate_csrf": token})
    assert (await browser.get(site.sign_in_url())).status == 200


@pytest.mark.parametrize("by", ["cross-site", "same-site", "none", ""])
async def test_cross_site_choice_is_not_remembered(site: SeveralSite, by: str) -> None:
    browser = site.browser()
    site.idps["partner"].bend.claims = site.idps["partner"].bend.userinfo = {"email": "alice@partner.example"}
    url = await to(site, browser, "partner", by)
    response = await browser.get(site.idps["partner"].pick(url, "alice"))
    assert response.status == 302
    assert browser.cookies.get("__Host-_gate_idp", "") == ""


async def test_a_choice_that_led_to_no_sign_in_is_not_remembered(site: SeveralSite) -> None:
    browser = site.browser()
    await to(site, browser, "partner")
    assert (await browser.get(site.sign_in_url())).status == 200


@pytest.mark.parametrize("planted", ["", "gone", "corp; __Host-_gate_idp=partner", "%00"])
async def test_a_planted_choice_is_a_question(site: SeveralSite, planted: str) -> None:
    browser = site.browser()
    browser.cookies["__Host-_gate_idp"] = planted
    assert (await browser.get(site.sign_in_url())).status == 200


@pytest.mark.parametrize(
    "answer",
    [{"gate_idp": "gone"}, {"gate_idp": ""}, {}, {"gate_idp": "corp", "gate_choice": ""}, {"gate_idp": "corp", "gate_choice": "a=b"}],
)
async def test_only_valid_link_with_configured_provider_continues(site: SeveralSite, answer: dict[str, str]) -> None:
    response = await site.browser().get(choice_url(site, **answer))
    assert response.status == (200 if answer in ({"gate_idp": ""}, {}) else 400)
    assert response.set_cookies == []


@pytest.mark.parametrize("name", ["gate_idp", "gate_choice", "gate_address"])
async def test_response_with_duplicate_parameter_is_refused(site: SeveralSite, name: str) -> None:
    url = choice_url(site, gate_idp="corp", gate_address="ann@corp.example")
    value = parse_qs(urlsplit(url).query)[name][0]
    assert (await site.browser().get(f"{url}&{urlencode({name: value})}")).status == 400


async def test_a_replayed_question_expires(site: SeveralSite) -> None:
    url = choice_url(site, gate_idp="corp")
    site.clock.ahead = 1000
    assert (await site.browser().get(url)).status == 400


async def test_a_route_s_providers_are_offered_and_no_others(site: SeveralSite) -> None:
    def url(providers: str) -> str:
        params = {"gate_redirect_uri": f"{APP}/", "gate_attempt": ATTEMPT, "gate_providers": providers}
        return site.service.signer.sign(f"{ORIGIN}/.gate/sign_in", params, site.clock())

    assert (await site.browser().get(url("partner"))).location.startswith(site.idps["partner"].issuer)
    page = await site.browser().get(url("partner third"))
    assert ("Corp" in page.text, "Partner" in page.text, "Third" in page.text) == (False, True, True)
    chosen = f"{ORIGIN}/.gate/choose?{urlencode({'gate_choice': urlsplit(url('partner third')).query, 'gate_idp': 'corp'})}"
    assert (await site.browser().get(chosen)).status == 400
    assert (await site.browser().get(url("gone"))).status == 400


async def test_programmatic_sign_in_offers_and_accepts_only_providers_of_its_host(site: SeveralSite) -> None:
    params = {"gate_callback_uri": f"{APP}/.gate/callback/", "gate_programmatic": "true", "gate_providers": "corp partner"}
    url = site.service.signer.sign(f"{ORIGIN}/.gate/sign_in", {"gate_redirect_uri": "http://localhost:7000/cb", **params}, site.clock())
    browser = site.browser()
    question = (await browser.get(url)).location
    page = await browser.get((await browser.get(question)).location)
    assert ("Corp" in page.text, "Partner" in page.text, "Third" in page.text) == (True, True, False)
    insider, _ = await signed_in(site, "corp")
    assert "localhost:7000" in (await insider.get(question)).text
    stranger, _ = await signed_in(site, "third")
    refused = await stranger.get(question)
    assert refused.status == 403
    assert Reason.OTHER_PROVIDER.value in refused.text.lower()
    assert "/.gate/signout/?gate_redirect_uri=" in refused.text
    token = (await insider.get(question)).text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
    sent = {"_gate_csrf": token, "request": parse_qs(urlsplit(question).query)["request"][0]}
    assert (await stranger.post(f"{ORIGIN}/.gate/program", sent)).status == 403


async def test_a_link_to_the_portal_may_name_the_provider(site: SeveralSite) -> None:
    browser = site.browser()
    started = (await browser.get(f"{ORIGIN}/.gate/?gate_idp=third")).location
    assert (await browser.get(started)).location.startswith(site.idps["third"].issuer)
    started = (await browser.get(f"{ORIGIN}/.gate/?gate_idp=gone")).location
    assert (await browser.get(started)).status == 400


async def test_attempt_of_removed_or_renamed_provider_is_invalid(site: SeveralSite, tmp_path: Path, django_pages: ASGIHandler) -> None:
    browser = site.browser()
    callback = site.idps["partner"].pick(await to(site, browser, "partner"), "alice")
    for entries in (
        [entry("corp", site.idps["corp"]), entry("third", site.idps["third"])],
        [entry("corp", site.idps["corp"]), entry("renamed", site.idps["partner"])],
        [entry("partner", site.idps["corp"]), entry("corp", site.idps["partner"])],
    ):
        later = SeveralSite(tmp_path, site.idps, django_pages, identity_providers=entries)
        twin = later.browser()
        twin.cookies = dict(browser.cookies)
        response = await twin.get(callback)
        assert response.status == 400
        assert await later.sessions() == []
        await later.service.stop()
    assert request_count(site.idps["partner"], "/token") == 0
    assert request_count(site.idps["corp"], "/token") == 0
