"""Sign-out: needs a CSRF token of this session, and ends it everywhere."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.conf import settings

from tests.support.authenticate_site import APP, ORIGIN, Browser, Response, Site
from tests.support.eventually import eventually
from tests.support.fake_idp import ABSENT, Answer
from tests.support.open_redirects import OPEN_REDIRECTS

PATHS = ["/.gate/signout/", "/.gate/signout", "/.gate/sign_out", "/.gate/sign_out/"]
URL = "/.gate/signout/"


def token_in(response: Response) -> str:
    match = re.search(r'name="_gate_csrf" value="([^"]+)"', response.text)
    assert match is not None, response.text
    return match[1]


async def signed_in(site: Site, sub: str = "alice") -> tuple[Browser, str]:
    browser = site.browser()
    await browser.sign_in(sub)
    return browser, token_in(await browser.get("/.gate/"))


async def test_the_button_of_the_dashboard_ends_the_session_everywhere(site: Site) -> None:
    browser, token = await signed_in(site)
    response = await browser.post(URL, {"_gate_csrf": token})
    assert response.status == 302
    assert await site.sessions() == []
    assert "_gate" not in browser.cookies


@pytest.mark.parametrize("path", PATHS)
async def test_every_spelling_signs_out_by_form_query_and_header(site: Site, path: str) -> None:
    ways = [
        lambda browser, token: browser.post(path, {"_gate_csrf": token}),
        lambda browser, token: browser.get(f"{path}?{urlencode({'_gate_csrf': token})}"),
        lambda browser, token: browser.post(path, {}, X_CSRF_Token=token),
        lambda browser, token: browser.get(path, X_CSRF_Token=token),
    ]
    for way in ways:
        browser, token = await signed_in(site)
        assert (await way(browser, token)).status == 302
        assert await site.sessions() == []


async def test_without_token_shows_confirmation(site: Site) -> None:
    browser, _ = await signed_in(site)
    for path in PATHS:
        for method in ("GET", "POST"):
            response = await browser.get(path, method=method)
            assert response.status == 400
            assert "Confirm" in response.text
            assert 'method="post"' in response.text
            assert "_gate" in browser.cookies
    assert len(await site.sessions()) == 1
    assert (await browser.post(URL, {"_gate_csrf": token_in(response)})).status == 302
    assert await site.sessions() == []


@pytest.mark.parametrize("token", ["", "x", "A" * 86, "A" * 85, "é", "\x00", "x" * 5000])
async def test_an_invalid_token_changes_nothing(site: Site, token: str) -> None:
    browser, _ = await signed_in(site)
    for response in (await browser.post(URL, {"_gate_csrf": token}), await browser.get(f"{URL}?{urlencode({'_gate_csrf': token})}")):
        assert response.status == 400
    assert len(await site.sessions()) == 1


async def test_token_of_another_user_changes_nothing(site: Site) -> None:
    alice, alices = await signed_in(site, "alice")
    bob, bobs = await signed_in(site, "bob")
    assert (await alice.post(URL, {"_gate_csrf": bobs})).status == 400
    # Nor with the other's cookie planted beside it: the token is bound to the session.
    alice.cookies["__Host-_gate_csrf"] = bob.cookies["__Host-_gate_csrf"]
    assert (await alice.post(URL, {"_gate_csrf": bobs})).status == 400
    assert (await bob.post(URL, {"_gate_csrf": alices})).status == 400
    assert len(await site.sessions()) == 2


async def test_a_token_without_its_cookie_changes_nothing(site: Site) -> None:
    browser, token = await signed_in(site)
    del browser.cookies["__Host-_gate_csrf"]
    assert (await browser.post(URL, {"_gate_csrf": token})).status == 400
    assert len(await site.sessions()) == 1


async def test_an_expired_token_changes_nothing(site: Site) -> None:
    browser, token = await signed_in(site)
    site.clock.ahead = 12 * 3600 + 1
    assert (await browser.post(URL, {"_gate_csrf": token})).status == 400
    assert len(await site.sessions()) == 1


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "LOGOUT"])
async def test_other_methods_change_nothing_even_with_a_token(site: Site, method: str) -> None:
    browser, token = await signed_in(site)
    response = await browser.get(
        f"{URL}?{urlencode({'_gate_csrf': token})}", method=method, X_CSRF_Token=token, X_HTTP_Method_Override="POST"
    )
    assert response.status in (204, 400, 405)
    assert len(await site.sessions()) == 1
    assert "_gate" in browser.cookies


async def test_the_session_ends_at_the_provider_too(site: Site) -> None:
    browser, token = await signed_in(site)
    response = await browser.post(URL, {"_gate_csrf": token})
    assert response.location.startswith(f"{site.idp.issuer}/end?")
    params = parse_qs(urlsplit(response.location).query)
    assert params["id_token_hint"][0].count(".") == 2
    assert params["client_id"] == ["gate"]
    assert "post_logout_redirect_uri" not in params
    assert "state" not in params
    await eventually(lambda: site.idp.count("/revoke") >= 2)
    revocations = [request for request in site.idp.requests if request.path == "/revoke"]
    assert [request.form["token_type_hint"] for request in revocations] == ["refresh_token", "access_token"]
    assert revocations[0].form["token"] == f"refresh-{revocations[1].form['token']}"
    assert all(request.headers["authorization"].startswith("Basic ") for request in revocations)


async def back_from_the_provider(site: Site, location: str, **more: str) -> Response:
    """As it sends a browser back, with the state that it was given."""
    params = parse_qs(urlsplit(location).query)
    assert params["post_logout_redirect_uri"] == [f"{ORIGIN}/.gate/signed_out"]
    return await site.browser().get(f"{ORIGIN}/.gate/signed_out?{urlencode({'state': params['state'][0], **more})}")


async def test_redirects_by_provider_to_the_target(site: Site) -> None:
    browser, token = await signed_in(site)
    response = await browser.post(URL, {"_gate_csrf": token, "gate_redirect_uri": f"{APP}/bye?x=1"})
    assert APP not in response.location
    assert (await back_from_the_provider(site, response.location)).location == f"{APP}/bye?x=1"
    site.clock.ahead = 3601
    assert "You are signed out" in (await back_from_the_provider(site, response.location)).text


@pytest.mark.parametrize("query", ["", "state=", "state=x", "state=A&state=B", "state=%ff", "gate_redirect_uri=https://app.example.com/"])
async def test_the_page_after_the_provider_leads_nowhere_by_itself(site: Site, query: str) -> None:
    response = await site.browser().get(f"/.gate/signed_out?{query}")
    assert response.status == 200
    assert "You are signed out" in response.text


async def test_every_flipped_character_of_the_state_leads_nowhere(site: Site) -> None:
    browser, token = await signed_in(site)
    response = await browser.post(URL, {"_gate_csrf": token, "gate_redirect_uri": f"{APP}/bye"})
    state = parse_qs(urlsplit(response.location).query)["state"][0]
    for at in range(0, len(state), 7):
        bent = state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]
        assert (await site.browser().get(f"/.gate/signed_out?state={bent}")).status == 200


async def test_a_long_target_loses_its_query_not_its_host(site: Site) -> None:
    browser, token = await signed_in(site)
    response = await browser.post(URL, {"_gate_csrf": token, "gate_redirect_uri": f"{APP}/bye?{'x' * 3000}"})
    assert (await back_from_the_provider(site, response.location)).location == f"{APP}/bye"


async def test_an_id_token_too_long_for_a_url_stays_at_home(site: Site) -> None:
    site.idp.bend.claims = {"groups": ["g" * 50] * 200}
    browser, token = await signed_in(site)
    params = parse_qs(urlsplit((await browser.post(URL, {"_gate_csrf": token})).location).query)
    assert params == {"client_id": ["gate"]}


async def test_provider_without_logout_endpoint(site: Site) -> None:
    site.idp.bend.discovery = {"end_session_endpoint": ABSENT, "revocation_endpoint": ABSENT}
    browser, token = await signed_in(site)
    response = await browser.post(URL, {"_gate_csrf": token})
    assert response.status == 200
    assert "You are signed out" in response.text
    assert await site.sessions() == []


async def test_unavailable_provider_does_not_block_sign_out(site: Site) -> None:
    browser, token = await signed_in(site)
    for path in ("/revoke", "/.well-known/openid-configuration"):
        site.idp.bend.answers[path] = Answer(500)
    site.clock.ahead = 26_000  # the document is forgotten
    response = await browser.post(URL, {"_gate_csrf": token})
    assert response.status == 200
    assert await site.sessions() == []


@pytest.mark.parametrize("endpoint", ["", ABSENT], ids=["ends its session", "has no endpoint"])
async def test_redirects_by_provider_to_the_post_logout_page(tmp_path: Path, site: Site, endpoint: object) -> None:
    own = Site(tmp_path, site.idp, site._django_pages, signout_redirect_url=f"{ORIGIN}/.gate/signed_out")
    site.idp.bend.discovery = {"end_session_endpoint": endpoint or f"{site.idp.issuer}/end"}
    browser, token = await signed_in(own)
    location = (await browser.post(URL, {"_gate_csrf": token})).location
    if not endpoint:
        assert location.startswith(f"{site.idp.issuer}/end?")
        params = parse_qs(urlsplit(location).query)
        assert params["client_id"] == ["gate"]
        assert params["id_token_hint"][0].count(".") == 2
        (location,) = params["post_logout_redirect_uri"]
    assert location == f"{ORIGIN}/.gate/signed_out"
    page = await browser.get(location)
    assert (page.status, "You are signed out" in page.text) == (200, True)


async def test_signout_redirect_url(tmp_path: Path, site: Site) -> None:
    goodbye = Site(tmp_path, site.idp, site._django_pages, signout_redirect_url="https://www.example.com/bye")
    site.idp.bend.discovery = {"end_session_endpoint": ABSENT}
    browser, token = await signed_in(goodbye)
    assert (await browser.post(URL, {"_gate_csrf": token})).location == "https://www.example.com/bye"
    browser, token = await signed_in(goodbye)
    assert (await browser.post(URL, {"_gate_csrf": token, "gate_redirect_uri": f"{APP}/x"})).location == f"{APP}/x"
    browser, token = await signed_in(goodbye)
    assert (
        await browser.post(URL, {"_gate_csrf": token, "gate_redirect_uri": "https://evil.example/"})
    ).location == "https://www.example.com/bye"
    await goodbye.service.stop()


async def test_sign_out_leads_to_no_stranger(site: Site) -> None:
    # Sign-out works without a session, so these cases need no sign-in.
    browser = site.browser()
    for target in OPEN_REDIRECTS:
        page = await browser.get(f"{URL}?{urlencode({'gate_redirect_uri': target})}")
        assert "gate_redirect_uri" not in page.text, target
        response = await browser.post(URL, {"_gate_csrf": token_in(page), "gate_redirect_uri": target})
        assert response.status == 200, target
        assert "location" not in response.headers


async def test_the_confirmation_keeps_the_target(site: Site) -> None:
    browser = site.browser()
    page = await browser.get(f"{URL}?{urlencode({'gate_redirect_uri': f'{APP}/bye'})}")
    assert f'name="gate_redirect_uri" value="{APP}/bye"' in page.text
    response = await browser.post(URL, {"_gate_csrf": token_in(page), "gate_redirect_uri": f"{APP}/bye"})
    assert response.location == f"{APP}/bye"


async def test_sign_out_json(site: Site) -> None:
    browser, token = await signed_in(site)
    response = await browser.get(URL, accept="application/json")
    assert (response.status, response.headers["content-type"]) == (400, "application/json")
    site.idp.bend.discovery = {"end_session_endpoint": ABSENT}
    site.clock.ahead = 26_000  # the document is forgotten
    response = await browser.post(URL, {"_gate_csrf": token}, accept="application/json")
    assert (response.status, response.headers["content-type"]) == (200, "application/json")


async def test_pages_with_a_form_that_ends_at_the_provider_do_not_forbid_it(site: Site) -> None:
    """Chromium applies form-action to the redirects after a form, so naming 'self' would stop the way to the provider."""
    browser, _ = await signed_in(site)
    for path in (URL, "/.gate/"):
        policy = (await browser.get(path)).headers["content-security-policy"]
        assert "form-action" not in policy
        assert "frame-ancestors 'none'" in policy


EVERYWHERE = {"gate_everywhere": "yes"}


async def test_all_devices_ends_all_sessions_of_the_user(site: Site) -> None:
    await signed_in(site)
    await signed_in(site, "bob")
    browser, token = await signed_in(site)
    assert (await browser.post(URL, {"_gate_csrf": token, **EVERYWHERE})).status == 302
    assert [record.data["subject"] for record in await site.sessions()] == ["bob"]


@pytest.mark.parametrize("way", ["without a token", "another person's token", "by a link", "by a script without a token"])
async def test_all_devices_needs_the_session(site: Site, way: str) -> None:
    await signed_in(site)
    browser, token = await signed_in(site)
    _, bobs = await signed_in(site, "bob")
    match way:
        case "without a token":
            await browser.post(URL, EVERYWHERE)
        case "another person's token":
            await browser.post(URL, {"_gate_csrf": bobs, **EVERYWHERE})
        case "by a link":  # with proof it is a sign-out, of this browser alone
            assert (await browser.get(f"{URL}?{urlencode({'_gate_csrf': token, **EVERYWHERE})}")).status == 302
        case _:
            await browser.post(URL, EVERYWHERE, X_CSRF_Token="A" * 86)
    subjects = sorted(record.data["subject"] for record in await site.sessions())
    assert subjects == ["alice", *(["alice"] if way != "by a link" else []), "bob"]


async def test_confirmation_offers_all_devices(site: Site) -> None:
    browser, _ = await signed_in(site)
    assert "on all devices" in (await browser.get(URL)).text
    assert "on all devices" not in (await site.browser().get(URL)).text


async def test_signed_out_page(site: Site) -> None:
    site.idp.bend.discovery = {"end_session_endpoint": ABSENT}
    for more, text in ((EVERYWHERE, "on all devices"), ({}, "in this browser")):
        browser, token = await signed_in(site)
        assert text in (await browser.post(URL, {"_gate_csrf": token, **more})).text
        browser, token = await signed_in(site)
        answer = await browser.post(URL, {"_gate_csrf": token, **more}, accept="application/json")
        assert ("on all devices" in answer.text) is bool(more)


async def test_clears_all_gate_cookies(site: Site) -> None:
    browser, token = await signed_in(site)
    browser.cookies |= {settings.SESSION_COOKIE_NAME: "x", settings.CSRF_COOKIE_NAME: "x", "theirs": "1"}
    await browser.post(URL, {"_gate_csrf": token})
    assert browser.cookies == {"theirs": "1"}
