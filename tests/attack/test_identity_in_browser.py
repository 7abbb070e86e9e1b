"""Chromium as the judge: where do our redirects really land, and does markup in a claim ever run?"""

import random
from collections.abc import Iterator

import pytest
from selenium.common.exceptions import NoAlertPresentException

from foundation.web.pages import STATIC_PATH, TIMES_SCRIPT
from tests.attack.identity_browser import Browser
from tests.attack.identity_open_redirect import Surfaces
from tests.attack.identity_pages import MARKUP
from tests.attack.identity_redirect_corpus import as_path, corpus, in_query
from tests.attack.identity_stage import ANN, ANYONE, CORP, MOVED, OTHER, PUBLIC, Stage, new_user, staged
from tests.attack.run import SEED
from tests.support.browser import Browser as Chromium
from tests.support.browser import headless_browser
from tests.support.children import wait_until
from tests.support.gate import AUTHENTICATE_HOST


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(scope="module")
def chromium(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=stage.gate.certificates.spki_hash) as browser:
        yield browser


def origin(url: str) -> str:
    return "/".join(url.split("/")[:3])


def from_gate(stage: Stage) -> set[str]:
    return {*(stage.url(host, "") for host in (AUTHENTICATE_HOST, ANYONE, OTHER, PUBLIC, CORP, ANN)), stage.idp.issuer}


def give_cookies(chromium: Chromium, stage: Stage, user: Browser, host: str) -> None:
    for name, value in user.cookies[host].items():
        chromium.driver.execute_cdp_cmd(
            "Network.setCookie", {"name": name, "value": value, "url": stage.url(host), "secure": True, "httpOnly": True}
        )


def sample(stage: Stage, count: int) -> list[str]:
    return random.Random(SEED).sample(corpus(f"{ANYONE}:{stage.gate.port}"), count)


def test_no_answer_leads_to_a_stranger_as_chromium_reads_it(stage: Stage, chromium: Chromium) -> None:
    surfaces = Surfaces(stage)
    for surface, text in random.Random(SEED).sample(list(surfaces.cases()), 500):
        surfaces.attempt(surface, text)
    assert len(surfaces.landings.seen) > 100
    assert surfaces.landings.strangers(chromium) == []


def test_chromium_lands_at_home_from_any_path_through_sign_in(stage: Stage, chromium: Chromium) -> None:
    user = stage.browser()
    stage.sign_in(user)
    give_cookies(chromium, stage, user, AUTHENTICATE_HOST)
    for text in ["/plain", *sample(stage, 20)]:
        for host in (OTHER, MOVED):
            chromium.open(stage.url(host, as_path(text)))
            # A refused request stays at its host.
            assert origin(chromium.url) in ({stage.url(OTHER, "")} if text == "/plain" else {stage.url(OTHER, ""), stage.url(host, "")}), (
                text
            )


def test_chromium_lands_at_home_after_signing_out(stage: Stage, chromium: Chromium) -> None:
    for text in [*sample(stage, 15), stage.url(ANYONE, "/after")]:
        chromium.forget_everything()
        requesting = stage.url(AUTHENTICATE_HOST, f"/.gate/signout/?gate_redirect_uri={in_query(text)}")
        chromium.open(requesting)
        before = chromium.url
        chromium.click("button")
        # A click does not wait for the page it leads to.
        wait_until(lambda before=before: chromium.url != before, f"the page after signing out towards {text!r}")
        assert origin(chromium.url) in from_gate(stage), text
    assert chromium.url == stage.url(ANYONE, "/after") or origin(chromium.url) == stage.idp.issuer


def test_markup_in_claims_runs_nowhere(stage: Stage, chromium: Chromium) -> None:
    for text in random.Random(SEED).sample(MARKUP, 6):
        user = stage.browser()
        stage.sign_in(user, new_user(name=text, email=text, groups=MARKUP, picture="".join(MARKUP), given_name=text))
        give_cookies(chromium, stage, user, AUTHENTICATE_HOST)
        for url in (stage.url(AUTHENTICATE_HOST, "/.gate/"), stage.url(AUTHENTICATE_HOST, "/.gate/admin/login/"), stage.url(ANN)):
            chromium.open(url)
            with pytest.raises(NoAlertPresentException):
                _ = chromium.driver.switch_to.alert
            assert origin(chromium.url) in from_gate(stage)
            own = "script => script.text !== arguments[0] && !script.src.startsWith(arguments[1])"
            strangers = f"return [...document.scripts].filter({own}).length + document.images.length"
            portal = stage.url(AUTHENTICATE_HOST, f"{STATIC_PATH}portal.js?v=")
            assert chromium.driver.execute_script(strangers, TIMES_SCRIPT, portal) == 0
