"""gate asked by front proxies that nobody here wrote, each configured by its file in examples/forward_auth or examples/ingress_nginx."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import httpx
import pytest

from authorize.policy.reasons import Reason
from proxy.rewriting.header_names import fold, is_internal_header
from tests.support import front_proxies, ingress_nginx
from tests.support.cookies import of_client
from tests.support.development_provider import DevelopmentProvider, tokens_of
from tests.support.front_proxies import AUTHENTICATE, Front, front
from tests.support.gate import sign_in
from tests.support.internal_headers import dropped_names
from tests.support.jobs import REFUSED_JOBS, token_of_job
from tests.support.raw_http import RawClient
from tests.support.upstream import SampleUpstream

pytestmark = pytest.mark.slow

HTML = {"accept": "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate"}
PROXIES = {
    "nginx": front_proxies.nginx,
    "Caddy": front_proxies.caddy,
    "HAProxy": front_proxies.haproxy,
    "Apache": front_proxies.apache,
    "Traefik": front_proxies.traefik,
    "Ingress-NGINX": ingress_nginx.start,
}
# It throws a refusal's text away, and sends everybody to sign in.
WITHOUT_WORDS = "Ingress-NGINX"
speaking = pytest.mark.parametrize("proxy", [name for name in PROXIES if name != WITHOUT_WORDS], indirect=True)


@pytest.fixture(scope="module")
def running(
    provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Front]]:
    """Each is started when it is asked for first: tests run in any order."""
    with ExitStack() as stack:

        @cache
        def start(name: str) -> Front:
            unauthorized = 302 if name == WITHOUT_WORDS else 401
            directory = tmp_path_factory.mktemp(name)
            return stack.enter_context(front(directory, provider.url, upstream.url, PROXIES[name], unauthorized=unauthorized))

        yield start


@pytest.fixture(params=PROXIES, ids=str)
def proxy(request: pytest.FixtureRequest, running: Callable[[str], Front]) -> Front:
    return running(request.param)


def heard(page: httpx.Response) -> dict[str, list[str]]:
    """The headers that the application received."""
    found: dict[str, list[str]] = {}
    for name, value in page.json()["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


async def test_a_person_signs_in_and_lands_where_they_wanted(proxy: Front) -> None:
    async with proxy.client() as client:
        page = await sign_in(client, proxy.url("/a%20b/c?x=1&y=%C3%BC&uri=https://evil.example/&x=2"), "alice")
        assert page.status_code == 200, page.text
        assert page.json()["target"] == "/a%20b/c?x=1&y=%C3%BC&uri=https://evil.example/&x=2"
        client.cookies.set("theirs", "1", domain="app.localhost")
        again = heard(await client.get(proxy.url("/again"), headers=HTML))
    assert again["x-gate-claim-email"] == ["alice@example.com"]
    assert again["x-gate-claim-groups"] == ["engineering"]
    assert len(again["x-gate-jwt-assertion"]) == 1
    assert again["cookie"] == ["theirs=1"]


@speaking
async def test_a_refused_person_reads_why(proxy: Front, upstream: SampleUpstream) -> None:
    async with proxy.client() as client:
        before = upstream.hits
        page = await sign_in(client, proxy.url("/"), "bob")
        assert upstream.hits == before
    assert page.status_code == 403
    assert Reason.GROUP_NOT_LISTED.value in page.text
    assert "bob@example.com" in page.text


@pytest.mark.parametrize("proxy", [WITHOUT_WORDS], indirect=True)
async def test_a_refused_person_gets_nothing(proxy: Front, upstream: SampleUpstream) -> None:
    async with proxy.client() as client:
        before = upstream.hits
        assert (await sign_in(client, proxy.url("/"), "bob")).status_code == 403
        assert upstream.hits == before


@speaking
async def test_a_script_is_told_to_sign_in_and_is_not_redirected(proxy: Front) -> None:
    async with proxy.client() as client:
        answer = await client.get(proxy.url("/data"), headers={"accept": "application/json", "sec-fetch-mode": "cors"})
    assert answer.status_code == 401


async def test_after_signing_out_the_next_request_is_refused(proxy: Front, upstream: SampleUpstream) -> None:
    async with proxy.client() as client:
        await sign_in(client, proxy.url("/"), "alice")
        page = await client.get(proxy.url("/.gate/signout/"), headers=HTML)
        assert page.headers["location"].startswith(proxy.url("/.gate/signout/", host=AUTHENTICATE))
        form = await client.get(page.headers["location"], headers=HTML)
        token = form.text.split('name="_gate_csrf" value="')[1].split('"')[0]
        await client.post(proxy.url("/.gate/signout/", host=AUTHENTICATE), data={"_gate_csrf": token})
        before = upstream.hits
        after = await client.get(proxy.url("/"), headers=HTML)
        assert upstream.hits == before
    assert after.status_code == 302


async def test_a_program_gets_in_with_its_token_which_the_application_never_sees(proxy: Front, provider: DevelopmentProvider) -> None:
    tokens = {sub: (await tokens_of(provider.url, sub))["id_token"] for sub in ("alice", "bob")}
    async with proxy.client() as program:

        async def ask(token: str, path: str = "/programs/x") -> httpx.Response:
            return await program.get(proxy.url(path), headers={"Authorization": f"Bearer {token}"})

        page = await ask(tokens["alice"])
        assert page.status_code == 200, page.text
        assert heard(page)["x-gate-claim-email"] == ["alice@example.com"]
        # Some of them replace it by nothing.
        assert heard(page).get("authorization", [""]) == [""]
        assert tokens["alice"] not in page.text
        assert (await ask(tokens["bob"])).status_code == 403
        assert (await ask(tokens["alice"][:-5])).status_code == proxy.unauthorized
        assert (await ask(tokens["alice"], "/only-people")).status_code in (302, 401)
    assert not any(token in proxy.gate.child.output for token in tokens.values())


async def test_a_job_gets_in_with_a_token_of_another_issuer_which_the_application_never_sees(proxy: Front) -> None:
    """`bearer_token: jwt`."""
    async with proxy.client() as job:

        async def ask(token: str, path: str = "/jobs/release") -> httpx.Response:
            return await job.post(proxy.url(path), headers={"Authorization": f"Bearer {token}"})

        page = await ask(token_of_job())
        assert page.status_code == 200, page.text
        assert heard(page).get("x-gate-claim-email", [""]) == [""], "an address of another issuer is none of our people's"
        assert len(heard(page)["x-gate-jwt-assertion"]) == 1
        assert heard(page).get("authorization", [""]) == [""]
        assert (await ask(token_of_job(repository="evil/app"))).status_code == 403
        assert [(await ask(refused())).status_code for refused in REFUSED_JOBS] == [proxy.unauthorized] * len(REFUSED_JOBS)
        assert (await ask(token_of_job(), "/programs/x")).status_code == proxy.unauthorized  # that route takes ID tokens of the provider


async def test_bodies_and_methods_pass_for_the_signed_in(proxy: Front) -> None:
    async with proxy.client() as client:
        await sign_in(client, proxy.url("/"), "alice")
        page = await client.post(proxy.url("/form"), content=b"a body", headers=HTML)
    assert (page.json()["method"], page.json()["body"]) == ("POST", "a body")


async def test_a_preflight_passes_with_nothing_of_the_person_and_nothing_else_does(proxy: Front, upstream: SampleUpstream) -> None:
    asks = {"origin": "https://other.example", "access-control-request-method": "PUT", "cookie": "theirs=1"}
    async with proxy.client() as client:
        passed = await client.options(proxy.url("/anybody/x"), headers=asks)
        before = upstream.hits
        refused = await client.get(proxy.url("/anybody/x"), headers=asks)
        elsewhere = await client.options(proxy.url("/x"), headers=asks)
        assert upstream.hits == before
    assert passed.status_code == 200
    assert heard(passed).get("cookie", [""]) == [""]
    assert {refused.status_code, elsewhere.status_code} <= {302, 401}


def ask(proxy: Front, target: str, cookie: str, *lines: str, method: str = "GET") -> httpx.Response:
    """One request, byte for byte."""
    host = f"app.localhost:{proxy.port}"
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", f"Cookie: {cookie}", *lines]
    with RawClient(proxy.port, tls=proxy.certificates.client_context(), server_name="app.localhost") as client:
        response = client.send("\r\n".join([*head, "", ""]).encode("latin-1")).response(method)
    return httpx.Response(response.status, content=response.body)


@pytest.fixture
async def bob(proxy: Front) -> str:
    """The Cookie of somebody who may see /anybody/ and nothing else."""
    return await session_of(proxy, "bob")


async def session_of(proxy: Front, person: str) -> str:
    async with proxy.client() as client:
        await sign_in(client, proxy.url("/anybody/"), person)
        return of_client(client, "app.localhost")


async def test_no_header_of_the_client_changes_what_is_judged(proxy: Front, upstream: SampleUpstream, bob: str) -> None:
    allowed = proxy.url("/anybody/")
    forged = [
        f"X-Original-URL: {allowed}",
        f"x-original-url: {allowed}",
        "X-Original-Uri: /anybody/",
        "X-Forwarded-Uri: /anybody/",
        "X-Forwarded-Uri: /anybody/\r\nX-Forwarded-Uri: /anybody/",
        "X-Forwarded-Host: other.localhost",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Prefix: /anybody",
        "X-Forwarded-Method: OPTIONS\r\nOrigin: https://x.example\r\nAccess-Control-Request-Method: GET",
        "X-Original-Method: OPTIONS\r\nOrigin: https://x.example\r\nAccess-Control-Request-Method: GET",
        f"Connection: X-Original-URL\r\nX-Original-URL: {allowed}",
        "Connection: X-Original-URL, X-Forwarded-Method, X-Forwarded-Uri",
        "Content-Type: application/grpc",
        "Host: forward.localhost",
    ]
    before = upstream.hits
    for lines in forged:
        for target in ("/secret", "/secret?uri=" + allowed, "/secret?&uri=/anybody/"):
            for cookie in (bob, "theirs=1"):
                status = ask(proxy, target, cookie, lines).status_code
                assert status >= 300, (lines, target, status)
    assert upstream.hits == before


async def test_no_spelling_of_an_identity_header_reaches_the_application(proxy: Front) -> None:
    alice = await session_of(proxy, "alice")
    for name in (
        "X-Gate-Claim-Email",
        "x-gate-claim-EMAIL",
        "X_Gate_Claim_Email",
        "X-Gate_Claim-Email",
        "X.Gate.Claim.Email",
        "X-Gate-Claim-Role",
    ):
        answer = ask(proxy, "/", alice, f"{name}: evil@example.com")
        assert "evil@example.com" not in answer.text, name
        if answer.status_code == 200:
            assert heard(answer)["x-gate-claim-email"] == ["alice@example.com"]


# By these an application of some front proxy is told who asks, or who has asked before it.
FOREIGN = [
    *("X-Forwarded-Login", "X-Forwarded-User", "X-Forwarded-Access-Token", "X-Forwarded-Client-Cert", "X-Forwarded-Ssl"),
    *("X-Forwarded-Scheme", "X-Original-Forwarded-For", "X-Original-Host", "X-Envoy-Original-Path", "X-Webauth-User", "Remote-User"),
]
# Apache shows gate none of these, so it has to refuse them all.
ODD = ["Cf_Access_Jwt_Assertion", "X_Auth_Request_User", "X.Webauth.User", "X!Gate!Claim!Email", "Path_Info", "Any_Thing", "a.b", "x~y"]


async def test_no_header_that_only_proxies_set_reaches_the_application(proxy: Front) -> None:
    """Whatever the code drops, folds or ignores (X-Request-Id is harmless), and whatever another route of the application sends."""
    bob, mark = await session_of(proxy, "bob"), "203.0.113.66"
    spelled = [name.replace("-", other) for name in FOREIGN for other in ("-", "_", ".")]
    internal = [name for name in dropped_names() if is_internal_header(fold(name.encode())) and name != "x-request-id"]
    for name in ["X!Gate!Claim!Email", *spelled, *internal]:
        answer = ask(proxy, "/anybody/", bob, f"{name}: {mark}")
        # What a client sends as X-Forwarded-For the controller of Ingress NGINX itself reports to the application under another name.
        reported = f'["x-original-forwarded-for", "{mark}"]'
        assert mark not in (answer.text.lower().replace(reported, "") if name == "x-forwarded-for" else answer.text), name
    assert ask(proxy, "/anybody/", bob, f"X-Fine: {mark}").text.count(mark) == 1


@pytest.mark.parametrize("proxy", ["Apache"], indirect=True)
async def test_no_header_that_gate_is_not_shown_passes(proxy: Front, upstream: SampleUpstream) -> None:
    bob, before = await session_of(proxy, "bob"), upstream.hits
    assert {ask(proxy, "/anybody/", bob, f"{name}: x").status_code for name in ODD} <= {401, 403}
    assert upstream.hits == before


async def test_what_is_judged_is_what_is_forwarded(proxy: Front, upstream: SampleUpstream, bob: str) -> None:
    """Every target that bob gets through with is below /anybody/ in the eyes of any upstream."""
    targets = [
        *("/anybody/../secret", "/anybody/%2e%2e/secret", "/anybody/..%2fsecret", "/anybody/..;/secret", "/anybody/x/../../secret"),
        *(
            "//anybody/../secret",
            "/secret/../anybody/",
            "/secret/%2e%2e/anybody/",
            "/secret/..%2fanybody/",
            "/%61nybody/x",
            "/anybody%2f..%2fsecret",
        ),
        *(
            "/secret?/anybody/",
            "/secret%3f/anybody/",
            "/secret%23/anybody/",
            "/anybody/%00",
            "/anybody/%0a",
            "/anybody/\\..\\secret",
            "/anybody/%5c..%5csecret",
        ),
        *(
            "/anybody/%252e%252e/secret",
            "/anybody/%c0%ae%c0%ae/secret",
            "/anybody",
            "/anybodyelse",
            "/Anybody/",
            "/.gate/../secret",
            "/.gate/%2e%2e/secret",
        ),
        *(
            "/anybody/./x",
            "/anybody/x;y",
            "http://app.localhost/anybody/x",
            "/./anybody/x",
            "/anybody//x",
            "/anybody/a%2fb",
            "/anybody/plain",
        ),
    ]
    seen = []
    for target in targets:
        answer = ask(proxy, target, bob)
        if answer.status_code == 200 and answer.text.startswith('{"method"'):
            seen.append(answer.json()["target"])
    assert "/anybody/plain" in seen
    for target in seen:
        assert target.startswith("/anybody/"), target
        assert ".." not in target.replace("%2e", ".").replace("%2E", "."), target


async def test_pages_of_other_origins_open_no_websocket(proxy: Front, upstream: SampleUpstream) -> None:
    alice = await session_of(proxy, "alice")
    handshake = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Connection: Upgrade"]
    own = f"Origin: https://app.localhost:{proxy.port}"
    before = upstream.hits
    assert ask(proxy, "/socket", alice, *handshake, "Origin: https://evil.example").status_code == 403
    assert ask(proxy, "/anybody/socket", alice, *handshake, own).status_code == 403  # that route carries none
    assert ask(proxy, "/socket", "theirs=1", *handshake, own).status_code == proxy.unauthorized
    assert upstream.hits == before
    ask(proxy, "/socket", alice, *handshake, own)
    assert upstream.hits == before + 1
