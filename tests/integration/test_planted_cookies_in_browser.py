"""In a real browser, a sibling of gate's hosts plants cookies for the whole domain: valid sessions and sign-ins of the attacker."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider, pick_user
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, sign_in
from tests.support.upstream import SampleUpstream

# Below a domain that browsers let its hosts share.
AUTH, PAY, SHOP, SIBLING = (f"{name}.corp.localhost" for name in ("auth", "pay", "shop", "sibling"))


HOST_COOKIES, SHARED, UNPROTECTED = "host cookies", "cookie_domain", "no binding cookies"
SETTINGS: dict[str, dict[str, object]] = {
    HOST_COOKIES: {},
    SHARED: {"cookie_domain": "corp.localhost"},
    UNPROTECTED: {"cookie_secure": False},
}


@pytest.fixture(scope="module", params=[HOST_COOKIES, SHARED])
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningGate, DevelopmentProvider]]:
    with DevelopmentProvider() as provider, SampleUpstream() as upstream:
        upstream.pages["/"] = "<h1>a sibling</h1>"
        builder = GateBuilder(provider.url, authenticate_host=AUTH).setting(jwt_claims_headers=["email"], **SETTINGS[request.param])
        for host in (PAY, SHOP):
            builder.route(host, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
        builder.route(SIBLING, to=upstream.url, allow_public_unauthenticated_access=True)
        with builder.start(tmp_path_factory.mktemp("gate")) as running:
            yield running, provider


@pytest.fixture(scope="module")
def one_browser(gate: tuple[RunningGate, DevelopmentProvider], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate[0].certificates.spki_hash) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Browser:
    one_browser.forget_everything()
    return one_browser


def plant(browser: Browser, gate: RunningGate, *cookies: str) -> None:
    """As a script of the sibling can, for the whole domain, all paths and some."""
    browser.open(gate.url(SIBLING, "/"))
    for cookie in cookies:
        for path in ("/", "/deep", "/.gate", "/oauth2"):
            browser.driver.execute_script(f"document.cookie = '{cookie}; domain=corp.localhost; path={path}; secure'")


async def session_of(gate: RunningGate, client: httpx.AsyncClient, user: str, host: str) -> str:
    """`_gate=<value>` alone."""
    if client.cookies:
        await follow(client, await client.get(gate.url(host, "/x"), headers=HTML))
    else:
        await sign_in(client, gate.url(host, "/x"), user)
    domain = host if not gate.builder.settings.get("cookie_domain") else ".corp.localhost"
    return next(f"_gate={each.value}" for each in client.cookies.jar if each.name == "_gate" and each.domain == domain)


def user_at(browser: Browser, url: str) -> str:
    browser.open(url)
    return next((name for name in ("alice", "bob") if f"{name}@example.com" in browser.text), "nobody")


def sign_in_here(browser: Browser, provider: DevelopmentProvider, user: str, url: str) -> None:
    browser.sign_in(provider.url, url, user)


async def test_planted_valid_session_is_ignored(gate: tuple[RunningGate, DevelopmentProvider], browser: Browser) -> None:
    running, provider = gate
    async with running.client() as mallory:
        planted = {host: await session_of(running, mallory, "bob", host) for host in (PAY, SHOP)}
        plant(browser, running, planted[PAY], "__Host-" + planted[PAY])
        assert not [each for each in browser.driver.get_cookies() if each["name"].startswith("__Host-")]
        sign_in_here(browser, provider, "alice", running.url(PAY, "/x"))
        # Where there is one, and where there is not yet one, of alice's.
        for host, path in ((PAY, "/x"), (PAY, "/deep/x"), (SHOP, "/x"), (SHOP, "/deep/x"), (AUTH, "/.gate/")):
            plant(browser, running, *planted.values())
            displayed_user = user_at(browser, running.url(host, path))
            if running.builder.settings.get("cookie_domain") and displayed_user == "nobody":
                # The cookie of the domain was overwritten: that costs another sign-in, and nothing else.
                sign_in_here(browser, provider, "alice", running.url(host, path))
                displayed_user = user_at(browser, running.url(host, path))
            assert displayed_user == "alice", (host, path)


@pytest.mark.parametrize("gate", [UNPROTECTED], indirect=True)
async def test_two_sessions_without_binding_cookies_count_as_none_and_planted_cookies_are_cleared(
    gate: tuple[RunningGate, DevelopmentProvider], browser: Browser
) -> None:
    running, provider = gate
    async with running.client() as mallory:
        planted = await session_of(running, mallory, "bob", PAY)
        sign_in_here(browser, provider, "alice", running.url(PAY, "/x"))
        for path in ("/x", "/deep/x"):
            plant(browser, running, planted)
            # By way of the authenticate host, where alice's is the only one.
            assert user_at(browser, running.url(PAY, path)) == "alice"
            assert [each["path"] for each in browser.driver.get_cookies() if each["name"] == "_gate"] == ["/"]
    assert running.wait_for_event("ambiguous session cookies ignored")["host"] == f"{PAY}:{running.port}"


async def test_signing_out_ends_the_planted_session_too(gate: tuple[RunningGate, DevelopmentProvider], browser: Browser) -> None:
    running, provider = gate
    async with running.client() as mallory:
        await session_of(running, mallory, "bob", PAY)
        await mallory.get(running.url(AUTH, "/.gate/"), headers=HTML)
        domain = AUTH if not running.builder.settings.get("cookie_domain") else ".corp.localhost"
        other_value = next(each.value for each in mallory.cookies.jar if each.name == "_gate" and each.domain == domain)
        sign_in_here(browser, provider, "alice", running.url(PAY, "/x"))
        browser.open(running.url(SIBLING, "/"))
        browser.driver.execute_script(f"document.cookie = '_gate={other_value}; domain=corp.localhost; path=/.gate; secure'")
        assert user_at(browser, running.url(AUTH, "/.gate/")) == "alice"
        browser.click(".actions button")
        browser.wait_for_url(provider.url)
        stored = browser.driver.execute_cdp_cmd("Network.getAllCookies", {})["cookies"]
        assert [each for each in stored if "_gate" in each["name"] and (each["domain"] == AUTH or each["path"] == "/.gate")] == []
        for host in (PAY, AUTH):
            browser.open(running.url(host, "/.gate/"))
            browser.wait_for_url(provider.url)
        assert (await mallory.get(running.url(AUTH, "/.gate/"), headers={"Accept": "application/json"})).status_code == 401


@pytest.mark.parametrize("callback", ["the provider's", "the route's"])
async def test_a_planted_sign_in_is_not_brought_to_its_end(
    gate: tuple[RunningGate, DevelopmentProvider], browser: Browser, callback: str
) -> None:
    running, provider = gate
    async with running.client() as mallory:
        page = await follow(mallory, await mallory.get(running.url(PAY, "/x"), headers=HTML))
        picked = await pick_user(mallory, page, "bob")
        if callback == "the route's":
            assert picked.next_request is not None
            picked = await mallory.send(picked.next_request)
        attempts = [(each.name, each.value) for each in mallory.cookies.jar if "_signin_" in each.name]
        assert attempts
        plant(browser, running, *(f"{form(name)}={value}" for name, value in attempts for form in FORMS))
        assert picked.next_request is not None
        browser.open(str(picked.next_request.url))
        assert "started in another browser" in browser.text
        browser.open(running.url(PAY, "/x"))
        browser.wait_for_url(provider.url)


# Names that a sibling may try; the first two are what browsers refuse.
FORMS = (str, str.lower, lambda name: name.removeprefix("__Host-"), lambda name: f"=={name}")


async def test_session_without_binding_cookie_signs_in_silently(gate: tuple[RunningGate, DevelopmentProvider], browser: Browser) -> None:
    running, provider = gate
    sign_in_here(browser, provider, "alice", running.url(PAY, "/x"))
    browser.driver.delete_cookie("__Host-_gate")
    assert user_at(browser, running.url(PAY, "/x")) == "alice"
    assert browser.url == running.url(PAY, "/x")
