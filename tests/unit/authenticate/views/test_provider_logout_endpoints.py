"""Back-channel and front-channel logout endpoints: responses to the provider and to other clients."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.authenticate_site import Browser, Response, Site
from tests.support.fake_idp import ABSENT, LOGOUT_EVENT, OTHER_RSA_KEY, Answer

BACK, FRONT = "/.gate/backchannel_logout", "/.gate/frontchannel_logout"
SID = "a-session-of-the-provider"


async def signed_in(site: Site) -> Browser:
    site.idp.bend.claims = {"sid": SID}
    browser = site.browser()
    await browser.sign_in()
    return browser


async def notify(site: Site, token: str) -> Response:
    """By the provider itself, which has no cookies."""
    return await site.browser().post(BACK, {"logout_token": token}, accept="*/*")


async def test_the_providers_word_ends_the_session(site: Site) -> None:
    await signed_in(site)
    response = await notify(site, site.idp.logout_token(sid=SID))
    assert (response.status, response.text) == (200, "")
    assert response.headers["cache-control"] == "no-store"
    assert response.set_cookies == []
    assert await site.sessions() == []


async def test_sessions_that_are_over_already_are_a_success(site: Site) -> None:
    assert (await notify(site, site.idp.logout_token(sid=SID))).status == 200


REFUSED: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example"},
    "another audience": {"aud": "another"},
    "expired": {"exp": 1},
    "from the future": {"iat": 9_000_000_000},
    "not a logout": {"events": {}},
    "an ID token": {"nonce": "n"},
    "no id": {"jti": ABSENT},
    "nobody": {"sid": ABSENT},
    "another type": {"header": {"typ": "at+jwt"}},
    "critical": {"header": {"crit": ["x"]}},
    "another algorithm": {"header": {"alg": "HS256"}},
    "an unknown key": {"header": {"kid": "key-2"}},
}


@pytest.mark.parametrize("bent", REFUSED.values(), ids=REFUSED.keys())
async def test_invalid_logout_token_changes_nothing(site: Site, bent: dict[str, Any]) -> None:
    await signed_in(site)
    response = await notify(site, site.idp.logout_token(**{"sid": SID, **bent}))
    assert response.status == 400
    assert response.headers["cache-control"] == "no-store"
    assert json.loads(response.text)["error"] == "invalid_request"
    assert len(await site.sessions()) == 1


async def test_refuses_another_key(site: Site) -> None:
    await signed_in(site)
    key, site.idp.signing_key = site.idp.signing_key, OTHER_RSA_KEY
    token = site.idp.logout_token(sid=SID)
    site.idp.signing_key = key
    assert (await notify(site, token)).status == 400
    assert len(await site.sessions()) == 1


async def test_a_changed_key_is_fetched(site: Site) -> None:
    await signed_in(site)
    site.idp.signing_key, site.idp.kid = OTHER_RSA_KEY, "key-2"
    site.clock.ahead = 15  # a key set is fetched again after a while only
    assert (await notify(site, site.idp.logout_token(sid=SID))).status == 200
    assert await site.sessions() == []


async def test_logout_token_is_used_once(site: Site) -> None:
    token = site.idp.logout_token(sid=SID)
    assert (await notify(site, token)).status == 200
    response = await notify(site, token)
    assert (response.status, "used before" in json.loads(response.text)["error_description"]) == (400, True)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", '{{"logout_token": "{0}"}}'),
        ("application/logout+jwt", "{0}"),
        ("multipart/form-data; boundary=b", '--b\r\nContent-Disposition: form-data; name="logout_token"\r\n\r\n{0}\r\n--b--\r\n'),
        ("application/x-www-form-urlencoded", "logout_token={0}&logout_token={0}"),
        ("application/x-www-form-urlencoded", "token={0}"),
        ("application/x-www-form-urlencoded", "logout_token="),
        ("application/x-www-form-urlencoded", ""),
        ("application/x-www-form-urlencoded", "logout_token=x.y.z"),
        ("application/x-www-form-urlencoded", "logout_token=%ff%fe"),
    ],
)
async def test_it_comes_as_a_form_with_one_token(site: Site, content_type: str, body: str) -> None:
    await signed_in(site)
    sent = body.format(site.idp.logout_token(sid=SID)).encode()
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(sent)).encode())]
    response = await site.answer("POST", BACK, headers, sent)
    assert (response.status, json.loads(response.text)["error"]) == (400, "invalid_request")
    assert len(await site.sessions()) == 1


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "OPTIONS", "DELETE"])
async def test_it_comes_by_post_only(site: Site, method: str) -> None:
    await signed_in(site)
    response = await site.browser().get(f"{BACK}?logout_token={site.idp.logout_token(sid=SID)}", method=method)
    assert response.status == 405
    assert len(await site.sessions()) == 1


async def test_unavailable_keys_are_503(site: Site) -> None:
    await signed_in(site)
    token = site.idp.logout_token(sid=SID)
    site.clock.ahead = 3700  # the keys are forgotten
    late = site.idp.logout_token(sid=SID)
    site.idp.bend.answers["/jwks"] = Answer(500)
    for sent in (token, late):
        response = await notify(site, sent)
        assert (response.status, response.headers["retry-after"]) == (503, "30")
        assert "can't be verified" in json.loads(response.text)["error_description"]
    site.idp.bend.answers.clear()
    site.clock.ahead = 3710
    assert (await notify(site, late)).status == 200
    assert await site.sessions() == []


async def test_a_store_that_is_away_is_no_refusal(site: Site) -> None:
    token = site.idp.logout_token(sid=SID)
    site.broker.cut()
    response = await notify(site, token)
    assert (response.status, response.headers["retry-after"]) == (503, "30")


AWAY = "http://127.0.0.1:9"
ANYBODYS = {
    "logout token": ("POST", BACK, "a form"),
    "front channel": ("GET", f"{FRONT}?{urlencode({'iss': AWAY, 'sid': SID})}", ""),
    "sign-in": ("GET", "", ""),
    "callback": ("GET", "/oauth2/callback?code=x&state=y", ""),
    "own pages": ("GET", "/.gate/", ""),
    "program": ("GET", "/.gate/program?x=y", ""),
    "SCIM": ("GET", "/.gate/scim/v2/Users", ""),
    "keys": ("GET", "/.well-known/gate/jwks.json", ""),
    "endpoints": ("GET", "/.well-known/gate/", ""),
    "sign-out": ("GET", "/.gate/signout/", ""),
    "refresh": ("POST", "/.gate/refresh", "a form"),
}


@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
@pytest.mark.parametrize(("method", "path", "form"), ANYBODYS.values(), ids=ANYBODYS.keys())
async def test_network_errors_are_not_disclosed(tmp_path: Path, site: Site, method: str, path: str, form: str, accept: str) -> None:
    lonely = Site(tmp_path, site.idp, site._django_pages, idp_provider_url=AWAY, scim_token="a-random-token-0123456789-abcdefghij")
    sent = {"logout_token": site.idp.logout_token(sid=SID)} if form else None
    response = await lonely.browser().get(path or lonely.sign_in_url(), method=method, form=sent, accept=accept)
    assert not any(word in response.text for word in ("127.0.0.1", "refuses", "connection", "ProviderError"))
    await lonely.service.stop()


async def test_an_id_token_in_its_place_ends_nothing(site: Site) -> None:
    await signed_in(site)
    (record,) = await site.sessions()
    assert (await notify(site, record.data["id_token"])).status == 400
    site.idp.bend.claims = {"sid": SID, "jti": "j", "events": {LOGOUT_EVENT: {}}}
    assert (await notify(site, site.idp.signed_in("alice")["id_token"])).status == 400
    assert len(await site.sessions()) == 1


def front(site: Site, **named: str) -> str:
    return f"{FRONT}?{urlencode({'iss': site.idp.issuer, 'sid': SID, **named})}"


async def test_a_frame_in_the_providers_page_ends_the_session_without_a_cookie(site: Site) -> None:
    await signed_in(site)
    response = await site.browser().get(front(site))
    assert response.status == 200
    assert await site.sessions() == []
    assert response.set_cookies == []


async def test_front_channel_needs_the_session_id(site: Site) -> None:
    browser = await signed_in(site)
    assert (await browser.get(front(site, sid="a-session-of-somebody-else"))).status == 200
    assert (await browser.get("/.gate/")).status == 200


async def test_only_the_providers_pages_may_frame_it(site: Site) -> None:
    site.idp.bend.discovery = {"end_session_endpoint": "https://logout.idp.example/end?x=1"}
    response = await site.browser().get(front(site))
    policy = response.headers["content-security-policy"]
    assert policy.endswith(f"frame-ancestors {site.idp.issuer} https://logout.idp.example; form-action 'self'")
    assert "x-frame-options" not in response.headers
    for refused in (await site.browser().get(FRONT), await site.browser().get("/.gate/signout/")):
        assert "frame-ancestors 'none'" in refused.headers["content-security-policy"]
        assert refused.headers["x-frame-options"] == "DENY"


async def test_an_embedding_page_that_knows_no_session_ends_none_and_learns_nothing(site: Site) -> None:
    browser = await signed_in(site)
    known = await site.browser().get(front(site, sid="a-session-of-somebody-else"))
    for url in (
        FRONT,
        f"{FRONT}?{urlencode({'sid': SID})}",
        f"{FRONT}?{urlencode({'iss': site.idp.issuer})}",
        front(site, iss="https://evil.example"),
        front(site, iss=f"{site.idp.issuer}/"),
        front(site, sid=""),
        front(site, sid=SID[:8]),
        f"{front(site)}&sid=another-session-of-somebody",
        f"{front(site)}&iss=https://evil.example",
    ):
        # Also in the user's browser: its cookies have no effect here.
        assert (await browser.get(url)).status == 400
    assert len(await site.sessions()) == 1
    assert (await site.browser().get(front(site))).text == known.text
    assert await site.sessions() == []


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "OPTIONS"])
async def test_front_channel_is_get(site: Site, method: str) -> None:
    await signed_in(site)
    assert (await site.browser().get(front(site), method=method)).status == 405
    assert len(await site.sessions()) == 1


async def test_a_provider_that_is_away_gets_an_answer_all_the_same(site: Site) -> None:
    site.idp.bend.answers["/.well-known/openid-configuration"] = Answer(500)
    response = await site.browser().get(front(site))
    assert response.status == 503
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
