"""The operator's brand on every page that people see: shown by a browser that obeys the pages' policies, and changed by a reload."""

from collections.abc import Iterator

import pytest

from tests.support.accessibility_checks import look, overflow, violations
from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.reloading import reload
from tests.support.upstream import SampleUpstream

OPEN, CLOSED, NOWHERE = "app.localhost", "closed.localhost", "nowhere.localhost"
# Two colours that can be read nowhere as they are: one on dark pages only, one on light ones.
YELLOW, NAVY = "#ffee00", "#0a1a4a"
LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 32" width="120" height="32"><rect width="120" height="32" rx="6" fill="%s"/>'
    '<circle cx="16" cy="16" r="9" fill="#fff"/></svg>'
)
BRAND = {"name": "Example & Sons", "logo": "logo.svg", "accent": YELLOW}
SEEN = """
const logo = document.querySelector("header.top img"), accent = getComputedStyle(document.documentElement).getPropertyValue("--brand");
return [document.querySelector("header.top bdi").textContent, logo ? logo.naturalWidth : 0, accent];
"""


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    directory = tmp_path_factory.mktemp("gate")
    (directory / "logo.svg").write_text(LOGO % "#0b6e4f")
    builder = (
        GateBuilder(provider.url)
        .route(OPEN, to=upstream.url, allow_any_authenticated_user=True)
        .route(CLOSED, to=upstream.url, allowed_users=["nobody@example.com"], refusal_message="Payroll <b>lets</b> you in.")
        .route(NOWHERE, to="http://127.0.0.1:1", allow_public_unauthenticated_access=True)
        .setting(brand=BRAND, admin_allowed_users=["alice@example.com"])
    )
    with builder.start(directory) as running:
        yield running


@pytest.fixture(scope="module")
def browser(gate: RunningGate, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate.certificates.spki_hash) as running:
        running.sign_in(provider.url, gate.url(OPEN))
        yield running


def complaints(browser: Browser) -> list[str]:
    """Of the browser, about what a policy forbids."""
    return [entry["message"] for entry in browser.driver.get_log("browser") if "Content Security Policy" in entry["message"]]


def places(gate: RunningGate) -> dict[str, str]:
    host = gate.builder.authenticate_host
    return {
        "portal": gate.url(host, "/.gate/"),
        "sign-out": gate.url(host, "/.gate/signout/"),
        "not-found": gate.url(host, "/.gate/nothing"),
        "refused": gate.url(CLOSED),
        "failed": gate.url(NOWHERE),
        "at-a-route": gate.url(OPEN, "/.gate/nothing"),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_page_shows_it_and_can_be_read(browser: Browser, gate: RunningGate, width: int, scheme: str) -> None:
    look(browser, width, scheme)
    for name, url in places(gate).items():
        browser.open(url)
        displayed, wide, colour = browser.driver.execute_script(SEEN)
        browser.picture(f"brand-{name}-{width}-{scheme}")
        assert (displayed, wide) == ("Example & Sons", 120), name
        # Yellow stays where it can be read, and is mustard on white.
        assert (colour == YELLOW) is (scheme == "dark"), (name, colour)
        assert overflow(browser) <= 0, name
        assert violations(browser) == [], name
        assert complaints(browser) == [], name


def test_the_admin_has_the_name(browser: Browser, gate: RunningGate) -> None:
    browser.open(gate.url(gate.builder.authenticate_host, "/.gate/admin/"))
    browser.wait_for_url(gate.url(gate.builder.authenticate_host, "/.gate/admin/"))
    assert browser.find("#site-name").text == "Example & Sons"
    assert browser.driver.title.endswith("Example & Sons admin")


def test_denial_shows_refusal_message_escaped(browser: Browser, gate: RunningGate) -> None:
    browser.open(gate.url(CLOSED))
    assert "Payroll <b>lets</b> you in." in browser.text


def test_a_reload_brings_another_and_takes_it_away(browser: Browser, gate: RunningGate) -> None:
    look(browser, 1440, "dark")
    gate.config_file.with_name("other.svg").write_text((LOGO % NAVY).replace("120", "64"))
    try:
        reload(gate, brand={"name": "Others", "logo": "other.svg", "accent": NAVY})
        for url in places(gate).values():
            browser.open(url)
            displayed, wide, colour = browser.driver.execute_script(SEEN)
            assert (displayed, wide) == ("Others", 64), url
            assert colour not in (NAVY, YELLOW), url
        reload(gate, brand=None)
        for url in places(gate).values():
            browser.open(url)
            assert browser.driver.execute_script(SEEN) == ["gate", 0, "#8aa4ff"], url
    finally:
        reload(gate, brand=BRAND)
    assert complaints(browser) == []
