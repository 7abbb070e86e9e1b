"""A session ends while a person fills in a form: after signing in again the application receives it once, byte for byte."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

FILE = bytes(range(256)) * 2000
FORM = """<!doctype html><title>Order</title>
<form method="post" action="/orders?year=2026&amp;q=a%20b" enctype="multipart/form-data">
<input name="note"><input type="file" name="plan"><input type="checkbox" name="gift" checked><button>Order</button></form>"""
APP = "app.localhost"


@pytest.fixture
def application() -> Iterator[SampleUpstream]:
    with SampleUpstream() as running:
        running.pages["/form"] = FORM
        yield running


@pytest.fixture
def gate(provider: DevelopmentProvider, application: SampleUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    with GateBuilder(provider.url).route(APP, to=application.url, allow_any_authenticated_user=True).start(tmp_path) as running:
        yield running


@pytest.fixture
def browser(gate: RunningGate, tmp_path: Path) -> Iterator[Browser]:
    with headless_browser(tmp_path / "profile", trusted_spki=gate.certificates.spki_hash) as running:
        yield running


def fill_in(browser: Browser, gate: RunningGate, provider: DevelopmentProvider, file: Path) -> None:
    """Signed in, and the form filled in."""
    browser.sign_in(provider.url, gate.url(APP, "/form"))
    browser.find('input[name="note"]').send_keys("Grüße & 50 %")
    browser.find('input[name="plan"]').send_keys(str(file))


def sign_out_in_another_tab(browser: Browser, gate: RunningGate, provider: DevelopmentProvider) -> None:
    form = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    browser.open(gate.url(gate.builder.authenticate_host, "/.gate/signout/"))
    browser.click("main form button")
    browser.wait_for_url(provider.url)
    browser.driver.close()
    browser.driver.switch_to.window(form)


def test_form_sent_after_session_end_arrives_once(
    browser: Browser, gate: RunningGate, provider: DevelopmentProvider, application: SampleUpstream, tmp_path: Path
) -> None:
    (tmp_path / "plan.bin").write_bytes(FILE)
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    fill_in(browser, gate, provider, tmp_path / "plan.bin")
    browser.click("button")
    browser.wait_for_url(gate.url(APP, "/orders?year=2026&q=a%20b"))
    ((_, _, straight),) = application.posted

    browser.driver.back()
    browser.find("button")
    sign_out_in_another_tab(browser, gate, provider)
    fields = browser.driver.execute_script("return [...new FormData(document.forms[0])].map(pair => pair[0])")
    assert fields == ["note", "plan", "gift"]
    browser.click("button")
    browser.wait_for_url(provider.url)
    assert len(application.posted) == 1
    browser.click('button[value="alice"]')
    browser.wait_for_url(gate.url(APP, "/.gate/form/"))
    browser.picture("kept-form")
    sent = browser.find("main time")
    assert ("GMT+9" in sent.text, (sent.get_attribute("title") or "")[-3:]) == (True, "UTC")
    with browser.without_scripts():
        browser.driver.refresh()
        assert browser.find("main time").text.endswith(" UTC")
        browser.picture("kept-form-without-scripts")
    assert "alice@example.com" in browser.text
    assert len(application.posted) == 1

    browser.click("main form button")
    browser.wait_for_url(gate.url(APP, "/orders?year=2026&q=a%20b"))
    target, content_type, body = application.posted[1]
    assert target == "/orders?year=2026&q=a%20b"
    boundary = content_type.partition("boundary=")[2].encode()
    assert FILE in body
    # Each time the browser chooses another boundary; all else is as the application received it from a session that lived.
    assert body.replace(boundary, b"-") == straight.replace(straight.split(b"\r\n", 1)[0][2:], b"-")

    browser.driver.back()
    browser.driver.refresh()
    assert "no longer kept" in browser.text
    browser.picture("kept-form-gone")
    assert len(application.posted) == 2


def test_oversized_form_is_reported_before_sign_in(
    browser: Browser, gate: RunningGate, provider: DevelopmentProvider, application: SampleUpstream, tmp_path: Path
) -> None:
    (tmp_path / "plan.bin").write_bytes(FILE * 3)
    fill_in(browser, gate, provider, tmp_path / "plan.bin")
    sign_out_in_another_tab(browser, gate, provider)
    browser.submit("button")
    assert "larger than 1 MiB" in browser.find("main").text
    browser.picture("kept-form-too-large")
    browser.driver.back()
    assert browser.find('input[name="note"]').get_attribute("value") == "Grüße & 50 %"
    assert application.posted == []
