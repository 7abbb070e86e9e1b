"""A session is found by the cookie of its host, among all cookies that a browser sends."""

from contextlib import suppress
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from authenticate.portal.user_sessions import other_sessions
from authenticate.session import session_service
from databroker.audit_log import AuditAction
from databroker.end_sessions import end_sessions
from databroker.models import AuditEntry
from databroker.records import SESSION, SESSION_INDEX, SessionRecord
from foundation.errors import BrokerError
from tests.support.authenticate_site import HOST, Site
from tests.support.cookies import of_jar
from tests.support.database import in_database


async def cookie_of(site: Site) -> bytes:
    browser = site.browser()
    await browser.sign_in()
    return of_jar(browser.cookies).encode()


@pytest.mark.parametrize("shadow", [b"_gate=x", b'_gate=""', b"_gate=\xff", b"_gate", b"_GATE=x", b"_gate=" + b"A" * 9000])
async def test_planted_cookies_do_not_hide_the_session(site: Site, shadow: bytes) -> None:
    cookie = await cookie_of(site)
    for headers in ([shadow, cookie], [cookie, shadow], [shadow + b"; " + cookie], [cookie + b"; " + shadow]):
        assert await site.service.sessions.find(headers, HOST, site.clock()) is not None


async def test_of_two_real_sessions_the_one_that_is_this_browsers_counts(site: Site) -> None:
    """A cookie can be planted by a sibling of this host, its binding cookie can't."""
    own, other = await cookie_of(site), (await cookie_of(site)).partition(b"; ")[0]
    session = await site.service.sessions.find([own], HOST, site.clock())
    assert session is not None
    for sent in (own + b"; " + other, other + b"; " + own):
        assert await site.service.sessions.find([sent], HOST, site.clock()) == session
    assert await site.service.sessions.find([other], HOST, site.clock()) is None
    assert await site.service.sessions.find([other + b"; " + own.partition(b"; ")[2]], HOST, site.clock()) is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_sign_ins_of_two_tabs_at_the_same_time_end_together(order: tuple[int, int], site: Site) -> None:
    """A browser that restores its tabs: each tab's callback is sent before the answer to the other's."""
    tabs = [site.browser(), site.browser()]
    tabs[0].cookies = tabs[1].cookies
    urls = [site.idp.pick(await tab.to_provider(), "alice") for tab in tabs]
    tabs[0].cookies, tabs[1].cookies = dict(tabs[0].cookies), dict(tabs[1].cookies)
    for number in order:
        await tabs[number].get(urls[number])
    stranger = site.browser()
    await stranger.sign_in("alice")
    for tab in tabs:
        session = await site.service.sessions.find([of_jar(tab.cookies).encode()], HOST, site.clock())
        assert session is not None
        others = await other_sessions(site.service.sessions, session, site.clock())
        assert len(others) == 1, "the stranger's browser"
    await site.service.sessions.end(session)
    for tab, expected in ((tabs[0], False), (tabs[1], False), (stranger, True)):
        found = await site.service.sessions.find([of_jar(tab.cookies).encode()], HOST, site.clock())
        assert (found is not None) is expected


async def test_sessions_of_two_users_in_two_tabs_do_not_end_together(site: Site) -> None:
    tabs = [site.browser(), site.browser()]
    tabs[0].cookies = tabs[1].cookies
    urls = [site.idp.pick(await tab.to_provider(), username) for tab, username in zip(tabs, ("alice", "bob"), strict=True)]
    tabs[0].cookies, tabs[1].cookies = dict(tabs[0].cookies), dict(tabs[1].cookies)
    for tab, url in zip(tabs, urls, strict=True):
        await tab.get(url)
    assert all(record.data["linked_session_ids"] in ((), []) for record in await site.sessions())


async def test_sign_out_ends_every_session_in_the_request(site: Site) -> None:
    own, other = await cookie_of(site), (await cookie_of(site)).partition(b"; ")[0]
    await cookie_of(site)
    await site.service.sessions.end_from_cookies([b"a=b; _gate=x", other + b"; " + own], HOST, site.clock())
    assert len(await site.sessions()) == 1
    assert await site.service.sessions.find([own], HOST, site.clock()) is None


async def test_user_ends_own_sessions_in_all_browsers_only(site: Site) -> None:
    for username in ("alice", "alice", "bob"):
        await site.browser().sign_in(username)
    last = site.browser()
    await last.sign_in("alice")
    session = await site.service.sessions.find([of_jar(last.cookies).encode()], HOST, site.clock())
    assert session is not None
    assert await site.service.sessions.end_all_for(session) == 3
    assert [record.data["subject"] for record in await site.sessions()] == ["bob"]


@pytest.mark.parametrize("host", ["app.example.com", "auth.example.com:8443", "AUTH.example.com", ""])
async def test_a_cookie_of_one_host_is_refused_at_another(site: Site, host: str) -> None:
    assert await site.service.sessions.find([await cookie_of(site)], host, site.clock()) is None


async def test_every_flipped_character_makes_it_no_session(site: Site) -> None:
    cookie = await cookie_of(site)
    for position in range(len(b"_gate="), len(cookie), 5):
        changed = cookie[:position] + (b"A" if cookie[position : position + 1] != b"A" else b"B") + cookie[position + 1 :]
        assert await site.service.sessions.find([changed], HOST, site.clock()) is None
    assert await site.service.sessions.find([cookie[:-1]], HOST, site.clock()) is None


async def test_session_is_valid_while_its_issuer_is_configured(site: Site) -> None:
    cookie = await cookie_of(site)
    (record,) = await site.sessions()
    assert record.data["issuer"] == site.idp.issuer
    for changed in ({"issuer": "https://other.example"}, {"provider": "okta"}, {"issuer": "", "claims": {}}):
        await site.broker.put(SESSION, record.id, {**record.data, **changed})
        assert await site.service.sessions.find([cookie], HOST, site.clock()) is None
    await site.broker.put(SESSION, record.id, {name: value for name, value in record.data.items() if name != "issuer"})
    assert await site.service.sessions.find([cookie], HOST, site.clock()) is not None, "of an earlier release: its ID token says whose"


async def test_the_record_decides_not_the_cookie(site: Site) -> None:
    cookie = await cookie_of(site)
    (record,) = await site.sessions()
    await site.broker.put(SESSION, record.id, {**record.data, "expires_at": site.clock() - 1})
    assert await site.service.sessions.find([cookie], HOST, site.clock()) is None
    await site.broker.put(SESSION, record.id, record.data)
    assert await site.service.sessions.find([cookie], HOST, site.clock()) is not None
    await site.broker.delete(SESSION, record.id)
    assert await site.service.sessions.find([cookie], HOST, site.clock()) is None


async def test_a_session_has_ended_also_where_the_index_cannot_be_tidied(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = await cookie_of(site)
    session = await site.service.sessions.find([cookie], HOST, site.clock())
    assert session is not None
    delete, refused = site.broker.delete, []

    async def delete_sessions_only(type: str, id: str) -> object:
        if type == SESSION_INDEX:
            refused.append(id)
            raise BrokerError("the store may only be read again")
        return await delete(type, id)

    monkeypatch.setattr(site.broker, "delete", delete_sessions_only)
    await site.service.sessions.end(session)
    assert refused
    assert await site.service.sessions.find([cookie], HOST, site.clock()) is None


async def test_partially_failed_sign_out_completes_on_retry(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that names a browser's weaker sessions must not be deleted first, because only it leads to them."""
    cookie = await cookie_of(site)
    (record,) = await site.sessions()
    await site.broker.put(SESSION, "weak", {**record.data, "id": "weak"})
    await site.broker.put(SESSION, record.id, {**record.data, "linked_session_ids": ["weak"]})
    delete, deleted = site.broker.delete, []

    async def failing_at_the_second(type: str, id: str) -> object:
        deleted.append(id)
        if len(deleted) == 2:
            raise BrokerError("away")
        return await delete(type, id)

    monkeypatch.setattr(site.broker, "delete", failing_at_the_second)
    for _ in range(2):
        if (session := await site.service.sessions.find([cookie], HOST, site.clock())) is not None:
            with suppress(BrokerError):
                await site.service.sessions.end(session)
    assert await site.sessions() == []


@pytest.mark.parametrize(
    ("change", "is_read"), [({"of_a_later_release": 1}, True), ({"expires_at": None}, False), ({"issued_at": ...}, False)]
)
async def test_a_record_of_another_release_is_read_or_counts_as_none(site: Site, change: dict, is_read: bool) -> None:
    cookie = await cookie_of(site)
    (record,) = await site.sessions()
    data = {name: value for name, value in {**record.data, **change}.items() if value is not ...}
    await site.broker.put(SESSION, record.id, data)
    assert (await site.service.sessions.find([cookie], HOST, site.clock()) is not None) is is_read


async def of_alice(site: Site) -> list[str]:
    """Session ids, the oldest first."""
    found = sorted(await site.sessions(), key=lambda record: record.data["issued_at"])
    return [record.id for record in found if record.data["subject"] == "alice"]


async def test_one_sign_in_too_many_ends_the_oldest_session_of_the_account(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_service, "MAX_SESSIONS_PER_ACCOUNT", 3)
    await site.browser().sign_in("bob")
    for _ in range(3):
        await site.browser().sign_in("alice")
    oldest, *others = await of_alice(site)
    with capture_logs() as logs:
        await site.browser().sign_in("alice")
    left = await of_alice(site)
    assert (left[:2], len(left)) == (others, 3)
    assert len(await site.sessions()) == 4, "bob's has ended, too"
    (event,) = [line for line in logs if line["event"] == "oldest sessions ended: account limit"]
    assert (event["user_id"], event["sessions"], event["maximum"]) == ("oidc/alice", 1, 3)
    await site.service.audit_writer.stop()
    (entry,) = await in_database(lambda: list(AuditEntry.objects.values_list("actor_id", "action", "object_id")))
    assert entry == ("oidc/alice", AuditAction.END_OLDEST_SESSION, oldest)


async def test_sessions_that_are_over_count_for_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_service, "MAX_SESSIONS_PER_ACCOUNT", 2)
    monkeypatch.setattr(session_service, "WRITE_SECONDS", -60.0)
    await site.browser().sign_in("alice")
    (first,) = await of_alice(site)
    for _ in range(4):
        await site.browser().sign_in("alice")
        _, latest = await of_alice(site)
        await end_sessions(site.broker, [latest])
    assert await of_alice(site) == [first]
    session = SessionRecord.from_record((await site.sessions())[0])
    assert len(await site.service.sessions.index.entries_for_account(session)) <= 3, "what is over stays in the index"


async def test_a_session_that_is_not_written_yet_stays_in_the_index(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_service, "MAX_SESSIONS_PER_ACCOUNT", 1)
    await site.browser().sign_in("alice")
    session = SessionRecord.from_record((await site.sessions())[0])
    under_way = replace(session, id="under-way")
    await site.service.sessions.index.add(under_way)
    assert await site.service.sessions.end_oldest(session, site.clock()) == []
    assert set(await site.service.sessions.index.entries_for_account(session)) == {session.id, "under-way"}
