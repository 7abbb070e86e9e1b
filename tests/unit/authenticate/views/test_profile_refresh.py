"""Refreshing by hand: with proof, not too often, and never a way to keep a session that the provider has ended."""

import re

import pytest

from databroker.records import SESSION, SessionRecord
from tests.support.authenticate_site import Browser, Response, Site
from tests.support.fake_idp import Answer

URL = "/.gate/refresh"


async def signed_in(site: Site) -> tuple[Browser, str]:
    browser = site.browser()
    await browser.sign_in()
    page = await browser.get("/.gate/")
    assert f'formaction="{URL}"' in page.text
    token = re.search(r'name="_gate_csrf" value="([^"]+)"', page.text)
    assert token is not None
    return browser, token[1]


async def pressed(browser: Browser, token: str, **headers: str) -> Response:
    return await browser.post(URL, {"_gate_csrf": token}, **headers)


async def the_session(site: Site) -> SessionRecord:
    (record,) = await site.broker.page(SESSION, "", 10)
    return SessionRecord.from_record(record)


async def test_refresh_loads_new_claims(site: Site) -> None:
    browser, token = await signed_in(site)
    site.idp.bend.userinfo = {"groups": ["board"]}
    response = await pressed(browser, token)
    assert (response.status, response.headers["location"]) == (303, "/.gate/")
    assert "board" in (await browser.get("/.gate/")).text
    assert site.idp.refreshed == 1


async def test_not_more_often_than_the_cooldown_allows(site: Site) -> None:
    browser, token = await signed_in(site)
    assert (await pressed(browser, token)).status == 303
    response = await pressed(browser, token)
    assert response.status == 429
    assert 0 < int(response.headers["retry-after"]) <= 301
    site.clock.ahead = 301
    assert (await pressed(browser, token, accept="application/json")).status == 200
    assert site.idp.refreshed == 2


@pytest.mark.parametrize("token", ["", "x", "stolen"])
async def test_without_proof_nothing_happens(site: Site, token: str) -> None:
    browser, _ = await signed_in(site)
    if token == "stolen":
        _, token = await signed_in(site)
    assert (await pressed(browser, token)).status == 400
    assert (await browser.get(URL)).status == 405
    assert site.idp.refreshed == 0


async def test_refresh_needs_a_session(site: Site) -> None:
    assert (await pressed(site.browser(), "x")).status == 401


async def test_a_provider_that_refuses_ends_the_session(site: Site) -> None:
    browser, token = await signed_in(site)
    site.idp.bend.answers["/token"] = Answer(400, b'{"error": "invalid_grant"}')
    response = await pressed(browser, token)
    assert response.status == 401
    assert "has ended" in response.text
    assert await site.sessions() == []


async def test_a_provider_in_trouble_changes_nothing_but_counts(site: Site) -> None:
    browser, token = await signed_in(site)
    before = await the_session(site)
    site.idp.bend.answers["/token"] = Answer(500)
    response = await pressed(browser, token)
    assert response.status == 503
    assert (await the_session(site)).access_token == before.access_token
    assert (await pressed(browser, token)).status == 429


async def test_while_another_refreshes_it_waits(site: Site) -> None:
    browser, token = await signed_in(site)
    async with site.service.refresh._exclusive((await the_session(site)).id):
        assert (await pressed(browser, token)).status == 429
