"""Times on pages are those of the browser's zone; without scripts they are the server's, and say so."""

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser, headless_browser
from tests.support.children import wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

DASHBOARD, ADMIN = "/.gate/", "/.gate/admin/"
ACCOUNTS = f"{ADMIN}databroker/serviceaccount/"
DECISIONS = f"{ADMIN}authorize/loggeddecision/"
# Page, and the first link of it to follow, if any.
PAGES = {
    "dashboard": (DASHBOARD, ""),
    "sessions": (f"{ADMIN}databroker/session/", ""),
    "session": (f"{ADMIN}databroker/session/", "#result_list tbody th a"),
    "users": (f"{ADMIN}databroker/user/", ""),
    "user": (f"{ADMIN}databroker/user/", "#result_list tbody th a"),
    "audit": (f"{ADMIN}databroker/auditentry/", ""),
    "audit-entry": (f"{ADMIN}databroker/auditentry/", "#result_list tbody th a"),
    "accounts": (ACCOUNTS, ""),
    "routes": (f"{ADMIN}proxy/route/", ""),
    "decision": (DECISIONS, ".timeline a.asked"),
    "explain": (f"{DECISIONS}explain/?url=https://app.localhost/&user=alice@example.com", ""),
}
TIMES = "return [...document.querySelectorAll('main time, #content time')].map(t => [t.textContent, t.title])"


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    builder = GateBuilder(provider.url).route("nobody.localhost", to=upstream.url, allowed_users=["nobody@example.com"])
    builder.setting(admin_allowed_users=["alice@example.com"], time_zone="Asia/Kolkata")
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(gate: RunningGate, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate.certificates.spki_hash) as running:
        running.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
        # The decision log holds every denial.
        for address in (
            gate.url("nobody.localhost"),
            gate.url("authenticate.localhost", ADMIN),
            gate.url("authenticate.localhost", "/.gate/"),
        ):
            running.open(address)
            if running.url.startswith(provider.url):
                running.click('button[value="alice"]')
            running.wait_for_url(address)
        running.open(gate.url("authenticate.localhost", f"{ACCOUNTS}add/"))
        running.find("#id_name").send_keys("ci")
        running.click("#content-main .submit-row input")
        running.find("#secret")
        yield running


@pytest.mark.parametrize("name", PAGES)
def test_times_in_browser_or_server_zone(browser: Browser, gate: RunningGate, name: str) -> None:
    path, link = PAGES[name]

    def displayed() -> list[list[str]]:
        browser.open(gate.url("authenticate.localhost", path))
        return browser.driver.execute_script(TIMES)

    wait_until(lambda: bool(displayed()), f"times on the page {name}")
    if link:
        browser.open(browser.find(link).get_attribute("href") or "")
    times = browser.driver.execute_script(TIMES)
    browser.picture(f"times-{name}")
    # Where days are enough, the browser shows its own day without a zone.
    assert {("GMT+9" in text, title[-3:]) for text, title in times} == {(name != "accounts", "IST")}
    with browser.without_scripts():
        browser.driver.refresh()
        written = browser.driver.find_elements("css selector", "main time, #content time")
        assert {element.text[-3:] for element in written} == {"IST"}


def test_decisions_stand_under_the_hours_of_the_browser_s_zone_or_of_the_one_that_is_chosen(browser: Browser, gate: RunningGate) -> None:
    log = gate.url("authenticate.localhost", DECISIONS)

    def hours() -> set[str]:
        return {element.text.split(" ", 1)[1] for element in browser.driver.find_elements("css selector", "#content h3 time")}

    browser.open(log)
    wait_until(lambda: browser.find("#zone").get_attribute("value") == "Asia/Tokyo" and hours() == {"JST"}, "hours of Tokyo")
    browser.picture("times-decisions")
    with browser.without_scripts():
        browser.open(log)
        assert hours() == {"JST"}, "the choice is kept"
        browser.find("#zone").clear()
        browser.find("#zone").send_keys("America/Phoenix")
        browser.submit(".filters [type=submit]")
        assert hours() == {"MST"}
    browser.open(log)
    assert hours() == {"MST"}, "who has chosen another zone than the browser's keeps it"


# Zones without summer time: they are named the same all year.
@pytest.mark.parametrize(("language", "zone", "named"), [("ja-JP", "Asia/Tokyo", "JST"), ("en-US", "America/Phoenix", "MST")])
def test_times_are_written_in_the_language_of_the_browser(
    browser: Browser, gate: RunningGate, language: str, zone: str, named: str
) -> None:
    agent = browser.driver.execute_script("return navigator.userAgent")
    browser.driver.execute_cdp_cmd("Emulation.setLocaleOverride", {"locale": language})
    browser.driver.execute_cdp_cmd("Network.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": language})
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
    try:
        browser.open(gate.url("authenticate.localhost", DASHBOARD))
        browser.picture(f"times-{language}")
        assert named in browser.find("main time").text
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setLocaleOverride", {})
        browser.driver.execute_cdp_cmd("Network.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": "en-US"})
        browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
