"""Detours of users: each ends signed in, or on a page that names the next step; none ends in a redirect loop."""

import re
import time
from collections.abc import Iterator
from html import unescape

import pytest

from tests.attack.identity_browser import Answer, Browser
from tests.attack.identity_stage import ANYONE, OTHER, Stage, staged
from tests.support.gate import AUTHENTICATE_HOST
from tests.support.reloading import reload

MAX_STEPS = 8


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("gate")) as running:
        yield running


def ended(stage: Stage, browser: Browser, answer: Answer) -> Answer:
    """Where the browser ends up; at the provider, alice agrees at once."""
    for _ in range(MAX_STEPS):
        if not answer.location:
            return answer
        target = answer.location if "://" in answer.location else stage.url(answer.url.split("/")[2].partition(":")[0], answer.location)
        if target.startswith(stage.idp.issuer):
            target = stage.idp.pick(target, "alice")
        answer = browser.open(target)
    raise AssertionError(f"going round in circles, last at {answer.url}")


def link(page: Answer, message: str) -> str:
    """Where the page's button with these words leads."""
    (found,) = re.findall(rf'href="([^"]+)">{message}<', page.text)
    return unescape(found)


def must_start_again(stage: Stage, browser: Browser, page: Answer) -> None:
    assert page.status == 400
    start = link(page, "Start again")
    host = AUTHENTICATE_HOST if start.startswith("/") else start.split("/")[2].partition(":")[0]
    again = ended(stage, browser, browser.open(start if "://" in start else stage.url(host, start)))
    assert (again.status, stage.is_signed_in(browser, host)) == (200, True)


def test_browser_back_to_callback_continues(stage: Stage) -> None:
    browser = stage.browser()
    callback = stage.picked(browser)
    ended(stage, browser, browser.open(callback))
    before = stage.idp.count("/token")
    assert ended(stage, browser, browser.open(callback)).status == 200
    assert stage.idp.count("/token") == before


def test_browser_back_to_callback_without_session(stage: Stage) -> None:
    browser = stage.browser()
    callback = stage.picked(browser)
    ended(stage, browser, browser.open(callback))
    browser.cookies.clear()
    must_start_again(stage, browser, browser.open(callback))


def test_browser_back_to_handoff_continues(stage: Stage) -> None:
    browser = stage.browser()
    handoff = browser.open(stage.picked(browser)).location
    assert "/.gate/callback/" in handoff
    assert ended(stage, browser, browser.open(handoff)).status == 200
    assert ended(stage, browser, browser.open(handoff)).status == 200


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_an_old_bookmark_of_the_providers_login_page(stage: Stage, is_signed_in: bool) -> None:
    browser = stage.browser()
    bookmark = stage.to_provider(browser)
    ended(stage, browser, browser.open(stage.idp.pick(bookmark, "alice")))
    if is_signed_in:
        assert ended(stage, browser, browser.open(stage.idp.pick(bookmark, "alice"))).status == 200
        return
    browser = stage.browser()
    must_start_again(stage, browser, browser.open(stage.idp.pick(bookmark, "alice")))


def test_expired_sign_in_link_explains(stage: Stage) -> None:
    browser = stage.browser()
    signed = browser.open(stage.url(ANYONE, "/page")).location
    page = browser.open(re.sub(r"gate_expiry=\d+", "gate_expiry=1", signed))
    assert page.status == 400
    assert "Open the page" in page.text


def test_two_tabs_come_back_in_any_order_each_to_its_own_page(stage: Stage) -> None:
    browser = stage.browser()
    first, second = stage.picked(browser, path="/first"), stage.picked(browser, host=OTHER, path="/second")
    pages = [ended(stage, browser, browser.open(callback)) for callback in (second, first)]
    assert [(page.status, page.url) for page in pages] == [(200, stage.url(OTHER, "/second")), (200, stage.url(ANYONE, "/first"))]


def test_twenty_tabs_at_once_all_end_well(stage: Stage) -> None:
    """A browser that restores them all: those whose attempt was dropped for a newer one start again, or find the session."""
    browser = stage.browser()
    callbacks = [stage.picked(browser, path=f"/{number}") for number in range(20)]
    statuses = [ended(stage, browser, browser.open(callback)).status for callback in callbacks]
    assert set(statuses) <= {200, 400}
    assert stage.is_signed_in(browser, ANYONE)
    assert statuses.count(200) >= 8


@pytest.mark.parametrize("written", [ANYONE.upper(), f"{ANYONE}."])
def test_a_host_in_another_spelling_ends_signed_in(stage: Stage, written: str) -> None:
    browser = stage.browser()
    first = browser.open(stage.url(ANYONE, "/x"), host=f"{written}:{stage.gate.port}")
    page = ended(stage, browser, browser.open(stage.idp.pick(browser.open(first.location).location, "alice")))
    assert (page.status, page.url) == (200, stage.url(ANYONE, "/x"))


def test_host_renamed_during_sign_in_ends_on_gate_page(stage: Stage) -> None:
    browser = stage.browser()
    callback = stage.picked(browser, host=OTHER, path="/x")
    policy = stage.gate.builder.policy
    renamed = [{**route, "from": route["from"].replace(OTHER, "renamed.localhost")} for route in policy]
    reload(stage.gate, policy=renamed)
    try:
        page = ended(stage, browser, browser.open(callback))
        assert (page.status, page.url) == (200, stage.url(AUTHENTICATE_HOST, "/.gate/"))
        old = browser.open(stage.url(OTHER))
        assert (old.status, "Check the address" in old.text) == (404, True)
    finally:
        reload(stage.gate, policy=policy)


@pytest.mark.parametrize("seconds", [-60, -59, 59, 60])
def test_provider_clock_skew_of_a_minute(stage: Stage, seconds: int) -> None:
    stage.idp.clock = lambda: time.time() + seconds
    try:
        assert stage.sign_in(stage.browser()).status == 200
    finally:
        stage.idp.clock = time.time


@pytest.mark.parametrize("seconds", [-1200, 1200])
def test_a_clock_that_is_off_by_more_is_named_in_the_log(stage: Stage, seconds: int) -> None:
    browser = stage.browser()
    callback = stage.picked(browser)
    stage.idp.clock = lambda: time.time() + seconds
    try:
        page = browser.open(callback)
    finally:
        stage.idp.clock = time.time
    assert (page.status, stage.is_signed_in(browser, ANYONE)) == (503, False)
    request_id = page.header("x-request-id")
    entry = stage.gate.wait_for_event("sign-in failed at the identity provider", lambda entry: entry["request_id"] == request_id)
    assert "clock" in entry["error"]


def test_browser_losing_cookie_gets_a_page_instead_of_a_loop(stage: Stage) -> None:
    browser = stage.browser()
    for _ in range(10):
        answer = browser.open(stage.url(ANYONE))
        if answer.status != 302:
            break
        ended(stage, browser, answer)
        browser.cookies[ANYONE].pop("_gate", None)
    assert answer.status == 400
    assert "the session cookie" in answer.text
    assert link(answer, "Try again") == stage.url(ANYONE)


def test_browser_without_cookies_gets_a_page(stage: Stage) -> None:
    answer = stage.browser().open(stage.url(ANYONE))
    page = stage.browser().open(stage.idp.pick(stage.browser().open(answer.location).location, "alice"))
    assert page.status == 400
    assert "Start again" in page.text
