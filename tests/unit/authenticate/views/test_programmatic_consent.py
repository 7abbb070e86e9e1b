"""Consent page: only the signed-in user allows a client application, on this page (classes B9, B12)."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from foundation.crypto.handoff import TO_CLIENT_APPLICATION, Handoff, HandoffTokens
from tests.support.authenticate_site import APP, ORIGIN, Browser, Response, Site
from tests.support.cookies import of_jar

PROGRAM = "http://localhost:7000/cb"


def start_url(site: Site, *, callback: str = f"{APP}/.gate/callback/", to: str = PROGRAM, **parameters: str) -> str:
    """Return the request that a route host builds for programmatic access."""
    params = {"gate_redirect_uri": to, "gate_callback_uri": callback, "gate_programmatic": "true", **parameters}
    return site.service.signer.sign(f"{ORIGIN}/.gate/sign_in", params, site.clock())


async def open_page(site: Site, browser: Browser) -> Response:
    """The page that asks a signed-in person."""
    return await browser.get((await browser.get(start_url(site))).location)


def form_of(page: Response) -> dict[str, str]:
    return dict(re.findall(r'name="([^"]+)" value="([^"]*)"', page.text))


def open_handoff(site: Site, location: str) -> Handoff:
    parts = urlsplit(location)
    assert (parts.netloc, parts.path) == ("app.example.com", "/.gate/callback/")
    query = parse_qs(parts.query)
    assert query["gate_programmatic"] == ["true"]
    return HandoffTokens(site.options, TO_CLIENT_APPLICATION).open(query["gate_session"][0], "app.example.com", site.clock())


async def test_consent_is_granted(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    page = await open_page(site, browser)
    assert page.status == 200
    for text in ("alice@corp.example", "app.example.com", "localhost:7000"):
        assert text in page.text
    response = await browser.post(f"{ORIGIN}/.gate/program", form_of(page))
    assert response.status == 303
    opened = open_handoff(site, response.headers["location"])
    ((record),) = await site.sessions()
    assert (opened.session_id, opened.redirect_uri) == (record.id, PROGRAM)
    assert "A program at <code>localhost:7000</code> has your access to app.example.com" in (await browser.get("/.gate/sessions")).text


async def test_sign_in_precedes_consent(site: Site) -> None:
    browser = site.browser()
    question = (await browser.get(start_url(site))).location
    to_sign_in = (await browser.get(question)).location
    back = await browser.get(site.idp.pick((await browser.get(to_sign_in)).location, "alice"))
    assert back.location == question
    assert "localhost:7000" in (await browser.get(question)).text


async def test_step_up_precedes_consent(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    weak = form_of(await open_page(site, browser))
    question = (await browser.get(start_url(site, gate_acr_values="mfa", gate_max_age="900"))).location
    to_sign_in = (await browser.get(question)).location
    assert to_sign_in.startswith(f"{ORIGIN}/.gate/sign_in?")
    # A weak session that satisfied the page does not satisfy this client's step-up.
    agreed = await browser.post(f"{ORIGIN}/.gate/program", {**weak, "request": parse_qs(urlsplit(question).query)["request"][0]})
    assert agreed.location.startswith(f"{ORIGIN}/.gate/sign_in?")
    to_provider = (await browser.get(to_sign_in)).location
    params = parse_qs(urlsplit(to_provider).query)
    assert (params["acr_values"], params["max_age"]) == (["mfa"], ["900"])
    site.idp.bend.claims = {"acr": "mfa"}
    assert (await browser.get(site.idp.pick(to_provider, "alice"))).location == question
    response = await browser.post(f"{ORIGIN}/.gate/program", form_of(await browser.get(question)))
    opened = open_handoff(site, response.headers["location"])
    strong = await site.service.sessions.find([of_jar(browser.cookies).encode()], "auth.example.com", site.clock())
    assert strong is not None
    assert (opened.session_id, strong.claims["acr"]) == (strong.id, "mfa")


async def test_opening_the_link_grants_nothing(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    page = await open_page(site, browser)
    assert "localhost:7000/cb" not in page.headers.get("location", "")
    assert page.headers["content-security-policy"].count("frame-ancestors 'none'") == 1


@pytest.mark.parametrize("token", ["", "x", "another person's", "none"])
async def test_other_sites_cannot_consent(site: Site, token: str) -> None:
    browser, mallory = site.browser(), site.browser()
    await browser.sign_in()
    await mallory.sign_in("bob")
    form = form_of(await open_page(site, browser))
    form["_gate_csrf"] = form_of(await open_page(site, mallory))["_gate_csrf"] if token == "another person's" else token
    if token == "none":
        del form["_gate_csrf"]
    response = await browser.post(f"{ORIGIN}/.gate/program", form)
    assert (response.status, response.headers.get("location")) == (200, None)
    query = f"request={form['request']}&_gate_csrf={form_of(await open_page(site, browser))['_gate_csrf']}"
    assert (await browser.get(f"{ORIGIN}/.gate/program?{query}")).status == 200, "a GET never agrees"


async def test_an_answer_after_the_session_has_ended_counts_for_nothing(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    form = form_of(await open_page(site, browser))
    for record in await site.sessions():
        await site.broker.delete(record.type, record.id)
    response = await browser.post(f"{ORIGIN}/.gate/program", form)
    assert response.location.startswith(f"{ORIGIN}/.gate/sign_in?")


@pytest.mark.parametrize(
    "callback",
    ["https://evil.example/.gate/callback/", f"{APP}/steal", f"{ORIGIN}/.gate/callback/x", f"{APP}/.gate/callback/?x=1", ""],
)
async def test_a_token_goes_by_way_of_a_route_s_callback_only(site: Site, callback: str) -> None:
    browser = site.browser()
    await browser.sign_in()
    assert (await browser.get(start_url(site, callback=callback))).status == 400


async def test_refuses_unsigned_and_expired_requests(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    url = start_url(site)
    assert (await browser.get(url.replace("7000", "7001"))).status == 400
    question = (await browser.get(url)).location
    assert (await browser.get(question + "x")).status == 400
    assert (await browser.get(f"{ORIGIN}/.gate/program")).status == 400
    site.clock.ahead = 901
    assert (await browser.get(question)).status == 400
    assert (await browser.get(url)).status == 400
