"""Portal: which applications it lists, who one is, and what its buttons do."""

import html
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from zoneinfo import ZoneInfo

import pytest
from django.core.handlers.asgi import ASGIHandler

from authorize.accessible_routes import EntryPoint
from authorize.policy.decision import Outcome
from authorize.policy.policy_request import PolicyRequest
from config.settings.brand_settings import MAX_LOGO_BYTES
from foundation.crypto.session_cookie import SessionCookies
from foundation.web.pages import STATIC, TIMES_SCRIPT
from tests.support.authenticate_site import ORIGIN, Browser, Site
from tests.support.cookies import signed_in as cookies_of
from tests.support.fake_idp import PEOPLE, FakeIdP
from tests.unit.authorize.test_accessible_routes import random_policy


async def test_without_a_session_the_page_leads_to_sign_in_and_back(site: Site) -> None:
    browser = site.browser()
    location = (await browser.get("/.gate/")).location
    assert location.startswith(f"{ORIGIN}/.gate/sign_in?")
    provider = (await browser.get(location)).location
    assert (await browser.get(site.idp.pick(provider, "alice"))).location == f"{ORIGIN}/.gate/"
    page = await browser.get("/.gate/")
    assert page.status == 200
    for text in ("Alice Adams", "alice@corp.example", "engineering", "Sign out"):
        assert text in page.text


async def test_clients_without_session_get_401_as_json(site: Site) -> None:
    response = await site.browser().get("/.gate/", accept="application/json")
    assert response.status == 401
    assert "not signed in" in json.loads(response.text)["reason"]


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
async def test_no_token_of_the_provider_is_on_the_page(site: Site, accept: str) -> None:
    browser = site.browser()
    await browser.sign_in()
    (record,) = await site.sessions()
    page = (await browser.get("/.gate/", accept=accept)).text
    for name in ("id_token", "access_token", "refresh_token"):
        assert record.data[name]
        assert record.data[name] not in page
    assert record.data["claims"]["nonce"] not in page


async def test_claims_are_text_and_never_markup(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = {
        "name": "<img src=x onerror=alert(1)>",
        "email": '"><script>alert(1)</script>',
        "groups": ["</td><script>"],
        "x'\"<b>": {"<i>": "<u>"},
    }
    monkeypatch.setitem(PEOPLE, "mallory", evil)
    browser = site.browser()
    await browser.sign_in("mallory")
    page = (await browser.get("/.gate/")).text
    for markup in ("<img src=x", "<script>alert", "</td><script>", "'\"<b>", "<i>", "<u>"):
        assert markup not in page.replace(TIMES_SCRIPT, "")
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


async def test_the_page_is_private_and_cannot_be_framed(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    headers = (await browser.get("/.gate/")).headers
    assert headers["cache-control"] == "no-store"
    assert "'self'" not in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


async def test_a_session_ends_with_its_record_and_with_its_time(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    site.clock.ahead = 14 * 3600 + 1
    assert (await browser.get("/.gate/")).status == 302
    site.clock.ahead = 0
    assert (await browser.get("/.gate/")).status == 200
    (record,) = await site.sessions()
    await site.broker.delete("session", record.id)
    assert (await browser.get("/.gate/")).status == 302


ALICE = {"admin_allowed_users": ["alice@corp.example"]}


@pytest.mark.parametrize(("admins", "username", "leads"), [(ALICE, "alice", True), (ALICE, "bob", False), ({}, "alice", False)])
async def test_admin_link_only_for_administrators(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, admins: dict[str, object], username: str, leads: bool
) -> None:
    site = Site(tmp_path, idp, django_pages, **admins)
    browser = site.browser()
    await browser.sign_in(username)
    assert ('href="/.gate/admin/"' in (await browser.get("/.gate/")).text) is leads
    await site.service.stop()


@pytest.mark.parametrize(("zone", "displayed"), [("UTC", "UTC"), ("Europe/Berlin", "CE"), ("Asia/Kolkata", "IST")])
async def test_times_have_the_configured_zone(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, zone: str, displayed: str) -> None:
    site = Site(tmp_path, idp, django_pages, time_zone=zone)
    browser = site.browser()
    await browser.sign_in()
    since = datetime.fromtimestamp((await site.sessions())[0].data["issued_at"], ZoneInfo(zone))
    text = (await browser.get("/.gate/")).text
    assert since.strftime("%-d %b %Y, %H:%M ") + displayed in text
    await site.service.stop()


async def test_sign_out_buttons(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    text = (await browser.get("/.gate/")).text
    buttons = re.findall("<button[^>]*>([^<]*)</button>", text)
    assert [each for each in buttons if each.startswith("Sign out")] == ["Sign out", "Sign out on all devices"]
    assert "in this browser" in text
    assert "in other browsers" in text


ROUTES: list[dict[str, Any]] = [
    {"from": "https://wiki.example.com", "title": "Team wiki", "category": "Docs", "allow_any_authenticated_user": True},
    {"from": "https://pay.example.com", "title": "Payroll", "allowed_groups": ["finance"]},
    {"from": "https://hidden.example.com", "title": "Hidden one", "allow_any_authenticated_user": True, "portal": "hide"},
    {"from": "https://lab.example.com", "title": "Lab", "allowed_groups": ["engineering"]},
    {"from": "https://office.example.com", "title": "Office", "policy": {"allow": {"source_ip": "192.0.2.0/24"}}},
]


@pytest.fixture
async def portal(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> AsyncIterator[Site]:
    site = Site(tmp_path, idp, django_pages, policy=[{"to": "http://127.0.0.1:1", **route} for route in ROUTES])
    yield site
    await site.service.stop()


async def signed_in(site: Site, username: str = "alice") -> Browser:
    browser = site.browser()
    await browser.get(site.idp.pick((await browser.get((await browser.get("/.gate/")).location)).location, username))
    return browser


async def titles(browser: Browser) -> list[str]:
    document = json.loads((await browser.get("/.gate/api/portal.json")).text)
    return [each["title"] for each in document["applications"]]


def form_of(page: str, **fields: str) -> dict[str, str]:
    return {"_gate_csrf": re.findall(r'name="_gate_csrf" value="([^"]+)"', page)[0], **fields}


def id_of(page: str, title: str) -> str:
    return re.findall(rf'value="([0-9a-f]{{16}})" aria-pressed="[a-z]*" aria-label="Favourite: {title}"', page)[0]


async def test_lists_only_accessible_applications(portal: Site) -> None:
    alice, bob = await signed_in(portal), await signed_in(portal, "bob")
    assert await titles(alice) == ["Team wiki", "Lab", "Office"]
    assert await titles(bob) == ["Team wiki", "Office"]
    page = (await bob.get("/.gate/")).text
    assert "Team wiki" in page
    for secret in ("Payroll", "pay.example.com", "Hidden", "hidden.example.com", "Lab", "lab.example.com"):
        assert secret not in page
    portal.client_address = "203.0.113.1"
    assert await titles(bob) == ["Team wiki"]


async def test_portal_json(portal: Site) -> None:
    document = json.loads((await (await signed_in(portal)).get("/.gate/api/portal.json")).text)
    wiki = {
        "title": "Team wiki",
        "description": "",
        "category": "Docs",
        "url": "https://wiki.example.com/",
        "tunnel_command": "",
        "mcp_url": "",
    }
    assert document["applications"][0] == {
        **wiki,
        "requires_step_up": False,
        "partial_access": False,
        "connection": None,
        "favourite": False,
    }
    assert (await portal.browser().get("/.gate/api/portal.json")).status == 401


async def test_check_access_does_not_disclose_routes(portal: Site) -> None:
    bob, answers = await signed_in(portal, "bob"), set[str]()
    for host in ("pay.example.com", "nope.example.com", "hidden.example.com", "https://lab.example.com/x?y#z", "[::x", "Payroll"):
        page = await bob.get("/.gate/why?" + urlencode({"address": host}))
        assert page.status == 200
        answers.add(re.sub("<time.*?</time>", "", page.text.replace(html.escape(host), "")))
    assert len(answers) == 1
    assert "Application not found" in answers.pop()
    for known in ("wiki.example.com", "HTTPS://wiki.example.com/page", "team wiki"):
        page = await bob.get("/.gate/why?" + urlencode({"address": known}))
        assert 'href="https://wiki.example.com/"' in page.text


async def test_a_favourite_outlives_the_session(portal: Site) -> None:
    alice = await signed_in(portal)
    page = (await alice.get("/.gate/")).text
    answer = await alice.post("/.gate/portal", form_of(page, favourite=id_of(page, "Lab")))
    assert (answer.status, answer.headers["location"]) == (303, f"/.gate/#a-{id_of(page, 'Lab')}")
    await alice.post("/.gate/signout/", form_of((await alice.get("/.gate/")).text))
    again = await signed_in(portal)
    assert "<h2>Favourites</h2>" in (await again.get("/.gate/")).text
    document = json.loads((await again.get("/.gate/api/portal.json")).text)
    assert [each["favourite"] for each in document["applications"]] == [False, True, False]
    assert "<h2>Favourites</h2>" not in (await (await signed_in(portal, "bob")).get("/.gate/")).text


async def test_opened_application_is_recorded(portal: Site) -> None:
    alice = await signed_in(portal)
    page = (await alice.get("/.gate/")).text
    assert (await alice.post("/.gate/portal", form_of(page, opened=id_of(page, "Lab")))).status == 204
    assert json.loads((await alice.get("/.gate/api/portal.json")).text)["recent"] == ["https://lab.example.com/"]
    assert "<h2>Recently used</h2>" in (await alice.get("/.gate/")).text


@pytest.mark.parametrize("field", ["favourite", "opened"])
async def test_unlisted_route_cannot_be_chosen_whether_it_exists(portal: Site, field: str) -> None:
    alice, bob = await signed_in(portal), await signed_in(portal, "bob")
    lab, page = id_of((await alice.get("/.gate/")).text, "Lab"), (await bob.get("/.gate/")).text
    there, nowhere = [await bob.post("/.gate/portal", form_of(page, **{field: id})) for id in (lab, "0" * 16)]
    assert (there.status, there.text) == (nowhere.status, nowhere.text) == (404, there.text)
    assert await portal.broker.page("portal_preferences", "", 10) == []


async def test_changes_need_a_csrf_token(portal: Site) -> None:
    alice, bob = await signed_in(portal), await signed_in(portal, "bob")
    page = (await alice.get("/.gate/")).text
    for token in ("", "x", form_of((await bob.get("/.gate/")).text)["_gate_csrf"]):
        assert (await alice.post("/.gate/portal", {"_gate_csrf": token, "favourite": id_of(page, "Lab")})).status == 400
    assert (await portal.browser().post("/.gate/portal", form_of(page, favourite=id_of(page, "Lab")))).status == 401
    assert (await alice.get("/.gate/portal")).status == 405
    assert await portal.broker.page("portal_preferences", "", 10) == []


async def test_content_security_policy(portal: Site) -> None:
    answer = await (await signed_in(portal)).get("/.gate/")
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert "unsafe" not in str(policy)
    assert policy["frame-ancestors"] == "'none'"
    assert policy["script-src"].split()[1:] == [f"{ORIGIN}/.gate/static/foundation/portal.js"]
    assert policy["connect-src"] == f"{ORIGIN}/.gate/portal"
    files = re.findall(r'(?:src|href)="/.gate/static/foundation/([^"?]+)\?v=[0-9a-f]{16}"', answer.text)
    assert sorted(files) == ["portal.css", "portal.js"]
    assert all((STATIC / name).is_file() for name in files)


async def test_an_icon_is_a_picture_and_nothing_else(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> None:
    (tmp_path / "logo.svg").write_bytes(b'<svg xmlns="http://www.w3.org/2000/svg"/>')
    site = Site(tmp_path, idp, django_pages, policy=[{"to": "http://127.0.0.1:1", **ROUTES[0], "icon": "logo.svg"}])
    browser = await signed_in(site)
    (path,) = re.findall('<img src="([^"]+)"', (await browser.get("/.gate/")).text)
    picture = await browser.get(path)
    assert (picture.status, picture.headers["content-type"]) == (200, "image/svg+xml")
    assert picture.headers["content-security-policy"] == "default-src 'none'; sandbox; frame-ancestors 'none'"
    assert picture.headers["x-content-type-options"] == "nosniff"
    assert (await browser.get("/.gate/icons/other.svg")).status == 404
    await site.service.stop()


async def all_pages(browser: Browser, path: str) -> str:
    """A page and those that follow it, leafed through."""
    text = ""
    while path:
        page = (await browser.get(path)).text
        path = html.unescape((re.findall('rel="next" href="([^"]+)"', page) or [""])[0])
        text += page
    return text


async def test_a_thousand_applications_are_small_pages(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> None:
    keys = {"to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
    head = '<svg xmlns="http://www.w3.org/2000/svg"><path d="'
    (tmp_path / "logo.svg").write_text(f'{head}{"M" * (MAX_LOGO_BYTES - len(head) - 9)}"/></svg>')  # the largest that there may be
    brand = {"name": "Example Corp", "logo": str(tmp_path / "logo.svg"), "accent": "#0b6e4f"}
    policy = [{"from": f"https://app-{number:04}.example.com", **keys} for number in range(1000)]
    site = Site(tmp_path, idp, django_pages, policy=policy, brand=brand)
    browser = await signed_in(site)
    assert len((await browser.get("/.gate/")).text) < 60_000
    seen = re.findall(r'<a href="https://app-([0-9]+)\.example\.com/">', await all_pages(browser, "/.gate/"))
    assert seen == [f"{number:04}" for number in range(1000)]
    searched = (await browser.get("/.gate/?q=app+example&page=3")).text
    assert "1,000 of 1,000 applications match" in searched
    assert 'rel="prev" href="/.gate/?q=app%20example&amp;page=2"' in searched
    for odd in ("x", "-1", "0", "99999999999999999999", "\u0663"):
        assert (await browser.get(f"/.gate/?page={quote(odd)}")).status == 200
    await site.service.stop()


async def test_without_broker_no_partial_page(portal: Site) -> None:
    alice = await signed_in(portal)
    page = (await alice.get("/.gate/")).text
    portal.broker.cut()
    for answer in (await alice.get("/.gate/"), await alice.post("/.gate/portal", form_of(page, favourite=id_of(page, "Lab")))):
        assert answer.status == 503
        assert "Team wiki" not in answer.text


async def test_any_policy_lists_only_accessible_applications(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = ["g1", "payroll"]
    monkeypatch.setitem(PEOPLE, "ann", {"email": "ann@corp.com", "email_verified": True, "groups": groups, "team": "a", "level": 1})
    policy = [{**route, "title": f"Title {number}.", "to": "http://127.0.0.1:1"} for number, route in enumerate(random_policy(7))]
    site = Site(tmp_path, idp, django_pages, policy=policy)
    browser, authorize, decisions = await signed_in(site, "ann"), site._authorize, Counter[bool]()
    (session,) = await site.sessions()
    address, cookies = {"source_ip": site.client_address}, SessionCookies(site.options)
    listed = set(await titles(browser))
    pages = [await all_pages(browser, path) for path in ("/.gate/", "/.gate/?q=title", "/.gate/why?address=title")]
    for route in authorize.routes.routes():
        page = EntryPoint.for_route(route, authorize.default_ports)
        start = (
            page.build_request(PolicyRequest("GET", "", None, "/", **address), [(b"accept", b"text/html")]) if page is not None else None
        )
        opens = False
        if start is not None:
            at_host = cookies_of(cookies, session.id, start.host_port, issued=session.data["issued_at"], expires=session.data["expires_at"])
            decision = (await authorize.check(start, [at_host.encode()])).decision
            opens = (
                decision.compiled_route is route and decision.outcome in (Outcome.ALLOWED, Outcome.STEP_UP) and route.route.portal != "hide"
            )
        decisions[opens] += 1
        assert (route.route.title in listed) is opens, route.route.title
        assert (f"<bdi>{route.route.title}</bdi>" in pages[0]) is opens
        assert opens or not any(f"{route.route.title}<" in text for text in pages)
    hosts = {route.route.from_.host for route in authorize.routes.routes()}
    displayed = {urlsplit(each["url"]).hostname for each in json.loads((await browser.get("/.gate/api/portal.json")).text)["applications"]}
    assert {host for host in hosts if any(re.search(rf"(?<![\w.-]){re.escape(host)}", text) for text in pages)} == displayed
    assert min(decisions[True], decisions[False]) > 50
    await site.service.stop()
