"""The way to the provider, and straight back for who is signed in already."""

import base64
import hashlib
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.authenticate_site import APP, ATTEMPT, HOST, ORIGIN, Site
from tests.support.fake_idp import Answer
from tests.support.open_redirects import OPEN_REDIRECTS


def query_of(location: str) -> dict[str, str]:
    query = parse_qs(urlsplit(location).query, strict_parsing=True)
    assert all(len(values) == 1 for values in query.values())
    return {name: values[0] for name, values in query.items()}


async def test_a_browser_without_session_is_sent_to_the_provider_with_state_nonce_and_pkce(site: Site) -> None:
    browser = site.browser()
    location = await browser.to_provider()
    assert location.startswith(f"{site.idp.issuer}/authorize?")
    params = query_of(location)
    assert params["response_type"] == "code"
    assert params["client_id"] == "gate"
    assert params["redirect_uri"] == f"{ORIGIN}/oauth2/callback"
    assert params["scope"] == "openid profile email offline_access"
    assert params["code_challenge_method"] == "S256"
    claims = site.service.attempts.find(params["state"], [_cookie(browser)], HOST, site.clock())
    assert claims is not None
    assert claims["nonce"] == params["nonce"]
    digest = hashlib.sha256(claims["verifier"].encode()).digest()
    assert params["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


async def test_state_nonce_and_verifier_are_new_and_long_for_each_attempt(site: Site) -> None:
    browser = site.browser()
    attempts = [query_of(await browser.to_provider()) for _ in range(5)]
    for name, characters in (("state", 22), ("nonce", 43), ("code_challenge", 43)):
        values = {attempt[name] for attempt in attempts}
        assert len(values) == 5
        assert all(len(value) >= characters for value in values)


async def test_the_attempt_is_hidden_in_a_cookie_that_scripts_and_other_hosts_do_not_get(site: Site) -> None:
    response = await site.browser().get(site.sign_in_url())
    (cookie,) = response.set_cookies
    assert cookie.startswith("__Host-_gate_signin_")
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "secure", "samesite=lax", "max-age=600"} <= attributes
    assert not any(attribute.startswith("domain") for attribute in attributes)
    assert "no-store" in response.headers["cache-control"]


async def test_a_signed_in_browser_is_handed_over_at_once(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    requests = len(site.idp.requests)
    response = await browser.get(site.sign_in_url("https://other.example.com:8443/x?y=z", "b" * 22))
    assert response.location.startswith("https://other.example.com:8443/.gate/callback/?gate_session=")
    over = site.open_handoff(response.location, "other.example.com:8443")
    assert (over.redirect_uri, over.attempt_id) == ("https://other.example.com:8443/x?y=z", "b" * 22)
    assert len(site.idp.requests) == requests


async def test_pages_of_authenticate_host_need_no_handoff(site: Site) -> None:
    browser = site.browser()
    url = site.service.browser_redirects.sign_in_url("/.gate/admin/")
    location = (await browser.get(url)).location
    assert (await browser.get(site.idp.pick(location, "alice"))).location == f"{ORIGIN}/.gate/admin/"
    assert (await browser.get(url)).location == f"{ORIGIN}/.gate/admin/"


@pytest.mark.parametrize("change", ["gate_redirect_uri=https%3A%2F%2Fevil.example", "x=y", "gate_attempt=b"])
async def test_a_changed_link_is_refused(site: Site, change: str) -> None:
    response = await site.browser().get(f"{site.sign_in_url()}&{change}")
    assert response.status == 400
    assert "link is incomplete" in response.text


@pytest.mark.parametrize(
    "query", ["", "?gate_redirect_uri=https://app.example.com/", "?gate_signature=x&gate_issued=1&gate_expiry=2", "?%ff=1"]
)
async def test_an_unsigned_link_is_refused(site: Site, query: str) -> None:
    assert (await site.browser().get(f"/.gate/sign_in{query}")).status == 400


async def test_an_old_link_offers_the_page_it_led_to(site: Site) -> None:
    url = site.sign_in_url(f"{APP}/reports")
    site.clock.ahead = 361
    response = await site.browser().get(url)
    assert response.status == 400
    assert "has expired" in response.text
    assert f'href="{APP}/reports"' in response.text


async def test_an_old_link_to_a_stranger_offers_nothing(site: Site) -> None:
    url = site.sign_in_url("https://evil.example/")
    site.clock.ahead = 361
    assert "evil.example" not in (await site.browser().get(url)).text


async def test_signed_link_leads_to_gate_hosts_only(site: Site) -> None:
    for target in OPEN_REDIRECTS:
        browser = site.browser()
        response = await browser.get(site.sign_in_url(target))
        assert response.status == 400, target
        assert browser.cookies == {}


@pytest.mark.parametrize("attempt", ["", "a", "a" * 23, "a" * 21 + ";", "a" * 21 + "é"])
async def test_a_link_to_a_route_host_needs_the_attempt_of_that_host(site: Site, attempt: str) -> None:
    assert (await site.browser().get(site.sign_in_url(attempt=attempt))).status == 400


@pytest.mark.parametrize(
    "answer",
    [Answer(500), Answer(404), Answer(200, b"no JSON"), Answer(200, b"{}"), Answer(302, headers={"Location": "/x"})],
    ids=["500", "404", "text", "empty", "redirect"],
)
async def test_while_the_provider_is_down_there_is_a_503_page_with_a_retry(site: Site, answer: Answer) -> None:
    site.idp.bend.answers["/.well-known/openid-configuration"] = answer
    response = await site.browser().get(site.sign_in_url(f"{APP}/reports"))
    assert response.status == 503
    assert response.headers["retry-after"] == "30"
    assert f'href="{APP}/reports"' in response.text


async def test_while_the_provider_is_down_sessions_go_on_and_sign_in_recovers_with_it(site: Site) -> None:
    signed_in, other = site.browser(), site.browser()
    await signed_in.sign_in()
    site.clock.ahead = 26_000  # the document is forgotten
    site.idp.bend.answers["/.well-known/openid-configuration"] = Answer(500)
    assert (await other.get(site.sign_in_url())).status == 503
    assert (await signed_in.get(site.sign_in_url())).status == 302
    assert (await signed_in.get("/.gate/")).status == 200
    site.idp.bend.answers.clear()
    site.clock.ahead += 3
    assert (await other.get(site.sign_in_url())).status == 302


async def test_a_session_cookie_of_a_route_host_is_no_session_here(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    (record,) = await site.sessions()
    session = await site.service.sessions.find([_cookie(browser)], HOST, site.clock())
    assert session is not None
    stranger = site.browser()
    for each in site.service.sessions.set_cookies(session, "app.example.com", site.clock()):
        name, _, value = each.partition(";")[0].partition("=")
        stranger.cookies[name] = value
    assert (await stranger.get(site.sign_in_url())).location.startswith(site.idp.issuer)
    assert record.id == session.id


async def test_a_planted_cookie_does_not_hide_the_real_one(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    real, binding = browser.cookies.pop("_gate"), browser.cookies.pop("__Host-_gate")
    for header in (f"_gate=planted; _gate={real}", f"_gate={real}; _gate=planted", f'_gate="{real}"; _gate={real}'):
        assert (await browser.get(site.sign_in_url(), cookie=f"{header}; __Host-_gate={binding}")).location.startswith(APP)


async def test_session_without_binding_cookie_signs_in_again(site: Site) -> None:
    """Also who has another one beside it: what can be cleared is, and nothing goes round in circles."""
    browser = site.browser()
    await browser.sign_in()
    old = browser.cookies["_gate"]
    browser.cookies = {"_gate": old}
    assert (await browser.sign_in()).location.startswith(APP)
    assert (await browser.get(site.sign_in_url())).location.startswith(APP)
    sent = {"cookie": f"_gate={old}; _gate={browser.cookies['_gate']}"}
    response = await site.browser().get(site.sign_in_url(), **sent)
    assert response.location.startswith(site.idp.issuer)
    cleared = [each for each in response.set_cookies if each.startswith("_gate=;")]
    assert {each.partition("Path=")[2].partition(";")[0] for each in cleared} == {
        "/",
        "/.gate",
        "/.gate/",
        "/.gate/sign_in",
        "/.gate/sign_in/",
    }
    assert {each.partition("Domain=")[2].partition(";")[0] for each in cleared} == {"", "example.com", "auth.example.com"}


async def test_attempts_per_browser_are_limited(site: Site) -> None:
    browser = site.browser()
    for _ in range(12):
        await browser.to_provider()
    assert len([name for name in browser.cookies if name.startswith("__Host-_gate_signin_")]) == 8


async def test_a_url_too_long_for_a_cookie_still_signs_in(site: Site) -> None:
    browser = site.browser()
    response = await browser.sign_in(target=f"{APP}/reports?{'q' * 5000}")
    assert site.open_handoff(response.location).redirect_uri == f"{APP}/reports"
    assert all(len(value) < 3800 for value in browser.cookies.values())


async def test_sign_in_by_post_is_not_possible(site: Site) -> None:
    assert (await site.browser().post(site.sign_in_url(attempt=ATTEMPT), {})).status == 405


def _cookie(browser: object) -> bytes:
    return "; ".join(f"{name}={value}" for name, value in browser.cookies.items()).encode()  # type: ignore[attr-defined]
