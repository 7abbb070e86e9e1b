"""Who am I: the page and its JSON."""

import json
import re
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.core.handlers.asgi import ASGIHandler

from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryUser
from foundation.pages import TIMES_SCRIPT
from tests.support.authenticate_site import ORIGIN, Site
from tests.support.fake_idp import PEOPLE, FakeIdP


async def test_without_a_session_the_page_leads_to_sign_in_and_back(site: Site) -> None:
    browser = site.browser()
    location = (await browser.get("/.gate/")).location
    assert location.startswith(f"{ORIGIN}/.gate/sign_in?")
    provider = (await browser.get(location)).location
    assert (await browser.get(site.idp.pick(provider, "alice"))).location == f"{ORIGIN}/.gate/"
    page = await browser.get("/.gate/")
    assert page.status == 200
    for text in ("Alice Adams", "alice@corp.example", "oidc/alice", "engineering", "Sign out"):
        assert text in page.text


async def test_programs_without_a_session_get_401_as_json(site: Site) -> None:
    response = await site.browser().get("/.gate/", accept="application/json")
    assert response.status == 401
    assert json.loads(response.text)["reason"] == "You are not signed in."


async def test_the_json_tells_identity_groups_session_and_claims(site: Site) -> None:
    await site.broker.put(DIRECTORY_USER, "oidc/alice", DirectoryUser("oidc/alice", group_ids=("g1", "g2")).to_data())
    await site.broker.put(DIRECTORY_GROUP, "g1", DirectoryGroup("g1", "Admins", "admins@corp.example").to_data())
    browser = site.browser()
    await browser.sign_in()
    person = json.loads((await browser.get("/.gate/", accept="application/json")).text)
    assert person["user"] == {"id": "oidc/alice", "name": "Alice Adams", "email": "alice@corp.example", "email_verified": True}
    assert person["groups"] == [
        {"id": "g1", "name": "Admins", "email": "admins@corp.example"},
        {"id": "g2", "name": "g2", "email": ""},
        {"id": "engineering", "name": "engineering", "email": ""},
    ]
    assert person["session"]["provider"] == "oidc"
    assert person["claims"]["sub"] == "alice"


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
    page = (await browser.get("/.gate/")).text.replace(f"<script>{TIMES_SCRIPT}</script>", "")
    assert not re.search(r"<(img|script|b|i|u)\b", page)
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


@pytest.mark.parametrize(("admins", "person", "leads"), [(ALICE, "alice", True), (ALICE, "bob", False), ({}, "alice", False)])
async def test_administrators_are_led_to_the_admin_and_nobody_else(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, admins: dict[str, object], person: str, leads: bool
) -> None:
    site = Site(tmp_path, idp, django_pages, **admins)
    browser = site.browser()
    await browser.sign_in(person)
    assert ('href="/.gate/admin/"' in (await browser.get("/.gate/")).text) is leads
    await site.service.stop()


@pytest.mark.parametrize(("zone", "shown"), [("UTC", "UTC"), ("Europe/Berlin", "CE"), ("Asia/Kolkata", "IST")])
async def test_times_are_told_with_the_zone_that_the_operator_chose(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, zone: str, shown: str
) -> None:
    site = Site(tmp_path, idp, django_pages, time_zone=zone)
    browser = site.browser()
    await browser.sign_in()
    since = datetime.fromtimestamp((await site.sessions())[0].data["issued"], ZoneInfo(zone))
    text = (await browser.get("/.gate/")).text
    assert since.strftime("%-d %b %Y, %H:%M ") + shown in text
    await site.service.stop()


async def test_each_way_to_sign_out_says_what_it_does(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    text = (await browser.get("/.gate/")).text
    assert [*re.findall("<button[^>]*>([^<]*)</button>", text)][:2] == ["Sign out", "Sign out on all devices"]
    assert "in this browser, for every application" in text
    assert "in every other browser, too, and for the programs" in text


async def test_what_the_directory_says_of_another_issuer_s_people_is_not_shown(site: Site) -> None:
    other = "https://other.example"
    await site.broker.put(DIRECTORY_USER, "oidc/alice", DirectoryUser("oidc/alice", group_ids=("g1",), issuer=other).to_data())
    await site.broker.put(DIRECTORY_GROUP, "engineering", DirectoryGroup("engineering", "Theirs", issuer=other).to_data())
    browser = site.browser()
    await browser.sign_in()
    person = json.loads((await browser.get("/.gate/", accept="application/json")).text)
    assert person["groups"] == [{"id": "engineering", "name": "engineering", "email": ""}]
