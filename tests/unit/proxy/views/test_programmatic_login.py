"""Programmatic login at the route host (behaviour.md 1.11): nothing for strangers, a token once for who agreed."""

from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings

from databroker.records import SESSION
from foundation.crypto.handoff import TO_CLIENT_APPLICATION, HandoffTokens
from foundation.crypto.signed_urls import UrlSigner
from foundation.errors import SealError
from tests.support.asgi import Answer
from tests.support.route_site import RouteSite
from tests.support.several_providers import several
from tests.support.signed_in import SignedIn

HOST = "app.example.com"
PROGRAM = "http://localhost:7000/cb?state=x"


async def login(site: RouteSite, *redirect_uris: str, **scope: str) -> Answer:
    query = "&".join(f"gate_redirect_uri={quote(uri, safe='')}" for uri in redirect_uris)
    return await site.ask(f"https://{HOST}/.gate/api/v1/login?{query}", **scope)


def callback_url(site: RouteSite, ann: SignedIn, to: str = PROGRAM, *, host: str = HOST, at: str = HOST) -> str:
    token = HandoffTokens(site.options, TO_CLIENT_APPLICATION).seal(ann.session.id, "", host, to, site.clock())
    return f"https://{at}/.gate/callback/?gate_programmatic=true&gate_session={token}"


async def test_client_application_gets_signed_sign_in_url_as_text(site: RouteSite) -> None:
    answer = await login(site, PROGRAM)
    assert (answer.status, answer.header("content-type")) == (200, "text/plain; charset=utf-8")
    assert UrlSigner(site.options).verify(answer.body.decode(), site.clock()) == {
        "gate_redirect_uri": PROGRAM,
        "gate_callback_uri": f"https://{HOST}/.gate/callback/",
        "gate_programmatic": "true",
    }
    assert answer.body.startswith(b"https://auth.example.com/.gate/sign_in?")
    assert answer.header("cache-control") == "no-store"


@pytest.mark.parametrize(
    ("port", "parameters"),
    [("5432", {"gate_acr_values": "mfa", "gate_max_age": "900"}), ("5433", {}), ("", {}), ("-1", {}), ("٥", {}), ("9" * 400, {})],
)
async def test_tunnel_route_requirements_are_sent_with_the_sign_in(site: RouteSite, port: str, parameters: dict[str, str]) -> None:
    query = f"gate_redirect_uri={quote(PROGRAM, safe='')}&gate_tunnel_port={quote(port)}"
    answer = await site.ask(f"https://db.example.com/.gate/api/v1/login?{query}")
    assert UrlSigner(site.options).verify(answer.body.decode(), site.clock()) == {
        "gate_redirect_uri": PROGRAM,
        "gate_callback_uri": "https://db.example.com/.gate/callback/",
        "gate_programmatic": "true",
        **parameters,
    }


@pytest.mark.parametrize(
    ("named", "offered"),
    [
        ([["corp"]], {"gate_providers": "corp"}),
        ([["corp", "partner"], ["third", "corp"]], {"gate_providers": "corp partner third"}),
        ([["corp"], None], {}),
        ([None], {}),
    ],
)
async def test_programmatic_sign_in_offers_providers_of_that_host(
    tmp_path: Path, named: list[list[str] | None], offered: dict[str, str]
) -> None:
    keys = {"from": f"https://{HOST}", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True}
    policy = [{**keys, "prefix": f"/{number}/", **({"identity_providers": ids} if ids else {})} for number, ids in enumerate(named)]
    with override_settings(ROOT_URLCONF="proxy.urls", MIDDLEWARE=[], ALLOWED_HOSTS=["*"]):
        site = RouteSite(tmp_path, ASGIHandler(), policy=policy, **several("corp", "partner", "third"))
        answer = await login(site, PROGRAM)
    params = UrlSigner(site.options).verify(answer.body.decode(), site.clock())
    assert {name: value for name, value in params.items() if name == "gate_providers"} == offered


async def test_tunnel_sign_in_offers_providers_of_its_route(tmp_path: Path) -> None:
    policy = [
        {"from": f"https://{HOST}", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True, "identity_providers": ["third"]},
        *(
            {"from": f"tcp+https://{HOST}:{port}", "to": "tcp://127.0.0.1:9", "allow_any_authenticated_user": True, **more}
            for port, more in ((5432, {"identity_providers": ["partner"]}), (5433, {}))
        ),
    ]
    with override_settings(ROOT_URLCONF="proxy.urls", MIDDLEWARE=[], ALLOWED_HOSTS=["*"]):
        site = RouteSite(tmp_path, ASGIHandler(), policy=policy, **several("corp", "partner", "third"))
        found = {}
        for port in ("5432", "5433", ""):
            query = f"gate_redirect_uri={quote(PROGRAM, safe='')}&gate_tunnel_port={port}"
            answer = await site.ask(f"https://{HOST}/.gate/api/v1/login?{query}")
            found[port] = UrlSigner(site.options).verify(answer.body.decode(), site.clock()).get("gate_providers")
    assert found == {"5432": "partner", "5433": None, "": "third"}


@pytest.mark.parametrize("uris", [(), ("https://evil.example/",), (PROGRAM, PROGRAM), (PROGRAM, "https://evil.example/")])
async def test_another_redirect_uri_gets_an_explanation_and_no_url(site: RouteSite, uris: tuple[str, ...]) -> None:
    answer = await login(site, *uris)
    assert answer.status == 400
    assert b"programmatic_redirect_domain_whitelist" in answer.body
    assert b"gate_signature" not in answer.body


async def test_login_answers_get_only(site: RouteSite) -> None:
    assert (await login(site, PROGRAM, method="POST")).status == 405


async def test_consenting_user_is_redirected_with_token_for_this_host(site: RouteSite, ann: SignedIn) -> None:
    answer = await site.browser().get(callback_url(site, ann))
    assert answer.status == 302
    location = answer.header("location")
    assert location.startswith(f"{PROGRAM}&gate_jwt=")
    (token,) = parse_qs(urlsplit(location).query)["gate_jwt"]
    opened = site.proxy.programmatic_tokens.open(token, HOST, site.clock())
    assert (opened.session_id, opened.expires_at) == (ann.session.id, ann.session.expires_at)
    with pytest.raises(SealError):
        site.proxy.programmatic_tokens.open(token, "other.example.com", site.clock())


async def test_programmatic_link_signs_no_browser_in(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    assert (await browser.get(callback_url(site, ann))).values("set-cookie") == []
    assert browser.cookies[HOST] == {}


async def test_a_link_gives_one_token(site: RouteSite, ann: SignedIn) -> None:
    url, browser = callback_url(site, ann), site.browser()
    assert (await browser.get(url)).status == 302
    assert (await browser.get(url)).status == 400


async def test_invalid_handoff_for_this_host_is_refused(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    url = callback_url(site, ann)
    ordinary = site.handoffs.seal(ann.session.id, browser.begin(HOST), HOST, f"https://{HOST}/", site.clock())
    for invalid in (
        callback_url(site, ann, at="other.example.com"),
        callback_url(site, ann, to="https://evil.example/"),
        url.partition("&gate_session")[0],
        f"{url}&gate_session=x",
        f"https://{HOST}/.gate/callback/?gate_programmatic=true&gate_session={ordinary}",
        f"https://{HOST}/.gate/callback/?{url.partition('true&')[2]}",
    ):
        answer = await browser.get(invalid)
        assert answer.status == 400, invalid
        assert answer.values("location") == []
    site.ahead = 301
    assert (await browser.get(url)).status == 400


async def test_an_ended_session_gives_no_token(site: RouteSite, ann: SignedIn) -> None:
    url = callback_url(site, ann)
    await site.broker.delete(SESSION, ann.session.id)
    assert (await site.browser().get(url)).status == 400
