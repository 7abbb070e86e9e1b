"""The way to a stronger sign-in and back: asked for once, pressed for once, and then explained; never a loop, never a weaker session."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from databroker.records import SESSION
from tests.support.authenticate_site import APP, ATTEMPT, ORIGIN, Browser, Response, Site
from tests.support.cookies import of_jar
from tests.support.fake_idp import ABSENT


def step_up_url(site: Site, **requirements: str) -> str:
    """As the data plane makes it for a route that asks for it."""
    params = {"gate_redirect_uri": f"{APP}/wages", "gate_attempt": ATTEMPT, **requirements}
    return site.service.signer.sign(f"{ORIGIN}/.gate/sign_in", params, site.clock())


MFA, RECENT = {"gate_acr_values": "mfa hw"}, {"gate_max_age": "900"}


async def request_to_provider(site: Site, browser: Browser, **requirements: str) -> tuple[str, dict[str, str]]:
    url = (await browser.get(step_up_url(site, **requirements))).location
    return url, {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


async def answered(site: Site, browser: Browser, url: str, sub: str = "alice", **claims: Any) -> Response:
    site.idp.bend.claims = claims
    return await browser.get(site.idp.pick(url, sub))


def is_home(response: Response) -> bool:
    return response.location.startswith(f"{APP}/.gate/callback/?gate_session=")


async def test_first_sign_in_requests_step_up(site: Site) -> None:
    browser = site.browser()
    url, params = await request_to_provider(site, browser, **MFA, **RECENT)
    assert (params["acr_values"], params["max_age"], "prompt" in params) == ("mfa hw", "900", False)
    assert is_home(await answered(site, browser, url, acr="hw", auth_time=int(site.clock())))


async def test_a_session_that_is_strong_enough_goes_straight_back(site: Site) -> None:
    browser = site.browser()
    site.idp.bend.claims = {"acr": "mfa", "auth_time": int(site.clock())}
    await browser.sign_in()
    assert is_home(await browser.get(step_up_url(site, **MFA, **RECENT)))
    site.clock.ahead = 901
    assert (await browser.get(step_up_url(site, **RECENT))).location.startswith(site.idp.issuer)


async def test_weak_sign_in_is_retried_once(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    (before,) = await site.sessions()
    url, params = await request_to_provider(site, browser, **MFA)
    assert "prompt" not in params
    second = (await answered(site, browser, url, acr="pwd")).location
    params = {name: values[0] for name, values in parse_qs(urlsplit(second).query).items()}
    assert second.startswith(site.idp.issuer)
    assert (params["acr_values"], params["prompt"]) == ("mfa hw", "login")
    response = await answered(site, browser, second, acr="pwd")
    assert response.status == 403
    assert "stronger sign-in method" in response.text
    assert "Try again" in response.text
    assert f"{APP}/wages" in response.text
    # The session that was there is as it was, and no other came of it.
    assert [record.id for record in await site.sessions()] == [before.id]
    assert await site.service.sessions.find([of_jar(browser.cookies).encode()], "auth.example.com", site.clock()) is not None


async def test_pressing_may_help(site: Site) -> None:
    browser = site.browser()
    url, _ = await request_to_provider(site, browser, **MFA)
    second = (await answered(site, browser, url, acr=ABSENT)).location
    assert is_home(await answered(site, browser, second, acr="mfa"))


async def test_an_old_session_is_pressed_for_at_once(site: Site) -> None:
    browser = site.browser()
    site.idp.bend.claims = {"auth_time": int(site.clock())}
    await browser.sign_in()
    site.clock.ahead = 901
    url, params = await request_to_provider(site, browser, **RECENT)
    assert (params["max_age"], params["prompt"]) == ("900", "login")
    response = await answered(site, browser, url, auth_time=int(site.clock()) - 1000)
    assert response.status == 403
    assert "too old" in response.text
    url, _ = await request_to_provider(site, browser, **RECENT)
    assert is_home(await answered(site, browser, url, auth_time=int(site.clock())))


async def test_missing_auth_time_is_refused(site: Site) -> None:
    """A provider that sends `auth_time` only on request, and a user who removes that parameter from the request."""
    site.idp.bend.discovery = {"claims_parameter_supported": True}
    browser = site.browser()
    assert (await browser.sign_in()).status == 302
    (before,) = await site.sessions()
    url, params = await request_to_provider(site, browser, **RECENT)
    assert (params["max_age"], "prompt" in params) == ("900", False)
    assert params["claims"] == '{"id_token":{"auth_time":{"essential":true}}}'
    response = await answered(site, browser, url.replace("max_age=900", "x=y"))
    assert response.status == 403
    assert "did not report" in response.text
    assert [record.id for record in await site.sessions()] == [before.id]
    url, _ = await request_to_provider(site, browser, **RECENT)
    assert is_home(await answered(site, browser, url))


@pytest.mark.parametrize("auth_time", [None, "1800000000", True, [1], {}, 0, -1])
async def test_a_time_that_is_none_is_refused_as_well(site: Site, auth_time: Any) -> None:
    browser = site.browser()
    url, _ = await request_to_provider(site, browser, **RECENT)
    assert (await answered(site, browser, url, auth_time=auth_time)).status == 403
    assert await site.sessions() == []


async def test_the_prompt_that_the_operator_wants_stays(site: Site) -> None:
    site.client.provider.request_params["prompt"] = "consent"
    browser = site.browser()
    site.idp.bend.claims = {"auth_time": int(site.clock())}
    await browser.sign_in()
    site.clock.ahead = 901
    _, params = await request_to_provider(site, browser, **RECENT)
    assert params["prompt"] == "consent login"


async def test_unmet_authentication_requirements_page(site: Site) -> None:
    browser = site.browser()
    _, params = await request_to_provider(site, browser, **MFA)
    error = f"{ORIGIN}/oauth2/callback?error=unmet_authentication_requirements&state={params['state']}&iss={site.idp.issuer}"
    response = await browser.get(error)
    assert response.status == 403
    assert "stronger sign-in method" in response.text


async def test_step_up_cannot_be_removed_from_the_link(site: Site) -> None:
    url = step_up_url(site, **MFA)
    for old, new in (("gate_acr_values=mfa+hw&", ""), ("mfa+hw", "pwd"), ("gate_acr_values", "gate_acr_value")):
        bent = url.replace(old, new)
        assert bent != url
        assert (await site.browser().get(bent)).status == 400


async def test_signing_out_ends_the_weaker_session_of_the_same_browser_too(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    (weak,) = await site.sessions()
    url, _ = await request_to_provider(site, browser, **MFA)
    await answered(site, browser, url, acr="mfa")
    (strong,) = [record for record in await site.sessions() if record.id != weak.id]
    # Another host of this browser still has the weaker one, which must not end under it.
    assert await site.broker.get(SESSION, weak.id) is not None
    assert strong.data["linked_session_ids"] == [weak.id]
    token = (await browser.get("/.gate/")).text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
    await browser.post("/.gate/signout/", {"_gate_csrf": token})
    assert await site.sessions() == []


async def test_session_of_another_user_ends(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in("alice")
    url, _ = await request_to_provider(site, browser, **MFA)
    await answered(site, browser, url, "bob", acr="mfa")
    (record,) = await site.sessions()
    assert (record.data["subject"], record.data["linked_session_ids"]) == ("bob", [])


async def test_repeated_step_up_keeps_the_record_small(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    for number in range(12):
        url, _ = await request_to_provider(site, browser, gate_acr_values=f"level-{number}")
        assert is_home(await answered(site, browser, url, acr=f"level-{number}"))
    assert len(await site.sessions()) <= 9
    assert max(len(record.data["linked_session_ids"]) for record in await site.sessions()) <= 8
