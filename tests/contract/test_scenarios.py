"""The same scenarios for each proxy that asks gate, configured by examples/{forward_auth,ingress_nginx,ext_authz,envoy_gateway}."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import cache
from pathlib import Path

import httpx
import pytest

from authorize.policy.paths.canonical import canonical_path
from authorize.policy.reasons import Reason
from foundation.auth_challenges import INVALID_TOKEN
from foundation.errors import BadRequest
from proxy.rewriting.reserved_headers import fold, is_reserved_header
from tests.support.browser import headless_browser
from tests.support.client_certificates import authority
from tests.support.development_provider import DevelopmentProvider, tokens_of
from tests.support.external_envoy import APP, AUTHENTICATE, ExternalEnvoy
from tests.support.front_proxies import Front
from tests.support.fronts import EXT_AUTHZ, FORWARD_AUTH, AnyFront, session_cookie, started
from tests.support.gate import sign_in
from tests.support.internal_headers import dropped_names
from tests.support.jobs import REFUSED_JOBS, token_of_job
from tests.support.raw_http import RawClient, RawResponse
from tests.support.upstream import SampleUpstream

HTML = {"accept": "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate"}
HANDSHAKE = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
by_forward_auth = pytest.mark.parametrize("front", FORWARD_AUTH, indirect=True)


@pytest.fixture(scope="module")
def running(
    provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], AnyFront]]:
    """Each is started when it is asked for first: tests run in any order."""
    with ExitStack() as stack:

        @cache
        def start(name: str) -> AnyFront:
            return stack.enter_context(started(name, tmp_path_factory.mktemp(name), provider.url, upstream.url))

        yield start


@pytest.fixture(params=[*FORWARD_AUTH, *EXT_AUTHZ])
def front(request: pytest.FixtureRequest, running: Callable[[str], AnyFront]) -> AnyFront:
    return running(request.param)


@pytest.fixture
def envoy(running: Callable[[str], AnyFront]) -> ExternalEnvoy:
    found = running("Envoy")
    assert isinstance(found, ExternalEnvoy)
    return found


@pytest.fixture
async def bob(front: AnyFront) -> str:
    return await session_cookie(front, "bob")


def incoming(page: httpx.Response | RawResponse) -> dict[str, list[str]]:
    """The headers that the application received."""
    found: dict[str, list[str]] = {}
    for name, value in json.loads(page.content if isinstance(page, httpx.Response) else page.body)["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


def ask(front: AnyFront, target: str, cookie: str, *lines: str, method: str = "GET") -> RawResponse:
    """One request, byte for byte."""
    head = [f"{method} {target} HTTP/1.1", f"Host: {APP}:{front.port}", *([f"Cookie: {cookie}"] if cookie else []), *lines]
    with RawClient(front.port, tls=front.certificates.client_context(), server_name=APP) as client:
        return client.send("\r\n".join([*head, "", ""]).encode("latin-1")).response(method)


def without_session(front: AnyFront) -> set[int]:
    return {401} if isinstance(front, ExternalEnvoy) else {302, 401}


async def test_sign_in_returns_to_the_page_with_identity(front: AnyFront) -> None:
    target = "/a%20b/c?x=1&y=%C3%BC&uri=https://evil.example/&x=2"
    async with front.client() as client:
        page = await sign_in(client, front.url(target), "alice")
        assert (page.status_code, page.json()["target"]) == (200, target)
        client.cookies.set("theirs", "1", domain=APP)
        again = incoming(
            await client.get(front.url("/again"), headers=HTML | {"x-forwarded-for": "192.0.2.9", "forwarded": "for=192.0.2.9"})
        )
        posted = await client.post(front.url("/form"), content=b"a body", headers=HTML)
    assert (again["x-gate-claim-email"], again["x-gate-claim-groups"]) == (["alice@example.com"], ["engineering"])
    assert len(again["x-gate-jwt-assertion"]) == 1
    assert again["cookie"] == ["theirs=1"]
    assert (posted.json()["method"], posted.json()["body"]) == ("POST", "a body")
    if isinstance(front, ExternalEnvoy):
        assert (again["x-forwarded-for"], again["x-forwarded-proto"]) == (["127.0.0.1"], ["https"])
        assert "forwarded" not in again


async def test_denied_user_sees_reason_through_front_proxy(front: AnyFront, upstream: SampleUpstream) -> None:
    async with front.client() as client:
        before = upstream.hits
        page = await sign_in(client, front.url("/reports"), "bob")
        assert (page.status_code, upstream.hits) == (403, before)
    if front.unauthorized == 401:
        assert Reason.GROUP_NOT_LISTED.value in page.text
        assert "bob@example.com" in page.text
    if isinstance(front, ExternalEnvoy):
        child = front.gate[-1]

        def lines() -> list[dict]:
            received = [each for each in child.events if each.get("event") == "request"]
            return [each for each in received if each["path"] == "/reports" and each["status"] == 403]

        child.wait_for(lambda: bool(lines()), "the line of the refusal")
        (line,) = lines()
        assert (line["user_id"], line["outcome"], line["client_address"]) == ("oidc/bob", "forbidden", "127.0.0.1")
        assert line["request_id"] in page.text


async def test_scripts_and_strangers_are_answered_in_their_way(front: AnyFront) -> None:
    assert ask(front, "/data", "", "Accept: application/json", "Sec-Fetch-Mode: cors").status == front.unauthorized
    stranger = ask(front, "/data", "", "Accept: text/html")
    assert stranger.status == 302
    if isinstance(front, ExternalEnvoy):
        assert (stranger.header("location") or "").startswith(front.url("/.gate/sign_in?", host=AUTHENTICATE))
        assert (stranger.header("set-cookie") or "").startswith("__Host-_gate_signin_")
        assert ask(front, "/", "", "Host: unknown.localhost").status in (400, 404)


async def test_after_signing_out_the_next_request_is_refused(front: AnyFront, upstream: SampleUpstream) -> None:
    async with front.client() as client:
        await sign_in(client, front.url("/"), "alice")
        page = await client.get(front.url("/.gate/signout/"), headers=HTML)
        assert page.headers["location"].startswith(front.url("/.gate/signout/", host=AUTHENTICATE))
        form = await client.get(page.headers["location"], headers=HTML)
        token = form.text.split('name="_gate_csrf" value="')[1].split('"')[0]
        await client.post(front.url("/.gate/signout/", host=AUTHENTICATE), data={"_gate_csrf": token})
        before = upstream.hits
        after = await client.get(front.url("/"), headers=HTML)
        assert upstream.hits == before
    assert after.status_code == 302


async def test_programmatic_token_is_accepted_and_hidden_from_the_application(
    front: AnyFront, upstream: SampleUpstream, provider: DevelopmentProvider
) -> None:
    alice, bob = [(await tokens_of(provider.url, sub))["id_token"] for sub in ("alice", "bob")]
    path = "/data" if isinstance(front, ExternalEnvoy) else "/programs/x"
    page = ask(front, path, "", f"Authorization: Bearer {alice}")
    assert page.status == 200, page.body
    assert incoming(page)["x-gate-claim-email"] == ["alice@example.com"]
    assert incoming(page).get("authorization", [""]) == [""]  # some of them replace it by nothing
    assert alice.encode() not in page.body
    before = upstream.hits
    assert ask(front, path, "", f"Authorization: Bearer {bob}").status == 403
    refused = ask(front, path, "", f"Authorization: Bearer {alice[:-5]}")
    assert refused.status == front.unauthorized
    # A route that accepts no such tokens: the request is anonymous.
    assert ask(front, "/anybody/", "", f"Authorization: Bearer {alice}").status in without_session(front)
    if isinstance(front, ExternalEnvoy):
        assert refused.header("www-authenticate") == INVALID_TOKEN
        assert ask(front, path, "", f"Authorization: Bearer {alice}", f"Authorization: Bearer {alice}").status in (400, 401)
    assert upstream.hits == before
    assert not any(token in front.output for token in (alice, bob))


async def test_a_job_gets_in_with_a_token_of_another_issuer_which_the_application_never_sees(
    front: AnyFront, upstream: SampleUpstream
) -> None:
    """`bearer_token: jwt`."""
    token = token_of_job()
    page = ask(front, "/jobs/release", "", f"Authorization: Bearer {token}", "Content-Length: 0", method="POST")
    assert page.status == 200, page.body
    assert incoming(page).get("x-gate-claim-email", [""]) == [""], "an address of another issuer is none of our people's"
    assert len(incoming(page)["x-gate-jwt-assertion"]) == 1
    assert incoming(page).get("authorization", [""]) == [""]
    assert token.encode() not in page.body
    before = upstream.hits
    assert ask(front, "/jobs/release", "", f"Authorization: Bearer {token_of_job(repository='evil/app')}").status == 403
    for refused in REFUSED_JOBS:
        answer = ask(front, "/jobs/release", "", f"Authorization: Bearer {refused()}")
        assert answer.status == front.unauthorized
        assert not isinstance(front, ExternalEnvoy) or answer.header("www-authenticate") == INVALID_TOKEN
    of_provider = "/data" if isinstance(front, ExternalEnvoy) else "/programs/x"  # which takes ID tokens of the provider
    assert ask(front, of_provider, "", f"Authorization: Bearer {token}").status == front.unauthorized
    assert upstream.hits == before
    assert token not in front.output


async def test_only_preflight_passes_without_identity(front: AnyFront, upstream: SampleUpstream) -> None:
    asks = ("Origin: https://other.example", "Access-Control-Request-Method: PUT")
    passed = ask(front, "/anybody/x", "theirs=1", *asks, method="OPTIONS")
    assert passed.status == 200
    assert incoming(passed).get("cookie", [""]) == [""]
    before = upstream.hits
    assert ask(front, "/anybody/x", "theirs=1", *asks).status in without_session(front)
    assert ask(front, "/x", "theirs=1", *asks, method="OPTIONS").status in without_session(front)
    assert upstream.hits == before


@by_forward_auth
async def test_client_headers_do_not_change_the_decision(front: Front, upstream: SampleUpstream, bob: str) -> None:
    allowed = front.url("/anybody/")
    preflight = "OPTIONS\r\nOrigin: https://x.example\r\nAccess-Control-Request-Method: GET"
    forged = [
        f"X-Original-URL: {allowed}",
        f"x-original-url: {allowed}",
        "X-Original-Uri: /anybody/",
        "X-Forwarded-Uri: /anybody/",
        "X-Forwarded-Uri: /anybody/\r\nX-Forwarded-Uri: /anybody/",
        "X-Forwarded-Host: other.localhost",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Prefix: /anybody",
        f"X-Forwarded-Method: {preflight}",
        f"X-Original-Method: {preflight}",
        f"Connection: X-Original-URL\r\nX-Original-URL: {allowed}",
        "Connection: X-Original-URL, X-Forwarded-Method, X-Forwarded-Uri",
        "Content-Type: application/grpc",
        "Host: forward.localhost",
    ]
    before = upstream.hits
    targets = ("/secret", "/secret?uri=" + allowed, "/secret?&uri=/anybody/")
    for lines, target, cookie in itertools.product(forged, targets, (bob, "theirs=1")):
        assert ask(front, target, cookie, lines).status >= 300, (lines, target)
    assert upstream.hits == before


SPELLINGS = (
    *("X-Gate-Claim-Email", "x-gate-claim-EMAIL", "X_Gate_Claim_Email", "X-Gate_Claim-Email", "X.Gate.Claim.Email", "X-Gate-Claim-Role"),
    *("XGateClaimRole", "Impersonate-User", "X-Original-Url", "X-Envoy-Original-Path"),
)


async def test_no_spelling_of_an_identity_header_reaches_the_application(front: AnyFront) -> None:
    alice = await session_cookie(front, "alice")
    for name, lines in itertools.product(SPELLINGS, (1, 2)):
        answer = ask(front, "/", alice, *[f"{name}: evil@example.com"] * lines)
        assert b"evil@example.com" not in answer.body, name
        if answer.status == 200:
            assert incoming(answer)["x-gate-claim-email"] == ["alice@example.com"]
        else:
            assert isinstance(front, Front) or "_" in name


# Headers in which some front proxy passes the user or the original request to its application.
FOREIGN = [
    *("X-Forwarded-Login", "X-Forwarded-User", "X-Forwarded-Access-Token", "X-Forwarded-Client-Cert", "X-Forwarded-Ssl"),
    *("X-Forwarded-Scheme", "X-Original-Forwarded-For", "X-Original-Host", "X-Envoy-Original-Path", "X-Webauth-User", "Remote-User"),
]
# Apache shows gate none of these, so it has to refuse them all.
NOT_DISPLAYED = [
    "Cf_Access_Jwt_Assertion",
    "X_Auth_Request_User",
    "X.Webauth.User",
    "X!Gate!Claim!Email",
    "Path_Info",
    "Any_Thing",
    "a.b",
    "x~y",
]


@by_forward_auth
async def test_no_header_that_only_proxies_set_reaches_the_application(front: Front, bob: str) -> None:
    """Every header that the code drops, folds or ignores (X-Request-Id is harmless), and those that another route sets."""
    mark = "203.0.113.66"
    spelled = [name.replace("-", other) for name in FOREIGN for other in ("-", "_", ".")]
    internal = [name for name in dropped_names() if is_reserved_header(fold(name.encode())) and name != "x-request-id"]
    for name in ["X!Gate!Claim!Email", *spelled, *internal]:
        text = ask(front, "/anybody/", bob, f"{name}: {mark}").body.decode()
        # The controller of Ingress NGINX itself passes a client's X-Forwarded-For to the application under another name.
        reported = f'["x-original-forwarded-for", "{mark}"]'
        assert mark not in (text.lower().replace(reported, "") if name == "x-forwarded-for" else text), name
    assert ask(front, "/anybody/", bob, f"X-Fine: {mark}").body.count(mark.encode()) == 1


@pytest.mark.parametrize("front", ["Apache"], indirect=True)
async def test_headers_unseen_by_gate_do_not_pass(front: Front, upstream: SampleUpstream, bob: str) -> None:
    before = upstream.hits
    assert {ask(front, "/anybody/", bob, f"{name}: x").status for name in NOT_DISPLAYED} <= {401, 403}
    assert upstream.hits == before


DOTS = ("..", "%2e%2e", ".%2E", "%2E.", "..;", "..%3b", "..%2f", "..%5c", "%252e%252e", "%c0%ae%c0%ae", ".", "%2e")
BEFORE = ("/anybody/", "//anybody/", "/anybody/x/", "/anybody%2f")
ODD = (
    *(f"/secret/{dot}/anybody/x" for dot in DOTS),
    *("/anybody/../secret", "/anybody/..%2fsecret", "/anybody/..;/secret", "/anybody/x/../../secret", "/anybody%2f..%2fsecret"),
    *("/anybody//x", "//anybody/x", "/./anybody/x", "/%61nybody/x", "/ANYBODY/x", "/anybody", "/anybodyelse", "/anybody;/x"),
    *("/anybody/./x", "/anybody/x;y", "/anybody/a%2fb", "/anybody/a%2Fb", "/anybody/%7euser", "/anybody/%c3%BC", "/anybody/%00"),
    *("/anybody/%zz", "/anybody/%0a", "/anybody/\\..\\secret", "/anybody/%5c..%5csecret", "/secret?/anybody/", "/secret%3f/anybody/"),
    *("/secret%23/anybody/", "/.gate/../secret", "/.gate/%2e%2e/secret", "/.gate%2fx", f"https://{APP}/secret"),
    *(f"http://{APP}/anybody/x", "/anybody/plain"),
)
CLIMBING = tuple(f"{before}{dot}{after}" for before in BEFORE for dot in DOTS for after in ("/secret", "secret"))


async def test_authorized_path_is_the_forwarded_path(front: AnyFront, bob: str) -> None:
    """Every target that bob gets through with is below /anybody/ in the eyes of any upstream, and is what gate would have forwarded."""
    is_envoy, forwarded = isinstance(front, ExternalEnvoy), []
    for target in (*ODD, *(CLIMBING if is_envoy else ())):
        answer = ask(front, target, bob)
        assert answer.status != 500, target
        if answer.status == 200 and answer.body.startswith(b'{"method"'):
            forwarded.append(json.loads(answer.body)["target"])
    assert {"/anybody/plain", *(["/anybody/a%2Fb"] if is_envoy else [])} <= set(forwarded)
    for target in forwarded:
        assert not is_envoy or is_plain(target), target
        assert target.startswith("/anybody/"), target
        decoded = target.replace("%2e", ".").replace("%2E", ".")
        assert ".." not in (decoded.split("/") if is_envoy else decoded), target


def is_plain(target: str) -> bool:
    try:
        return canonical_path(target.encode()).upper() == target.upper()
    except BadRequest:
        return False


async def test_websocket_origin_and_route(front: AnyFront, upstream: SampleUpstream) -> None:
    alice, own, before = await session_cookie(front, "alice"), f"Origin: https://{APP}:{front.port}", upstream.hits
    assert ask(front, "/socket", alice, *HANDSHAKE, "Origin: https://evil.example").status == 403
    assert ask(front, "/anybody/socket", alice, *HANDSHAKE, own).status == 403  # that route carries none
    assert ask(front, "/socket", "theirs=1", *HANDSHAKE, own).status == front.unauthorized
    assert upstream.hits == before
    ask(front, "/socket", alice, *HANDSHAKE, own)
    assert upstream.hits == before + 1
    if isinstance(front, ExternalEnvoy):  # no other protocol is switched to: the application receives an ordinary request
        assert "upgrade" not in incoming(ask(front, "/socket", alice, "Upgrade: h2c", "Connection: Upgrade"))


async def test_certificate_from_envoy_is_verified_by_gate(envoy: ExternalEnvoy) -> None:
    bob = {"cookie": await session_cookie(envoy, "bob")}
    valid, others = envoy.clients.issue("bob"), authority("clients").issue("bob")
    expired = envoy.clients.issue("bob", begins=-timedelta(days=2), ends=-timedelta(days=1))
    for displayed, status in (((), 495), ((valid,), 200), ((others,), 495), ((expired,), 495)):
        async with envoy.client(*displayed) as client:
            assert (await client.get(envoy.url("/certified/x"), headers=bob)).status_code == status
    context = valid.present_in(envoy.certificates.client_context(), envoy.directory)
    with RawClient(envoy.port, tls=context, server_name=AUTHENTICATE) as client:
        # Opened for another name: what was shown there does not count here.
        head = f"GET /certified/x HTTP/1.1\r\nHost: {APP}:{envoy.port}\r\nCookie: {bob['cookie']}\r\n\r\n"
        assert client.send(head.encode()).response().status == 495


@pytest.mark.parametrize("front", ["nginx", "Caddy", *EXT_AUTHZ], indirect=True)
def test_a_browser_signs_in_works_signs_out_and_another_is_refused(front: AnyFront, provider: DevelopmentProvider, tmp_path: Path) -> None:
    with headless_browser(tmp_path / "profile", trusted_spki=front.certificates.spki_hash) as browser:
        browser.sign_in(provider.url, front.url("/page?q=1&r=%C3%BC"))
        assert "alice@example.com" in browser.text
        browser.open(front.url("/.gate/signout/"))
        browser.wait_for_url(front.url("/.gate/signout/", host=AUTHENTICATE))
        browser.click("main form button")
        browser.wait_for_url(provider.url + "/oauth2/end_session")
        browser.sign_in(provider.url, front.url("/again"), "bob")
        assert "You don't have access" in browser.text
        assert "bob@example.com" in browser.text


@pytest.mark.parametrize("front", EXT_AUTHZ, indirect=True)
async def test_envoy_denies_all_without_gate(front: ExternalEnvoy, upstream: SampleUpstream) -> None:
    alice = await session_cookie(front, "alice")
    assert ask(front, "/", alice).status == 200
    front.end()
    before = upstream.hits
    for target in ("/", "/anybody/", "/x?a=1"):
        assert ask(front, target, alice).status == 503
    assert upstream.hits == before
    front.begin()
    assert ask(front, "/", alice).status == 401  # its records were in memory
