"""A frame in the provider's page ends the session in a real browser that sends no gate cookie into it; other pages can't end it."""

from pathlib import Path

from cryptography import x509

from tests.attack.identity_stage import ANYONE, AUTHENTICATE_HOST, Stage, staged
from tests.support.browser import Browser, headless_browser
from tests.support.certs import spki_hash
from tests.support.children import wait_until
from tests.support.fake_idp import Answer

SID = "a-session-of-the-provider"


def framed(stage: Stage, sid: str) -> Answer:
    url = stage.url(AUTHENTICATE_HOST, f"/.gate/frontchannel_logout?iss={stage.idp.issuer}&sid={sid}")
    page = f'<h1>signing out</h1><img src="{url}"><iframe src="{url}" onload="document.title=\'done\'"></iframe>'
    return Answer(200, page.encode(), "text/html")


def visit(browser: Browser, url: str) -> None:
    browser.open(url)
    wait_until(lambda: browser.driver.title == "done", "the frame is loaded")


def test_the_providers_frame_signs_out_and_a_guess_does_not(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        trusted = spki_hash(x509.load_pem_x509_certificate(stage.gate.certificates.certificate.read_bytes()))
        with headless_browser(tmp_path / "profile", trusted_spki=trusted) as browser:
            stage.bend.claims = {"sid": SID}
            stage.bend.answers["/authorize-page"] = framed(stage, SID)
            stage.bend.answers["/guess"] = framed(stage, "a-session-of-somebody-else")
            browser.open(stage.url(ANYONE, "/"))
            browser.wait_for_url(f"{stage.idp.issuer}/authorize")
            browser.open(stage.idp.pick(browser.url, "alice"))
            browser.wait_for_url(stage.url(ANYONE, "/"))
            visit(browser, f"{stage.idp.issuer}/guess")
            browser.open(stage.url(AUTHENTICATE_HOST, "/.gate/"))
            assert "alice@corp.example" in browser.text
            visit(browser, f"{stage.idp.issuer}/authorize-page")
            browser.driver.switch_to.frame(0)
            assert "You are signed out" in browser.text
            browser.driver.switch_to.default_content()
            browser.open(stage.url(ANYONE, "/"))
            browser.wait_for_url(f"{stage.idp.issuer}/authorize")
