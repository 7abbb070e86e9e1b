"""Pages for people, from right to left as Arabic and Hebrew are read: nothing hangs over, lies upon something else, or stays behind."""

from collections.abc import Iterator

import pytest

from examples.demo.people import DemoUser
from tests.support.accessibility_checks import overflow, violations
from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

NADIA = DemoUser("nadia", "ناديا ذات الاسم الطويل جدا الذي لا ينتهي أبدا في هذه الصفحة", ("هندسة", "sales"), "عمليات")
WIKI, WAGES = "wiki.localhost", "wages.localhost"
REQUESTING = {"access_requests": {"approvers": [{"email": "boss@example.com"}], "reason": "required"}}
PLACES = {
    "portal": ("", "/.gate/"),
    "sessions": ("", "/.gate/sessions"),
    "access": ("", "/.gate/access"),
    "asking": ("", "/.gate/access?route=wages"),
    "why": ("", "/.gate/why?address=nothing.localhost"),
    "sign-out": ("", "/.gate/signout/"),
    "refused": (WAGES, "/"),
}
# Words and what can be pressed, two and two, that have more than a hair's breadth in common; and what begins beyond the window.
UPON_EACH_OTHER = """
const words = "h1, h2, h3, p, b, small, em, code, label, summary, a:not(:has(b)), th, td, time, .this, .status";
const shown = [...document.querySelectorAll(`${words}, button, input, select, header svg`)]
  .filter(each => each.checkVisibility() && each.getClientRects().length === 1)
  .map(each => ({each, box: each.getBoundingClientRect()})).filter(({box}) => box.width > 1 && box.height > 1);
const found = [], said = ({each}) => each.outerHTML.slice(0, 120);
for (const one of shown) if (one.box.left < -1 || one.box.right > innerWidth + 1) found.push(`${said(one)} is cut off`);
shown.forEach((one, index) => shown.slice(index + 1).forEach(other => {
  if (one.each.contains(other.each) || other.each.contains(one.each)) return;
  const wide = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
  const high = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
  if (wide > 2 && high > 2) found.push(`${said(one)} lies upon ${said(other)}`);
}));
return found;
"""
# Distance of each from the side at which a line begins, in order.
BEGINNINGS = """
const rtl = document.documentElement.dir === "rtl", wide = document.documentElement.clientWidth;
return [...document.querySelectorAll("header.top > svg, nav, .star, .apps svg, .this, .found, .card")]
  .filter(each => each.checkVisibility())
  .map(each => each.getBoundingClientRect()).map(box => Math.round(rtl ? wide - box.right : box.left));
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[DevelopmentProvider]:
    with DevelopmentProvider([NADIA]) as running:
        yield running


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    text = {"title": "موسوعة الفريق", "description": "محاضر الاجتماعات والخطط (وغيرها)", "category": "هندسة", "icon": "book"}
    builder = (
        GateBuilder(provider.url)
        .route(WIKI, to=upstream.url, allow_any_authenticated_user=True, **text)
        .route("mail.localhost", to=upstream.url, allow_any_authenticated_user=True, icon="mail", category="هندسة")
        .route(WAGES, to=upstream.url, name="wages", title="الرواتب", allowed_users=["nobody@example.com"], **REQUESTING)
        .setting(groups_claim="groups", support_contact="help@corp.example")
    )
    tunnel = {"from": f"tcp+https://{WIKI}:5432", "to": "tcp://127.0.0.1:9", "title": "Database", "allow_any_authenticated_user": True}
    builder.policy.append(tunnel)
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(gate: RunningGate, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate.certificates.spki_hash) as running:
        running.sign_in(provider.url, gate.url(gate.builder.authenticate_host, "/.gate/"), "nadia")
        yield running


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", PLACES)
def test_everything_has_its_place_from_right_to_left(browser: Browser, gate: RunningGate, name: str, width: int) -> None:
    host, path = PLACES[name]
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.open(gate.url(host or gate.builder.authenticate_host, path))
    browser.find("main .card, main section")
    begins = browser.driver.execute_script(BEGINNINGS)
    browser.driver.execute_script("document.documentElement.dir = 'rtl'")
    assert len(begins) >= 2
    assert browser.driver.execute_script(BEGINNINGS) == pytest.approx(begins, abs=1)
    browser.picture(f"rtl-{name}-{width}")
    browser.driver.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert overflow(browser) <= 0
    assert browser.driver.execute_script(UPON_EACH_OTHER) == []
    assert violations(browser) == []


def test_arrow_keys_lead_where_they_point(browser: Browser, gate: RunningGate) -> None:
    metrics = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.open(gate.url(gate.builder.authenticate_host, "/.gate/"))
    browser.find(".apps a")
    for direction, key in (("ltr", "ArrowRight"), ("rtl", "ArrowLeft")):
        script = (
            "document.documentElement.dir = arguments[0]; const links = document.querySelectorAll('.apps a'); links[0].focus();"
            "links[0].dispatchEvent(new KeyboardEvent('keydown', {key: arguments[1], bubbles: true}));"
            "return document.activeElement === links[1]"
        )
        assert browser.driver.execute_script(script, direction, key) is True
