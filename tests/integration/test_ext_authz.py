"""gate asked by a real Envoy that is somebody else's, as the files in examples/ext_authz and examples/envoy_gateway configure it."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from authorize.policy.paths.canonical import canonical_path
from authorize.policy.reasons import Reason
from foundation.challenges import BAD_TOKEN
from foundation.errors import BadRequest
from tests.support.browser import headless_browser
from tests.support.client_certificates import authority
from tests.support.cookies import of_client
from tests.support.development_provider import DevelopmentProvider, tokens_of
from tests.support.gate import sign_in
from tests.support.jobs import REFUSED_JOBS, token_of_job
from tests.support.own_envoy import APP, AUTHENTICATE, OwnEnvoy, own_envoy
from tests.support.raw_http import RawClient, RawResponse
from tests.support.upstream import SampleUpstream

pytestmark = pytest.mark.slow

HTML = {"accept": "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate"}
HANDSHAKE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
SPELLINGS = (
    *("X-Gate-Claim-Email", "x-gate-claim-EMAIL", "X_Gate_Claim_Email", "X-Gate_Claim-Email", "X.Gate.Claim.Email", "X-Gate-Claim-Role"),
    *("XGateClaimRole", "Impersonate-User", "X-Original-Url", "X-Envoy-Original-Path"),
)
DOTS = ("..", "%2e%2e", ".%2E", "%2E.", "..;", "..%3b", "..%2f", "..%5c", "%252e%252e", "%c0%ae%c0%ae", ".", "%2e")
BEFORE = ("/anybody/", "//anybody/", "/anybody/x/", "/anybody%2f")
ODD = (
    *(f"{before}{dot}{after}" for before in BEFORE for dot in DOTS for after in ("/secret", "secret")),
    *(f"/secret/{dot}/anybody/x" for dot in DOTS),
    *("/anybody//x", "//anybody/x", "/./anybody/x", "/%61nybody/x", "/ANYBODY/x", "/anybody", "/anybodyelse", "/anybody;/x"),
    *("/anybody/x;y", "/anybody/a%2fb", "/anybody/a%2Fb", "/anybody/%7euser", "/anybody/%c3%BC", "/anybody/%00", "/anybody/%zz"),
    *("/anybody/\\..\\secret", "/secret?/anybody/", "/secret%3f/anybody/", "/secret%23/anybody/", "/.gate/../secret"),
    *("/.gate/%2e%2e/secret", "/.gate%2fx", f"https://{APP}/secret", f"https://{APP}/anybody/../secret", "/anybody/plain"),
)


@pytest.fixture(scope="module", params=["own", "Envoy Gateway"])
def envoy(
    request: pytest.FixtureRequest, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnEnvoy]:
    directory, is_of_gateway = tmp_path_factory.mktemp("ext_authz"), request.param != "own"
    with own_envoy(directory, provider.url, upstream.url, is_of_gateway=is_of_gateway) as running:
        yield running


def heard(page: httpx.Response | RawResponse) -> dict[str, list[str]]:
    """The headers that the application received."""
    found: dict[str, list[str]] = {}
    for name, value in httpx.Response(200, content=page.content if isinstance(page, httpx.Response) else page.body).json()["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


async def session_of(envoy: OwnEnvoy, person: str) -> str:
    async with envoy.client() as client:
        await sign_in(client, envoy.url("/anybody/"), person)
        return of_client(client, APP)


def ask(envoy: OwnEnvoy, target: str, cookie: str, *lines: str, method: str = "GET", server_name: str = APP) -> RawResponse:
    """One request, byte for byte."""
    head = [f"{method} {target} HTTP/1.1", f"Host: {APP}:{envoy.port}", *([f"Cookie: {cookie}"] if cookie else []), *lines]
    with RawClient(envoy.port, tls=envoy.certificates.client_context(), server_name=server_name) as client:
        return client.send("\r\n".join([*head, "", ""]).encode("latin-1")).response(method)


async def test_a_person_signs_in_and_lands_where_they_wanted_with_who_they_are(envoy: OwnEnvoy) -> None:
    async with envoy.client() as client:
        page = await sign_in(client, envoy.url("/a%20b/c?x=1&y=%C3%BC&x=2"), "alice")
        assert page.status_code == 200, page.text
        assert page.json()["target"] == "/a%20b/c?x=1&y=%C3%BC&x=2"
        client.cookies.set("theirs", "1", domain=APP)
        again = heard(await client.get(envoy.url("/again"), headers=HTML | {"x-forwarded-for": "192.0.2.9", "forwarded": "for=192.0.2.9"}))
        posted = await client.post(envoy.url("/form"), content=b"a body", headers=HTML)
    assert again["x-gate-claim-email"] == ["alice@example.com"]
    assert again["x-gate-claim-groups"] == ["engineering"]
    assert len(again["x-gate-jwt-assertion"]) == 1
    assert again["cookie"] == ["theirs=1"]
    assert (again["x-forwarded-for"], again["x-forwarded-proto"]) == (["127.0.0.1"], ["https"])
    assert "forwarded" not in again
    assert (posted.json()["method"], posted.json()["body"]) == ("POST", "a body")


async def test_a_refused_person_reads_why_and_the_log_says_it(envoy: OwnEnvoy, upstream: SampleUpstream) -> None:
    async with envoy.client() as client:
        before = upstream.hits
        page = await sign_in(client, envoy.url("/reports"), "bob")
        assert upstream.hits == before
    assert page.status_code == 403
    assert Reason.GROUP_NOT_LISTED.value in page.text
    assert "bob@example.com" in page.text

    def lines() -> list[dict]:
        told = [each for each in envoy.gate[-1].events if each.get("event") == "request"]
        return [each for each in told if each["path"] == "/reports" and each["status"] == 403]

    envoy.gate[-1].wait_for(lambda: bool(lines()), "the line of the refusal")
    (line,) = lines()
    assert (line["user_id"], line["outcome"], line["client"]) == ("oidc/bob", "forbidden", "127.0.0.1")
    assert line["request_id"] in page.text


async def test_a_program_gets_in_with_its_token_which_the_application_never_sees(
    envoy: OwnEnvoy, upstream: SampleUpstream, provider: DevelopmentProvider
) -> None:
    token = (await tokens_of(provider.url, "alice"))["id_token"]
    page = ask(envoy, "/data", "", f"Authorization: Bearer {token}")
    assert page.status == 200
    assert heard(page)["x-gate-claim-email"] == ["alice@example.com"]
    assert "authorization" not in heard(page)
    assert token.encode() not in page.body
    before = upstream.hits
    refused = ask(envoy, "/data", "", f"Authorization: Bearer {token[:-5]}")
    assert (refused.status, refused.header("www-authenticate")) == (401, BAD_TOKEN)
    # A route that takes no such tokens, and two of them: nobody is signed in.
    assert ask(envoy, "/anybody/", "", f"Authorization: Bearer {token}").status == 401
    assert ask(envoy, "/data", "", f"Authorization: Bearer {token}", f"Authorization: Bearer {token}").status in (400, 401)
    assert upstream.hits == before
    assert token not in envoy.gate[-1].output


async def test_a_job_gets_in_with_a_token_of_another_issuer_which_the_application_never_sees(
    envoy: OwnEnvoy, upstream: SampleUpstream
) -> None:
    """`bearer_token: jwt`."""
    token = token_of_job()
    page = ask(envoy, "/jobs/release", "", f"Authorization: Bearer {token}", method="POST")
    assert page.status == 200, page.body
    assert "x-gate-claim-email" not in heard(page), "an address of another issuer is none of our people's"
    assert len(heard(page)["x-gate-jwt-assertion"]) == 1
    assert "authorization" not in heard(page)
    assert token.encode() not in page.body
    before = upstream.hits
    assert ask(envoy, "/jobs/release", "", f"Authorization: Bearer {token_of_job(repository='evil/app')}").status == 403
    for refused in REFUSED_JOBS:
        answer = ask(envoy, "/jobs/release", "", f"Authorization: Bearer {refused()}")
        assert (answer.status, answer.header("www-authenticate")) == (401, BAD_TOKEN)
    assert ask(envoy, "/data", "", f"Authorization: Bearer {token}").status == 401  # that route takes ID tokens of the provider
    assert upstream.hits == before
    assert token not in envoy.gate[-1].output


async def test_scripts_and_strangers_are_answered_in_their_way(envoy: OwnEnvoy) -> None:
    script = ask(envoy, "/data", "", "Accept: application/json", "Sec-Fetch-Mode: cors")
    stranger = ask(envoy, "/data", "", "Accept: text/html")
    assert script.status == 401
    assert stranger.status == 302
    assert (stranger.header("location") or "").startswith(envoy.url("/.gate/sign_in?", host=AUTHENTICATE))
    assert (stranger.header("set-cookie") or "").startswith("__Host-_gate_signin_")
    assert ask(envoy, "/", "", "Host: unknown.localhost").status in (400, 404)


async def test_after_signing_out_the_next_request_is_refused(envoy: OwnEnvoy, upstream: SampleUpstream) -> None:
    async with envoy.client() as client:
        await sign_in(client, envoy.url("/"), "alice")
        page = await client.get(envoy.url("/.gate/signout/"), headers=HTML)
        assert page.headers["location"].startswith(envoy.url("/.gate/signout/", host=AUTHENTICATE))
        form = await client.get(page.headers["location"], headers=HTML)
        token = form.text.split('name="_gate_csrf" value="')[1].split('"')[0]
        await client.post(envoy.url("/.gate/signout/", host=AUTHENTICATE), data={"_gate_csrf": token})
        before = upstream.hits
        after = await client.get(envoy.url("/"), headers=HTML)
        assert upstream.hits == before
    assert after.status_code == 302


async def test_a_preflight_passes_with_nothing_of_the_person_and_nothing_else_does(envoy: OwnEnvoy, upstream: SampleUpstream) -> None:
    asks = ("Origin: https://other.example", "Access-Control-Request-Method: PUT")
    passed = ask(envoy, "/anybody/x", "theirs=1", *asks, method="OPTIONS")
    assert passed.status == 200
    assert "cookie" not in heard(passed)
    before = upstream.hits
    assert ask(envoy, "/anybody/x", "theirs=1", *asks).status == 401
    assert ask(envoy, "/x", "theirs=1", *asks, method="OPTIONS").status == 401
    assert upstream.hits == before


async def test_no_spelling_of_an_identity_header_reaches_the_application(envoy: OwnEnvoy) -> None:
    alice = await session_of(envoy, "alice")
    for name, lines in itertools.product(SPELLINGS, (1, 2)):
        answer = ask(envoy, "/", alice, *[f"{name}: evil@example.com"] * lines)
        assert b"evil@example.com" not in answer.body, name
        if answer.status == 200:
            assert heard(answer)["x-gate-claim-email"] == ["alice@example.com"]
        else:
            assert "_" in name


async def test_what_is_judged_is_what_is_forwarded(envoy: OwnEnvoy, upstream: SampleUpstream) -> None:
    """Every target that bob gets through with is below /anybody/ in the eyes of any upstream, and is what gate would have forwarded."""
    bob = await session_of(envoy, "bob")
    forwarded = []
    for target in ODD:
        answer = ask(envoy, target, bob)
        assert answer.status != 500, target
        if answer.status == 200 and answer.body.startswith(b'{"method"'):
            forwarded.append(httpx.Response(200, content=answer.body).json()["target"])
    assert {"/anybody/plain", "/anybody/a%2Fb"} <= set(forwarded)
    for target in forwarded:
        assert is_plain(target), target
        assert target.startswith("/anybody/"), target
        assert ".." not in target.replace("%2e", ".").replace("%2E", ".").split("/"), target


def is_plain(target: str) -> bool:
    try:
        return canonical_path(target.encode()).upper() == target.upper()
    except BadRequest:
        return False


async def test_websockets_open_from_known_pages_on_routes_that_carry_them(envoy: OwnEnvoy, upstream: SampleUpstream) -> None:
    alice = await session_of(envoy, "alice")
    own = f"Origin: https://{APP}:{envoy.port}"
    before = upstream.hits
    assert ask(envoy, "/socket", alice, *HANDSHAKE, "Origin: https://evil.example").status == 403
    assert ask(envoy, "/anybody/socket", alice, *HANDSHAKE, own).status == 403  # that route carries none
    assert ask(envoy, "/socket", "theirs=1", *HANDSHAKE, own).status == 401
    assert upstream.hits == before
    ask(envoy, "/socket", alice, *HANDSHAKE, own)
    assert upstream.hits == before + 1
    # No other protocol is changed to: the application hears an ordinary request, or none.
    assert "upgrade" not in heard(ask(envoy, "/socket", alice, "Upgrade: h2c", "Connection: Upgrade"))


@pytest.mark.parametrize("envoy", ["own"], indirect=True)
async def test_a_certificate_that_the_envoy_was_shown_is_verified_by_gate(envoy: OwnEnvoy) -> None:
    bob = {"cookie": await session_of(envoy, "bob")}
    good, others = envoy.clients.issue("bob"), authority("clients").issue("bob")
    expired = envoy.clients.issue("bob", begins=-timedelta(days=2), ends=-timedelta(days=1))
    for shown, status in (((), 495), ((good,), 200), ((others,), 495), ((expired,), 495)):
        async with envoy.client(*shown) as client:
            assert (await client.get(envoy.url("/certified/x"), headers=bob)).status_code == status
    context = good.shown_by(envoy.certificates.client_context(), envoy.directory)
    with RawClient(envoy.port, tls=context, server_name=AUTHENTICATE) as client:
        # Opened for another name: what was shown there does not count here.
        head = f"GET /certified/x HTTP/1.1\r\nHost: {APP}:{envoy.port}\r\nCookie: {bob['cookie']}\r\n\r\n"
        assert client.send(head.encode()).response().status == 495


def test_a_browser_signs_in_works_signs_out_and_another_is_refused(envoy: OwnEnvoy, provider: DevelopmentProvider, tmp_path: Path) -> None:
    with headless_browser(tmp_path / "profile", trusted_spki=envoy.certificates.spki_hash) as browser:
        browser.open(envoy.url("/page?q=1&r=%C3%BC"))
        browser.wait_for_url(provider.url)
        browser.click('button[value="alice"]')
        browser.wait_for_url(envoy.url("/page?q=1&r=%C3%BC"))
        assert "alice@example.com" in browser.text
        browser.open(envoy.url("/.gate/signout/"))
        browser.wait_for_url(envoy.url("/.gate/signout/", host=AUTHENTICATE))
        browser.click("main form button")
        browser.wait_for_url(provider.url + "/oauth2/end_session")
        browser.open(envoy.url("/again"))
        browser.wait_for_url(provider.url)
        browser.click('button[value="bob"]')
        browser.wait_for_url(envoy.url("/again"))
        assert "You don't have access" in browser.text
        assert "bob@example.com" in browser.text


async def test_without_gate_the_envoy_refuses_everybody(envoy: OwnEnvoy, upstream: SampleUpstream) -> None:
    alice = await session_of(envoy, "alice")
    assert ask(envoy, "/", alice).status == 200
    envoy.end()
    before = upstream.hits
    for target in ("/", "/anybody/", "/x?a=1"):
        assert ask(envoy, target, alice).status == 503
    assert upstream.hits == before
    envoy.begin()
    assert ask(envoy, "/", alice).status == 401  # its records were in memory
