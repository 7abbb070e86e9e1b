"""The portal as people use it: on a phone and on a desk, in light and in dark, by keyboard alone, and without JavaScript."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from authenticate.upstream_oauth.connection_service import STATE_TEXTS
from authorize.upstream.account_connections import ConnectionState
from examples.demo.people import DemoUser
from tests.support.accessibility_checks import SCHEMES, errors, look, overflow, violations
from tests.support.browser import Browser, headless_browser
from tests.support.children import wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

LONG = "A name of sixty characters, as somebody will surely give it"
WIDTHS = (390, 768, 1440)
GROUPS = tuple(f"a-group-with-a-rather-long-name-number-{number:03}" for number in range(199))
DORA = DemoUser("dora", "Dora with a name of sixty characters, as somebody has it ...", (*GROUPS, "\u202eevil</i>"), "Operations")
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" rx="2" fill="#c33"/></svg>'
OAUTH = {"client_id": "gate", "authorization_url": "https://code.example.com/authorize", "token_url": "https://code.example.com/token"}
APPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("wiki.localhost", {"title": "Team wiki", "description": "Minutes, plans and how-tos", "icon": "book", "category": "Engineering"}),
    ("grafana.localhost", {"icon": "chart", "category": "Engineering", "description": "How everything is doing"}),
    ("ci.localhost", {"title": "<b>CI</b> & builds", "category": "Engineering", "policy": {"allow": {"or": [{"http_method": "GET"}]}}}),
    ("long.localhost", {"title": LONG, "description": f"{LONG}. {LONG}. {LONG}", "category": "W" * 40, "icon": "logo.svg"}),
    ("pay.localhost", {"title": "Payroll", "icon": "money", "acr_values": ["urn:example:mfa"]}),
    ("team-chat.localhost", {"icon": "chat"}),
    ("closed.localhost", {"title": "Closed", "allowed_users": ["nobody@example.com"]}),
    ("hidden.localhost", {"title": "Hidden", "portal": "hide"}),
    (
        "code.localhost",
        {"mcp": {"path": "/mcp", "name": "Code hosting", "upstream_oauth": OAUTH}, "description": "Its users have accounts"},
    ),
    ("tickets.localhost", {"mcp": {"path": "/mcp", "name": "Ticket tools"}, "description": "Search and change tickets", "icon": "ticket"}),
)


@pytest.fixture(scope="module")
def provider() -> Iterator[DevelopmentProvider]:
    with DevelopmentProvider([DORA]) as running:
        yield running


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    directory = tmp_path_factory.mktemp("gate")
    (directory / "logo.svg").write_bytes(SVG)
    builder = GateBuilder(provider.url).setting(groups_claim="groups")
    for host, keys in APPS:
        access = {} if {"allowed_users", "policy"} & keys.keys() else {"allow_any_authenticated_user": True}
        builder.route(host, to=upstream.url, **access, **keys)
    builder.policy.append(
        {"from": "tcp+https://wiki.localhost:5432", "to": "tcp://127.0.0.1:9", "title": "Database", "icon": "database"}
        | {"allow_any_authenticated_user": True}
    )
    with builder.start(directory) as running:
        yield running


@pytest.fixture(scope="module")
def browser(gate: RunningGate, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate.certificates.spki_hash) as running:
        running.sign_in(provider.url, page(gate), "dora")
        yield running


def page(gate: RunningGate, path: str = "/.gate/") -> str:
    return gate.url(gate.builder.authenticate_host, path)


def displayed(browser: Browser) -> list[str]:
    """Titles of the applications that are to be seen."""
    return [each.text for each in browser.driver.find_elements(By.CSS_SELECTOR, ".apps li:not([hidden]) b") if each.is_displayed()]


@pytest.mark.parametrize(
    "path", ["/.gate/", "/.gate/sessions", "/.gate/?q=wiki", "/.gate/why?address=nowhere.localhost", "/.gate/why?address=wiki"]
)
def test_document_is_public(browser: Browser, gate: RunningGate, path: str) -> None:
    browser.open(page(gate, path))
    found = []
    for width in WIDTHS:
        for scheme in SCHEMES:
            look(browser, width, scheme)
            name = f"portal-{''.join(filter(str.isalnum, path))}-{width}-{scheme}"
            browser.driver.execute_script("scrollTo(0, 0)")
            browser.picture(name)
            browser.driver.execute_script("scrollTo(0, document.body.scrollHeight)")
            browser.picture(f"{name}-below")
            found += [f"{width} {scheme}: {each}" for each in violations(browser)]
            if (wide := overflow(browser)) > 0:
                found.append(f"{width} {scheme}: {wide} pixels too wide")
    assert not found, "\n".join(found)
    assert errors(browser) == []


def test_only_accessible_applications_are_listed(browser: Browser, gate: RunningGate) -> None:
    look(browser, 1440, "light")
    browser.open(page(gate))
    titles = ["<b>CI</b> & builds", "Grafana", "Team wiki", LONG, "Database", "Payroll", "Team chat", "Code hosting", "Ticket tools"]
    assert displayed(browser) == titles
    assert "Closed" not in browser.driver.page_source
    assert "hidden.localhost" not in browser.driver.page_source
    assert "stronger sign-in" in browser.text
    assert "partial access" in browser.text
    assert f"gate tunnel wiki.localhost:5432 --listen 127.0.0.1:5432 --url https://wiki.localhost:{gate.port}" in browser.text
    assert browser.driver.execute_script("return document.querySelector('.apps img').naturalWidth") > 0


@pytest.mark.parametrize("width", [390, 1440])
def test_mcp_server_has_a_url_to_copy(browser: Browser, gate: RunningGate, width: int) -> None:
    look(browser, width, "light")
    browser.open(page(gate))
    code, tile = browser.driver.find_elements(By.CSS_SELECTOR, ".server")
    assert code.find_element(By.CSS_SELECTOR, ".account span").text == STATE_TEXTS[ConnectionState.NOT_CONNECTED]
    assert code.find_element(By.CSS_SELECTOR, ".account button").is_displayed()
    assert not tile.find_elements(By.CSS_SELECTOR, ".account")
    assert tile.find_element(By.CSS_SELECTOR, "code").text == gate.url("tickets.localhost", "/mcp")
    assert tile.find_element(By.CSS_SELECTOR, ".copy").is_displayed()
    assert tile.find_element(By.CSS_SELECTOR, "a").get_attribute("href") == gate.url("tickets.localhost", "/")
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", tile)
    browser.picture(f"portal-mcp-{width}")


def test_the_keyboard_alone_finds_and_opens(browser: Browser, gate: RunningGate) -> None:
    browser.open(page(gate))
    keys = browser.find("body")
    keys.send_keys("/")
    active = browser.driver.switch_to.active_element
    assert active.get_attribute("id") == "q"
    active.send_keys("WÍKI team")
    assert displayed(browser) == ["Team wiki"]
    assert browser.find("#found").text == "Matching applications: 1"
    active.send_keys(Keys.ESCAPE)
    assert len(displayed(browser)) == 9
    active.send_keys(Keys.ARROW_DOWN)
    first = browser.driver.switch_to.active_element
    assert "CI" in first.text
    first.send_keys(Keys.ARROW_RIGHT)
    assert "Grafana" in browser.driver.switch_to.active_element.text
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_UP)
    search = browser.driver.switch_to.active_element
    search.send_keys("team wiki")
    search.send_keys(Keys.ENTER)
    browser.wait_for_url(gate.url("wiki.localhost"))
    wait_until(lambda: "Team wiki" in recently_used(browser, gate), "the note of what was opened")


def recently_used(browser: Browser, gate: RunningGate) -> str:
    browser.open(page(gate))
    return " ".join(each.text for each in browser.driver.find_elements(By.CSS_SELECTOR, ".recent"))


def test_another_browser_s_session_ends_by_keyboard_and_at_once(
    browser: Browser, gate: RunningGate, provider: DevelopmentProvider, tmp_path: Path
) -> None:
    with headless_browser(tmp_path, trusted_spki=gate.certificates.spki_hash) as other:
        other.sign_in(provider.url, gate.url("wiki.localhost"), "dora")
        look(browser, 1440, "light")
        wait_until(lambda: "at wiki.localhost" in sessions_of(browser, gate), "the session to be seen")
        browser.picture("portal-two-sessions")
        browser.find("button[name=end]").send_keys(Keys.ENTER)
        wait_until(lambda: not browser.driver.find_elements(By.CSS_SELECTOR, "button[name=end]"), "one session")
        other.open(gate.url("wiki.localhost"))
        other.wait_for_url(provider.url)
    assert "this browser" in sessions_of(browser, gate)
    assert errors(browser) == []


def sessions_of(browser: Browser, gate: RunningGate) -> str:
    browser.open(page(gate, "/.gate/sessions"))
    return browser.text


def test_it_works_without_javascript(browser: Browser, gate: RunningGate) -> None:
    with browser.without_scripts():
        browser.open(page(gate))
        assert browser.find(".server code").text == gate.url("code.localhost", "/mcp"), "text to select"
        assert not browser.find(".server .copy").is_displayed()
        search = browser.find("#q")
        search.send_keys("graf")
        search.send_keys(Keys.ENTER)
        browser.wait_for_url(page(gate, "/.gate/?q=graf"))
        assert displayed(browser) == ["Grafana"]
        browser.click(".star")
        browser.wait_for_url(page(gate, "/.gate/#a-"))
        assert browser.find(".category h2").text == "Favourites"
        assert displayed(browser)[0] == "Grafana"
        browser.picture("portal-favourite")
        browser.click(".star")
        wait_until(lambda: "Favourites" not in browser.text, "no favourite any more")
        address = browser.find("#address")
        address.send_keys("closed.localhost")
        address.send_keys(Keys.ENTER)
        browser.wait_for_url(page(gate, "/.gate/why?address=closed.localhost"))
        assert "Application not found" in browser.text


@pytest.fixture
def many(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    """More applications than a page holds, in categories of different sizes."""
    builder = GateBuilder(provider.url)
    for number in range(230):
        builder.route(f"app-{number:03}.localhost", to=upstream.url, category=f"Team {number % 7}", allow_any_authenticated_user=True)
    with builder.start(tmp_path) as running:
        yield running


def test_many_are_leafed_through_and_found_on_all_pages(many: RunningGate, provider: DevelopmentProvider, tmp_path: Path) -> None:
    with headless_browser(tmp_path / "profile", trusted_spki=many.certificates.spki_hash) as browser:
        browser.sign_in(provider.url, page(many), "dora")
        assert len(displayed(browser)) == 100
        browser.find("#q").send_keys("app 229", Keys.ENTER)
        browser.wait_for_url(page(many, "/.gate/?q=app+229"))
        assert displayed(browser) == ["App 229"]
        browser.find("#q").clear()
        browser.find("#q").send_keys("app 1", Keys.ENTER)  # what is on this page is not all that there is
        browser.wait_for_url(page(many, "/.gate/?q=app+1"))
        assert "“app 1”" in browser.find("#found").text
        browser.open(page(many))
        browser.click('a[rel="next"]')
        browser.wait_for_url(page(many, "/.gate/?page=2"))
        for width in WIDTHS:
            for scheme in SCHEMES:
                look(browser, width, scheme)
                browser.driver.execute_script("document.querySelector('.pages').scrollIntoView({block: 'center'})")
                browser.picture(f"portal-pages-{width}-{scheme}")
                assert violations(browser) == []
        assert errors(browser) == []
        seen = displayed(browser)
        browser.click('a[rel="next"]')
        browser.wait_for_url(page(many, "/.gate/?page=3"))
        assert len(displayed(browser)) == 30
        assert not set(seen) & set(displayed(browser))
