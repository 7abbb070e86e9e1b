"""In a real browser, over HTTP/2 and one certificate: the answer to a sign-out is not reset with what the session had open."""

from pathlib import Path

from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

HOST = "app.localhost"
OPEN_A_STREAM = """
const [done] = arguments;
fetch("/drip").then((response) => response.body.getReader().read()).then(() => done("open"), (error) => done(String(error)));
"""


def sign_in(browser: Browser, gate: RunningGate, provider: DevelopmentProvider) -> None:
    browser.open(gate.url(HOST, "/page"))
    browser.wait_for_url(provider.url)
    browser.submit('button[value="alice"]')
    browser.wait_for_url(gate.url(HOST, "/page"))


def test_a_sign_out_with_an_open_stream_is_answered(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    upstream.pages["/page"] = "<h1>an application</h1>"
    builder = GateBuilder(provider.url).route(HOST, to=upstream.url, allow_any_authenticated_user=True, timeout="60s")
    with (
        builder.setting(data_plane="envoy").start(tmp_path) as gate,
        headless_browser(tmp_path / "profile", trusted_spki=gate.certificates.spki_hash) as browser,
    ):
        sign_in(browser, gate, provider)
        browser.driver.set_script_timeout(30)
        assert browser.driver.execute_async_script(OPEN_A_STREAM) == "open"
        browser.driver.switch_to.new_window("tab")
        browser.open(gate.url(builder.authenticate_host, "/.gate/signout/"))
        browser.click("main form button")
        browser.wait_for_url(provider.url)  # which ends its own session
        gate.wait_for_event("connections reset after access ended")
        assert any(line.get("status") == 421 for line in gate.log), "both hosts would have shared a connection"
