"""The end of a sign-in at a route host (classes B9, B10, B14, B17), and the ways to the authenticate host's pages."""

from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import pytest

from databroker.records import SESSION
from tests.support.route_site import RouteSite
from tests.support.signed_in import SignedIn, sign_in

HOST = "app.example.com"
PAGE = f"https://{HOST}/page?q=1"


def callback_url(site: RouteSite, ann: SignedIn, attempt: str, *, host: str = HOST, to: str = PAGE, at: str = HOST) -> str:
    return f"https://{at}/.gate/callback/?gate_session={site.handoffs.seal(ann.session.id, attempt, host, to, site.clock())}"


async def test_requesting_browser_gets_session_and_page(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    attempt = browser.begin(HOST)
    answer = await browser.get(callback_url(site, ann, attempt))
    assert (answer.status, answer.header("location")) == (302, PAGE)
    assert set(browser.cookies[HOST]) == {"_gate", "__Host-_gate", "__Host-_gate_signin_count"}
    opened = site.proxy.session_cookies.open(browser.cookies[HOST]["_gate"], HOST, site.clock())
    assert opened.session_id == ann.session.id


async def test_a_callback_url_from_another_browser_yields_no_session(site: RouteSite, ann: SignedIn) -> None:
    attacker, victim = site.browser(), site.browser()
    url = callback_url(site, ann, attacker.begin(HOST))
    victim.begin(HOST)
    answer = await victim.get(url)
    assert answer.status == 400
    assert "_gate" not in victim.cookies[HOST]
    assert (await attacker.get(url)).status == 302, "the victim's refusal must not use the token up"


async def test_handoff_works_once(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    attempt = browser.begin(HOST)
    cookies = dict(browser.cookies[HOST])
    url = callback_url(site, ann, attempt)
    assert (await browser.get(url)).status == 302
    browser.cookies[HOST] = cookies
    assert (await browser.get(url)).status == 400


async def test_the_back_button_with_a_session_just_goes_on(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    url = callback_url(site, ann, browser.begin(HOST))
    await browser.get(url)
    again = await browser.get(url)
    assert (again.status, again.header("location")) == (302, PAGE)
    junk = await browser.get(f"https://{HOST}/.gate/callback/?gate_session=junk")
    assert (junk.status, junk.header("location")) == (302, "/")


async def test_a_token_for_another_host_is_refused(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    attempt = browser.begin("other.example.com")
    assert (await browser.get(callback_url(site, ann, attempt, at="other.example.com"))).status == 400


async def test_a_token_that_leads_elsewhere_is_refused(site: RouteSite, ann: SignedIn) -> None:
    for target in (
        "https://evil.example/",
        "https://other.example.com/",
        "http://app.example.com/",
        "//evil.example",
        "javascript:alert(1)",
    ):
        browser = site.browser()
        answer = await browser.get(callback_url(site, ann, browser.begin(HOST), to=target))
        assert answer.status == 400
        assert "_gate" not in browser.cookies[HOST]


async def test_after_five_minutes_a_token_is_too_old(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    url = callback_url(site, ann, browser.begin(HOST))
    site.ahead = 301
    assert (await browser.get(url)).status == 400


async def test_an_ended_session_is_not_handed_over(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    url = callback_url(site, ann, browser.begin(HOST))
    await site.broker.delete(SESSION, ann.session.id)
    assert (await browser.get(url)).status == 400
    assert "_gate" not in browser.cookies[HOST]


@pytest.mark.parametrize("query", ["", "?gate_session=", "?gate_session=a&gate_session=b", "?gate_session=%00", "?other=1"])
async def test_callback_without_exactly_one_valid_token_is_refused(query: str, site: RouteSite) -> None:
    browser = site.browser()
    browser.begin(HOST)
    answer = await browser.get(f"https://{HOST}/.gate/callback/{query}")
    assert answer.status == 400
    assert b"Open the application" in answer.body


async def test_other_gate_tokens_are_no_handoff(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    browser.begin(HOST)
    session_cookie = ann.cookie(HOST).partition("; ")[0].partition("=")[2]
    for token in (session_cookie, next(iter(browser.cookies[HOST].values()))):
        assert (await browser.get(f"https://{HOST}/.gate/callback/?gate_session={token}")).status == 400


async def test_parallel_tabs_all_succeed(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    urls = [callback_url(site, ann, browser.begin(HOST), to=f"https://{HOST}/{tab}") for tab in range(4)]
    answers = [await browser.get(url) for url in reversed(urls)]
    assert [answer.header("location") for answer in answers] == [f"https://{HOST}/{tab}" for tab in (3, 2, 1, 0)]


async def test_only_get_hands_over(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    attempt = browser.begin(HOST)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies[HOST].items())
    for method in ("POST", "HEAD", "PUT", "OPTIONS"):
        answer = await site.ask(callback_url(site, ann, attempt), method=method, headers={"cookie": cookie})
        assert (answer.status, answer.values("set-cookie")) == (405, [])


async def test_the_dashboard_and_sign_out_are_at_the_authenticate_host(site: RouteSite) -> None:
    browser = site.browser()
    assert (await browser.get(f"https://{HOST}/.gate/")).header("location") == "https://auth.example.com/.gate/"
    for path in ("signout/", "signout", "sign_out", "sign_out/"):
        answer = await browser.get(f"https://{HOST}/.gate/{path}?gate_redirect_uri=https://{HOST}/bye")
        wanted = "https://auth.example.com/.gate/signout/?gate_redirect_uri=https%3A%2F%2Fapp.example.com%2Fbye"
        assert answer.header("location") == wanted


async def test_the_signed_in_may_read_their_assertion(site: RouteSite, ann: SignedIn) -> None:
    answer = await site.ask(f"https://{HOST}/.gate/jwt", headers={"cookie": ann.cookie(HOST)})
    assert (answer.status, answer.header("content-type"), answer.header("cache-control")) == (200, "application/jwt", "no-store")
    claims = jwt.decode(answer.body.decode(), options={"verify_signature": False})
    assert (claims["sub"], claims["aud"]) == ("oidc/ann", HOST)
    assert (await site.ask(f"https://{HOST}/.gate/jwt")).status == 401
    assert (await site.ask(f"https://{HOST}/.gate/jwt", headers={"cookie": ann.cookie("other.example.com")})).status == 401


async def test_nothing_is_attested_for_a_host_closed_to_the_user(site: RouteSite, ann: SignedIn) -> None:
    url, host = "https://finance.example.com/.gate/jwt", "finance.example.com"
    assert (await site.ask(url, headers={"cookie": ann.cookie(host)})).status == 403
    boss = await sign_in(site.broker, site.options, "boss")
    assert (await site.ask(url, headers={"cookie": boss.cookie(host)})).status == 200


async def test_there_is_no_admin_and_nothing_else_on_route_hosts(site: RouteSite) -> None:
    for path in ("admin/", "static/admin/css/base.css", "x", "callback"):
        assert (await site.ask(f"https://{HOST}/.gate/{path}")).status == 404
    assert (await site.ask(f"https://{HOST}/.well-known/gate/jwks.json")).status == 404


async def test_of_two_valid_tokens_none_is_accepted(site: RouteSite, ann: SignedIn) -> None:
    browser = site.browser()
    first, second = (callback_url(site, ann, browser.begin(HOST)) for _ in range(2))
    answer = await browser.get(f"{first}&{second.partition('?')[2]}")
    assert answer.status == 400
    assert "_gate" not in browser.cookies[HOST]


async def test_django_refusal_looks_like_gate_refusal(site: RouteSite) -> None:
    too_many = "&".join(["a"] * 1500)
    answer = await site.ask(f"https://{HOST}/.gate/callback/?{too_many}", headers={"accept": "application/json"})
    assert (answer.status, answer.json["status"], answer.json["request_id"]) == (400, 400, "f" * 32)
    assert "default-src 'none'" in answer.header("content-security-policy")


def begin_url(to: str, at: str = HOST) -> str:
    return f"https://{at}/.gate/sign_in?{urlencode({'gate_redirect_uri': to})}"


async def test_forward_auth_begins_a_sign_in_on_the_host_that_keeps_its_cookie(site: RouteSite) -> None:
    browser = site.browser()
    answer = await browser.get(begin_url(PAGE))
    location = urlsplit(answer.header("location"))
    assert (answer.status, location.netloc, location.path) == (302, "auth.example.com", "/.gate/sign_in")
    params = parse_qs(location.query)
    assert params["gate_redirect_uri"] == [PAGE]
    assert list(browser.cookies[HOST]) == [f"__Host-_gate_signin_{params['gate_attempt'][0]}"]


async def test_signed_in_user_continues(site: RouteSite, ann: SignedIn) -> None:
    answer = await site.ask(begin_url(PAGE), headers={"cookie": ann.cookie(HOST)})
    assert (answer.status, answer.header("location")) == (302, PAGE)


async def test_going_round_in_circles_behind_a_front_proxy_is_explained(site: RouteSite, ann: SignedIn) -> None:
    """The front proxy does not pass the cookie when it asks, so the session is there and is not there."""
    browser = site.browser()
    browser.keep(HOST, ann.cookie(HOST).split("; "))
    answers = [await browser.get(begin_url(PAGE)) for _ in range(4)]
    assert [answer.status for answer in answers] == [302, 302, 302, 400]
    assert b"does not pass the Cookie" in answers[-1].body
    assert (await browser.get(begin_url(PAGE))).status == 302


@pytest.mark.parametrize(
    "to",
    [
        *("", "/page", "https://other.example.com/", "http://app.example.com/", "https://app.example.com:8443/", "https://evil.example/"),
        *("https://app.example.com@evil.example/", "https://app.example.com\\@evil.example/", "javascript:alert(1)", "//evil.example/"),
    ],
)
async def test_a_sign_in_begins_for_pages_of_this_host_only(site: RouteSite, ann: SignedIn, to: str) -> None:
    for headers in ({}, {"cookie": ann.cookie(HOST)}):
        answer = await site.ask(begin_url(to), headers=headers)
        assert (answer.status, answer.values("location")) == (400, [])


async def test_without_forward_auth_there_is_no_such_page(site: RouteSite) -> None:
    site.options = site.options.model_copy(update={"forward_auth_url": None})
    assert (await site.ask(begin_url(PAGE))).status == 404


async def test_forward_auth_starts_stronger_sign_in_for_weak_session(site: RouteSite, ann: SignedIn) -> None:
    host, page = "strong.example.com", "https://strong.example.com/wages"
    answer = await site.ask(begin_url(page, host), headers={"cookie": ann.cookie(host)})
    params = parse_qs(urlsplit(answer.header("location")).query)
    assert (answer.status, params["gate_acr_values"], params["gate_redirect_uri"]) == (302, ["mfa"], [page])
    strong = await sign_in(site.broker, site.options, "bob", acr="mfa")
    answer = await site.ask(begin_url(page, host), headers={"cookie": strong.cookie(host)})
    assert (answer.status, answer.header("location")) == (302, page)
