"""Callback page: a session for the browser that started the sign-in, an error page otherwise."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from structlog.testing import capture_logs

from databroker.records import USER, SessionRecord, UserRecord
from foundation.client_network import ConcurrencyLimit
from tests.support.authenticate_site import APP, ATTEMPT, ORIGIN, Site
from tests.support.eventually import eventually
from tests.support.fake_idp import ABSENT, OTHER_RSA_KEY, Answer, encoded, signed


async def test_a_sign_in_ends_at_the_route_host_with_a_session_for_the_first_url(site: Site) -> None:
    response = await site.browser().sign_in("alice")
    assert response.location.startswith(f"{APP}/.gate/callback/?gate_session=")
    handoff = site.open_handoff(response.location)
    (record,) = await site.sessions()
    session = SessionRecord.from_record(record)
    assert (handoff.session_id, handoff.attempt_id) == (session.id, ATTEMPT)
    assert handoff.redirect_uri == f"{APP}/reports?year=2026&q=a%20b"
    assert (session.user_id, session.subject, session.provider) == ("oidc/alice", "alice", "oidc")
    assert session.expires_at == pytest.approx(site.clock() + 14 * 3600, abs=5)
    assert record.expires == session.expires_at
    assert (session.client_address, session.access_token_expires_at) == ("192.0.2.7", pytest.approx(site.clock() + 3600, abs=5))


async def test_user_record_has_provider_claims(site: Site) -> None:
    site.idp.bend.userinfo = {"name": "Alice A.", "aud": "someone-else", "nonce": "other"}
    await site.browser().sign_in("alice")
    user = UserRecord.from_record(await site.broker.get(USER, "oidc/alice"))
    assert (user.email, user.email_verified, user.name) == ("alice@corp.example", True, "Alice A.")
    # Userinfo describes the user and does not change the token's data.
    assert user.claims["aud"] == "gate"
    assert user.claims["nonce"] != "other"


async def test_each_sign_in_has_a_new_session_id(site: Site) -> None:
    browser = site.browser()
    first = await browser.to_provider()
    second = await browser.to_provider()
    planted = dict(browser.cookies)
    await browser.get(site.idp.pick(first, "alice"))
    cookie = browser.cookies["_gate"]
    await browser.get(site.idp.pick(second, "alice"))
    assert browser.cookies["_gate"] != cookie
    assert "_gate" not in planted
    records = await site.sessions()
    assert len({record.id for record in records}) == 2
    assert all(len(record.id) >= 43 for record in records)


async def test_a_planted_session_cookie_is_not_promoted(site: Site) -> None:
    browser = site.browser()
    browser.cookies["_gate"] = "planted"
    await browser.sign_in("alice")
    assert browser.cookies["_gate"] != "planted"
    assert (await browser.get("/.gate/")).status == 200


async def test_parallel_tabs_return_to_their_urls(site: Site) -> None:
    browser = site.browser()
    one = await browser.to_provider(target=f"{APP}/one", attempt="1" * 22)
    two = await browser.to_provider(target=f"{APP}/two", attempt="2" * 22)
    answers = [await browser.get(site.idp.pick(url, "alice")) for url in (two, one)]
    opened = [site.open_handoff(answer.location) for answer in answers]
    assert [(over.redirect_uri, over.attempt_id) for over in opened] == [(f"{APP}/two", "2" * 22), (f"{APP}/one", "1" * 22)]


async def test_a_callback_url_of_one_browser_gives_another_no_session(site: Site) -> None:
    attacker, victim = site.browser(), site.browser()
    await victim.to_provider()
    callback = site.idp.pick(await attacker.to_provider(), "bob")
    response = await victim.get(callback)
    assert response.status == 400
    assert "Start again" in response.text
    assert "_gate" not in victim.cookies
    assert await site.sessions() == []
    # The refused visit did not even use it up: the browser that began goes on.
    assert (await attacker.get(callback)).status == 302


async def test_swapped_states_of_two_tabs_do_not_mix(site: Site) -> None:
    browser = site.browser()
    one, two = await browser.to_provider(), await browser.to_provider()
    code = parse_qs(urlsplit(site.idp.pick(one, "alice")).query)["code"][0]
    # The code of the first with the state of the second: another verifier, which the provider refuses.
    response = await browser.get(site.idp.pick(two, "alice", code=code))
    assert response.status == 400
    assert await site.sessions() == []


async def test_state_is_used_once(site: Site) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    twin = site.browser()
    twin.cookies = dict(browser.cookies)
    answers = await asyncio.gather(browser.get(callback), twin.get(callback))
    assert sorted(answer.status for answer in answers) == [302, 400]
    assert len(await site.sessions()) == 1
    assert site.idp.count("/token") == 1


async def test_code_is_not_sent_to_another_provider(site: Site) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    callback = callback.partition("&iss=")[0]  # many providers do not name themselves
    provider, requests = site.client.provider, len(site.idp.requests)
    site.client.provider = replace(provider, url="https://newer.example.com")
    with capture_logs() as logs:
        response = await browser.get(callback)
    assert response.status == 400
    assert "another browser" in response.text
    assert len(site.idp.requests) == requests
    (line,) = [entry for entry in logs if entry["event"] == "sign-in refused"]
    assert f"started at {site.idp.issuer}," in line["reason"]
    site.client.provider = provider
    assert (await browser.get(site.idp.pick(await browser.to_provider(), "alice"))).status == 302


async def test_a_used_callback_without_a_session_starts_again_at_the_first_url(site: Site) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    replay = dict(browser.cookies)
    await browser.get(callback)
    browser.cookies = replay
    response = await browser.get(callback)
    assert response.status == 400
    assert f'href="{APP}/reports?year=2026&amp;q=a%20b"' in response.text
    assert len(await site.sessions()) == 1


async def test_a_used_callback_with_a_live_session_just_continues(site: Site) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    attempt = dict(browser.cookies)
    await browser.get(callback)
    assert (await browser.get(callback)).location == "/.gate/"
    browser.cookies |= attempt
    assert site.open_handoff((await browser.get(callback)).location).redirect_uri.startswith(f"{APP}/reports")
    assert len(await site.sessions()) == 1


async def test_an_attempt_older_than_ten_minutes_is_refused(site: Site) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    site.clock.ahead = 601
    assert (await browser.get(callback)).status == 400
    assert await site.sessions() == []


@pytest.mark.parametrize("name", ["code", "state", "error", "iss"])
async def test_refuses_duplicate_parameter(site: Site, name: str) -> None:
    browser = site.browser()
    callback = (
        site.idp.pick(await browser.to_provider(), "alice", error="x")
        if name == "error"
        else site.idp.pick(await browser.to_provider(), "alice")
    )
    value = parse_qs(urlsplit(callback).query)[name][0]
    assert (await browser.get(f"{callback}&{name}={value}")).status == 400
    assert await site.sessions() == []
    assert site.idp.count("/token") == 0


@pytest.mark.parametrize("missing", ["code", "state"])
async def test_a_missing_parameter_is_refused(site: Site, missing: str) -> None:
    browser = site.browser()
    response = await browser.get(site.idp.pick(await browser.to_provider(), "alice", **{missing: ""}))
    assert response.status == 400
    assert await site.sessions() == []


@pytest.mark.parametrize("issuer", ["https://evil.example", "", "{issuer}/", "{issuer}.evil.example"])
async def test_an_answer_of_another_issuer_is_refused(site: Site, issuer: str) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice", iss=issuer.format(issuer=site.idp.issuer))
    assert (await browser.get(callback)).status == 400
    assert site.idp.count("/token") == 0


async def test_an_answer_without_issuer_is_refused_where_the_provider_always_sends_it(site: Site) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    assert (await browser.get(callback.partition("&iss=")[0])).status == 400
    assert site.idp.count("/token") == 0


async def test_an_answer_without_issuer_is_accepted_where_the_provider_never_sends_it(site: Site) -> None:
    site.idp.bend.discovery = {"authorization_response_iss_parameter_supported": ABSENT}
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    assert (await browser.get(callback.partition("&iss=")[0])).status == 302


@pytest.mark.parametrize(("error", "status"), [("access_denied", 401), ("server_error", 400), ("<script>alert(1)</script>", 400)])
async def test_provider_error_page(site: Site, error: str, status: int) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice", error=error)
    response = await browser.get(callback)
    assert response.status == status
    assert f'href="{APP}/reports' in response.text
    assert "<script" not in response.text
    assert not [name for name in browser.cookies if name.startswith("__Host-_gate_signin_")]
    assert (await browser.get(callback)).status == 400


async def test_errors_are_json_for_clients(site: Site) -> None:
    response = await site.browser().get("/oauth2/callback?state=x&code=y", accept="application/json")
    assert response.status == 400
    assert '"request_id": "00000000000000000000000000000000"' in response.text


@pytest.mark.parametrize("path", ["/token", "/userinfo", "/jwks"])
@pytest.mark.parametrize(
    "answer",
    [
        Answer(500),
        Answer(302, headers={"Location": "http://127.0.0.1:1/"}),
        Answer(200, b"<html>"),
        Answer(200, b"[]"),
        Answer(200, b'{"a":1,"a":2}'),
        Answer(200, b"[" * 100_000),
        Answer(200, b" " * (1024 * 1024 + 1)),
        Answer(200, b"\xff\xfe"),
    ],
    ids=["500", "redirect", "html", "list", "repeated key", "nested", "huge", "not utf-8"],
)
async def test_a_provider_that_answers_nonsense_yields_a_503_page_and_no_session(site: Site, path: str, answer: Answer) -> None:
    site.idp.bend.answers[path] = answer
    response = await site.browser().sign_in()
    assert response.status == 503
    assert "Try again" in response.text
    assert await site.sessions() == []


async def test_a_slow_provider_does_not_hold_the_browser_forever(site: Site) -> None:
    browser = site.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    site.client.http._timeout = 0.05
    site.idp.bend.answers["/token"] = Answer(delay=5)
    assert (await browser.get(callback)).status == 503


async def test_a_code_is_redeemed_with_the_verifier_and_basic_credentials(site: Site) -> None:
    await site.browser().sign_in()
    (request,) = [request for request in site.idp.requests if request.path == "/token"]
    assert request.headers["authorization"].startswith("Basic ")
    assert "client_secret" not in request.form
    assert len(request.form["code_verifier"]) >= 43
    assert request.form["redirect_uri"] == f"{ORIGIN}/oauth2/callback"


async def test_a_provider_that_wants_the_secret_in_the_form_gets_it_there(site: Site) -> None:
    site.idp.bend.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert (await site.browser().sign_in()).status == 302


async def test_refuses_userinfo_of_another_subject(site: Site) -> None:
    site.idp.bend.userinfo = {"sub": "bob"}
    assert (await site.browser().sign_in("alice")).status == 503
    assert await site.sessions() == []


async def test_signed_userinfo_is_verified_and_read(site: Site) -> None:
    site.idp.bend.signed_userinfo = {"name": "Alice A.", "nonce": "other", "iat": int(site.clock())}
    await site.browser().sign_in("alice")
    user = UserRecord.from_record(await site.broker.get(USER, "oidc/alice"))
    assert user.name == "Alice A."
    assert user.claims["nonce"] != "other"
    site.idp.signing_key, site.idp.kid = OTHER_RSA_KEY, "key-2"
    assert (await site.browser().sign_in("bob")).status == 302, "the keys are fetched again"


@pytest.mark.parametrize(
    ("bend", "reason"),
    [
        ({"sub": "bob"}, "another user"),
        ({"aud": "another-client"}, "userinfo response is for another audience"),
        ({"iss": "https://evil.example"}, "userinfo response has another issuer"),
        ({"exp": 1}, "userinfo response has expired"),
    ],
)
async def test_signed_userinfo_for_another_client_or_of_another_issuer_is_refused(site: Site, bend: dict[str, Any], reason: str) -> None:
    site.idp.bend.signed_userinfo = bend
    with capture_logs() as logs:
        assert (await site.browser().sign_in()).status == 503
    assert reason in str(logs)
    assert await site.sessions() == []


FORGED = signed({"alg": "RS256", "kid": "key-1"}, {"sub": "alice"}, OTHER_RSA_KEY, "RS256").encode()
ENCRYPTED = ".".join([encoded(b'{"alg":"RSA-OAEP","enc":"A256GCM"}'), *["AAAA"] * 4]).encode()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(200, ENCRYPTED, "application/jwt"), "userinfo response is encrypted"),
        (
            Answer(200, FORGED, "application/jwt"),
            "signature",
        ),
        (Answer(200, b"\xff.\xff.\xff", "application/jwt"), "the userinfo response can't be read"),
        (Answer(200, b'{"sub": "alice"}', "application/jwt"), "the userinfo response is not a signed token"),
        (Answer(200, b"<html>", "text/html"), "nor a signed JWT"),
    ],
    ids=["encrypted", "another key", "no ASCII", "JSON", "HTML"],
)
async def test_userinfo_that_is_no_signed_jwt_is_named_in_the_log(site: Site, answer: Answer, reason: str) -> None:
    site.idp.bend.answers["/userinfo"] = answer
    with capture_logs() as logs:
        assert (await site.browser().sign_in()).status == 503
    assert reason in str(logs)


@pytest.mark.parametrize("tokens", [{"id_token": ABSENT}, {"access_token": ABSENT}, {"id_token": 7}, {"token_type": "mac"}])
async def test_incomplete_tokens_are_refused(site: Site, tokens: dict[str, object]) -> None:
    site.idp.bend.tokens = tokens
    assert (await site.browser().sign_in()).status == 503
    assert await site.sessions() == []


async def test_a_bent_id_token_yields_no_session(site: Site) -> None:
    site.idp.bend.claims = {"aud": "another-client"}
    assert (await site.browser().sign_in()).status == 503
    assert await site.sessions() == []


async def test_the_session_cookie_is_host_only_http_only_lax_and_secure(site: Site) -> None:
    response = await site.browser().sign_in()
    (cookie,) = [value for value in response.set_cookies if value.startswith("_gate=")]
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= attributes
    assert not any(attribute.startswith("domain") for attribute in attributes)


async def test_while_the_data_broker_is_away_there_is_a_503_page(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in()
    site.broker.cut()
    assert (await browser.get("/.gate/")).status == 503


async def test_a_callback_by_post_is_not_possible(site: Site) -> None:
    assert (await site.browser().post("/oauth2/callback", {})).status == 405


@pytest.mark.parametrize(
    ("scope", "missing"),
    [
        (ABSENT, ""),
        (None, ""),
        ("", ""),
        (7, ""),
        ("openid profile email offline_access", ""),
        ("email profile", ""),
        ("email,openid,profile", ""),
        ("openid https://www.googleapis.com/auth/userinfo.email https://www.googleapis.com/auth/userinfo.profile", ""),
        (["openid", "profile", "email"], ""),
        ("openid profile", "email"),
        ("openid", "profile email"),
        ("openid Email profile", "email"),
        ("openid email_verified profile", "email"),
    ],
)
async def test_refuses_missing_scopes(site: Site, scope: object, missing: str) -> None:
    site.idp.bend.tokens = {"scope": scope}
    response = await site.browser().sign_in()
    assert len(await site.sessions()) == (0 if missing else 1)
    if missing:
        assert response.status == 403
        assert f"required permission: {missing}." in response.text
        assert "Sign in again" in response.text


async def test_unused_missing_scope_is_only_logged(tmp_path: Path, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.idp.bend.tokens = {"scope": "openid profile email"}
    wide = Site(tmp_path, site.idp, site._django_pages, idp_scopes=["openid", "profile", "email", "roles"])
    await wide.browser().sign_in()
    assert len(await wide.sessions()) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "fewer scopes" in line]
    assert "warning" in line
    assert "roles" in line
    await wide.service.stop()


@pytest.mark.parametrize("claims", [{"email_verified": ABSENT}, {"email": ABSENT, "mail": "alice@corp.example", "email_verified": True}])
@pytest.mark.parametrize(
    ("claims_supported", "is_verified"),
    [
        (ABSENT, False),
        ([], False),
        (["sub", "email", "email_verified"], False),
        ("email", False),
        (["sub", "email"], None),
    ],
)
async def test_an_address_without_its_mark_counts_only_where_the_provider_never_gives_one(
    site: Site, claims_supported: object, is_verified: bool | None, claims: dict[str, object]
) -> None:
    """The user may have removed the mark from the request, and nothing else."""
    site.idp.bend.discovery = {"claims_supported": claims_supported}
    site.idp.bend.claims = site.idp.bend.userinfo = claims
    await site.browser().sign_in()
    assert UserRecord.from_record(await site.broker.get(USER, "oidc/alice")).email_verified is is_verified


async def test_one_network_holds_no_more_than_its_share_of_the_provider(site: Site) -> None:
    """Made-up codes at a slow token endpoint: a rejected client consumes nothing, and all other users sign in."""
    site.service.provider_slots["oidc"] = ConcurrencyLimit(5, 2)
    victim = site.browser()
    victims = await victim.to_provider()
    mallory, mine = site.browser(), site.browser()
    junk = [await mallory.to_provider() for _ in range(3)]
    pending = site.idp.pick(await mine.to_provider(), "alice")
    site.idp.bend.holds["/token"] = hold = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(mallory.get(site.idp.pick(url, "bob"))) for url in junk[:2]]
        await eventually(lambda: site.idp.count("/token") == 2)
        turned_away = await mine.get(pending)
        assert (turned_away.status, turned_away.headers["retry-after"]) == (503, "5")
        assert "reload" in turned_away.text.lower()
        site.client_address = "198.51.100.1"
        signed_in = tasks.create_task(victim.get(site.idp.pick(victims, "alice")))
        await eventually(lambda: site.idp.count("/token") == 3)
        hold.set()
    assert signed_in.result().status == 302
    assert [task.result().status for task in held] == [302, 302]
    site.client_address = "192.0.2.7"
    assert (await mine.get(pending)).status == 302


async def test_error_description_is_only_logged(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    browser = site.browser()
    state = parse_qs(urlsplit(await browser.to_provider()).query)["state"][0]
    query = {"error": "unauthorized_client", "error_description": "Client not\r\nallowed \x1b[31m" + "x" * 500, "state": state}
    response = await browser.get(f"{ORIGIN}/oauth2/callback?{urlencode({**query, 'iss': site.idp.issuer})}")
    assert response.status == 400
    assert "not allowed" not in response.text
    output = capsys.readouterr().out
    assert "the provider returned 'unauthorized_client' (Client not allowed [31mxxx" in output
    assert "x" * 300 not in output


@pytest.mark.parametrize("path", ["/token", "/userinfo"])
async def test_endpoint_errors_are_logged(site: Site, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = {"error": "unauthorized_client", "error_description": "this client\nmay not"}
    site.idp.bend.answers[path] = Answer.json(error, 400)
    response = await site.browser().sign_in()
    assert response.status == 503
    assert "may not" not in response.text
    assert "status 400: unauthorized_client (this client may not)" in capsys.readouterr().out
