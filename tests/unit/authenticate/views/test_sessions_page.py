"""Sessions page: list and end own sessions, and audit each end."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIHandler

from authenticate.portal import programmatic_clients
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry, Session
from databroker.records import SESSION, ProgrammaticClient, Record, SessionRecord
from foundation.errors import BrokerError
from tests.support.authenticate_site import Browser, Response, Site
from tests.support.database import in_database
from tests.support.fake_idp import PEOPLE, FakeIdP

PAGE = "/.gate/sessions"
FIREFOX = "Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile Safari/604.1"


@pytest.fixture
async def mine(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[Site]:
    site = Site(tmp_path, idp, django_pages, jwt_claims_headers=["email", "department"])
    await site.service.start()
    yield site
    await site.service.stop()


async def signed_in(site: Site, username: str = "alice", user_agent: str = FIREFOX) -> Browser:
    browser = site.browser()
    await browser.get(site.idp.pick(await browser.to_provider(), username), user_agent=user_agent)
    return browser


async def get_session(site: Site, browser: Browser) -> Record:
    (id,) = re.findall(r"<code>([\w-]{43})</code>", await text(browser))
    return next(record for record in await site.sessions() if record.id == id)


async def text(browser: Browser) -> str:
    page = await browser.get(PAGE)
    assert page.status == 200, page.text
    return page.text


async def press(browser: Browser, **fields: str) -> Response:
    (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', await text(browser))
    return await browser.post(PAGE, {"_gate_csrf": token, **fields})


def ends(page: str) -> list[str]:
    return re.findall('name="end" value="([^"]+)"', page)


async def audited(site: Site) -> list[tuple[str, str, str, str]]:
    await site.service.audit_writer.stop()
    rows = await in_database(lambda: list(AuditEntry.objects.order_by("pk").values_list("actor", "actor_id", "action", "object_id")))
    assert all(entry.client_address == "192.0.2.7" for entry in await in_database(lambda: list(AuditEntry.objects.all())))
    return rows


async def test_lists_sessions(mine: Site) -> None:
    phone, bob = await signed_in(mine, user_agent=SAFARI), await signed_in(mine, "bob")
    other = await get_session(mine, phone)
    browser = await signed_in(mine)
    page = await text(browser)
    assert page.index("Firefox on Windows") < page.index("this browser") < page.index("Safari on iPhone")
    assert ends(page) == [other.id]
    assert page.count("192.0.2.7") == 3  # twice to be read, once in the words of a button
    assert "No activity yet" in page
    assert (await get_session(mine, bob)).id not in page
    assert (await mine.browser().get(PAGE)).location.startswith("https://auth.example.com/.gate/sign_in?")


async def test_shows_activity_and_clients(mine: Site) -> None:
    other = await get_session(mine, await signed_in(mine, user_agent=SAFARI))
    seen = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)
    await in_database(lambda: Session.rows.bulk_create([Session(pk=other.id, last_seen_at=seen, last_host="wiki.example.com")]))
    record = SessionRecord.from_record(other)
    await programmatic_clients.record_client(mine.broker, record, ProgrammaticClient("app.example.com", "localhost:1234", 1_800_000_000.0))
    page = await text(await signed_in(mine))
    assert "4 Mar 2026, 12:30 UTC</time> at wiki.example.com" in page
    assert "A program at <code>localhost:1234</code> has your access to app.example.com" in page


async def test_one_session_ends_and_is_in_the_audit_log(mine: Site) -> None:
    phone, browser, third = [await signed_in(mine, user_agent=agent) for agent in (SAFARI, FIREFOX, FIREFOX)]
    other = (await get_session(mine, phone)).id
    answer = await press(browser, end=other)
    assert (answer.status, answer.headers["location"]) == (303, PAGE)
    assert (await phone.get(PAGE)).status == 302
    assert other not in ends(await text(third))
    assert await audited(mine) == [("alice@corp.example", "oidc/alice", AuditAction.END_SESSION, other)]


async def test_all_others_end_and_this_one_stays(mine: Site) -> None:
    others = [await signed_in(mine) for _ in range(3)]
    ids = {(await get_session(mine, each)).id for each in others}
    bob, browser = await signed_in(mine, "bob"), await signed_in(mine)
    assert (await press(browser, end_others="yes")).status == 303
    assert [(await each.get(PAGE)).status for each in (*others, bob, browser)] == [302, 302, 302, 200, 200]
    assert "End all other sessions" not in await text(browser)
    assert {(action, id) for _, _, action, id in await audited(mine)} == {(AuditAction.END_SESSION, id) for id in ids}


@pytest.mark.parametrize("everywhere", [{}, {"gate_everywhere": "yes"}])
async def test_signing_out_is_in_the_audit_log(mine: Site, everywhere: dict[str, str]) -> None:
    other, browser = await signed_in(mine), await signed_in(mine)
    this = (await get_session(mine, browser)).id
    (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', await text(browser))
    await browser.post("/.gate/signout/", {"_gate_csrf": token, **everywhere})
    assert (await other.get(PAGE)).status == (302 if everywhere else 200)
    expected = (AuditAction.END_ALL_SESSIONS, "oidc/alice") if everywhere else (AuditAction.END_SESSION, this)
    assert [entry[2:] for entry in await audited(mine)] == [expected]


async def test_session_of_another_user_is_not_found(mine: Site) -> None:
    bob, browser = await signed_in(mine, "bob"), await signed_in(mine)
    of_bob = (await get_session(mine, bob)).id
    answers = [await press(browser, end=id) for id in (of_bob, "x" * 43, "", "../x", "\x00", "é")]
    assert {(answer.status, answer.text) for answer in answers} == {(404, answers[0].text)}
    assert (await bob.get(PAGE)).status == 200
    assert await audited(mine) == []


async def test_same_id_of_another_issuer_is_not_found(mine: Site) -> None:
    phone, browser = await signed_in(mine), await signed_in(mine)
    other = await get_session(mine, phone)
    await mine.broker.put(SESSION, other.id, {**other.data, "issuer": "https://other.example"}, expires=other.expires)
    assert ends(await text(browser)) == []
    assert (await press(browser, end=other.id)).status == 404


async def test_current_session_ends_by_sign_out(mine: Site) -> None:
    browser = await signed_in(mine)
    answer = await press(browser, end=(await get_session(mine, browser)).id)
    assert answer.location == "/.gate/signout/"
    assert (await browser.get(PAGE)).status == 200


async def test_ending_needs_a_csrf_token(mine: Site) -> None:
    phone, bob, browser = await signed_in(mine), await signed_in(mine, "bob"), await signed_in(mine)
    other = (await get_session(mine, phone)).id
    (of_bob,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', await text(bob))
    for token in ("", "x", of_bob):
        assert (await browser.post(PAGE, {"_gate_csrf": token, "end": other})).status == 400
        assert (await browser.post(PAGE, {"_gate_csrf": token, "end_others": "yes"})).status == 400
    assert (await mine.browser().post(PAGE, {"_gate_csrf": of_bob, "end": other})).status == 401
    assert (await browser.get(PAGE, method="DELETE")).status == 405
    assert (await phone.get(PAGE)).status == 200


async def test_with_the_broker_away_nothing_is_half_done(mine: Site) -> None:
    phone, browser = await signed_in(mine), await signed_in(mine)
    (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', await text(browser))
    mine.broker.cut()
    assert (await browser.get(PAGE)).status == 503
    assert (await browser.post(PAGE, {"_gate_csrf": token, "end_others": "yes"})).status == 503
    mine.broker.mend()
    assert (await phone.get(PAGE)).status == 200
    assert await audited(mine) == []


async def test_partial_failure_is_reported(mine: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [await signed_in(mine) for _ in range(3)]
    browser, end, count = await signed_in(mine), mine.service.sessions.end, 0

    async def fails(session: SessionRecord) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise BrokerError("away")
        await end(session)

    monkeypatch.setattr(mine.service.sessions, "end", fails)
    answer = await press(browser, end_others="yes")
    assert answer.status == 503
    assert "1 of 3 sessions were ended" in answer.text
    assert sorted([(await each.get(PAGE)).status for each in others]) == [200, 200, 302]
    assert [action for _, _, action, _ in await audited(mine)] == [AuditAction.END_SESSION, AuditAction.END_SESSION.failure]


async def test_shows_shared_and_technical_claims(mine: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = {**PEOPLE["alice"], "department": "R&D", "locale": "de", "nickname": "a\u202eb\x1b<i>", "email_verified": False}
    monkeypatch.setitem(PEOPLE, "alice", claims)
    page = await text(await signed_in(mine))
    shared, _, rest = page.partition("<h2>Information shared with applications</h2>")[2].partition("<h2>Claims from your identity provider")
    for each in (
        "oidc/alice",
        "Alice Adams",
        "engineering",
        "R&amp;D",
        "not shared:",
    ):
        assert each in shared
    assert "alice@corp.example" not in shared
    about, _, technical = rest.partition("<details>")
    assert "locale" in about
    assert "a\ufffdb\ufffd&lt;i&gt;" in about
    assert '<th scope="row">iss</th>' in technical
    assert '<th scope="row">iss</th>' not in about
    assert "&lt;time" not in page


async def test_the_page_can_t_be_framed_and_runs_nothing_of_others(mine: Site) -> None:
    headers = (await (await signed_in(mine)).get(PAGE)).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
