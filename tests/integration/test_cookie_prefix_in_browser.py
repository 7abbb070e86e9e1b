"""With `cookie_name: __Host-...`, a real browser stores every cookie of gate, and no application receives one."""

from pathlib import Path

from cryptography import x509

from tests.attack.identity_stage import ANYONE, AUTHENTICATE_HOST, staged
from tests.support.browser import headless_browser
from tests.support.certs import spki_hash


def test_no_gate_cookie_reaches_upstream_and_admin_opens(tmp_path: Path) -> None:
    with staged(tmp_path, cookie_name="__Host-gate", admin_allowed_users=["alice@corp.example"]) as stage:
        trusted = spki_hash(x509.load_pem_x509_certificate(stage.gate.certificates.certificate.read_bytes()))
        with headless_browser(tmp_path / "profile", trusted_spki=trusted) as browser:
            browser.open(stage.url(ANYONE, "/first"))
            browser.wait_for_url(f"{stage.idp.issuer}/authorize")
            browser.open(stage.idp.pick(browser.url, "alice"))
            browser.wait_for_url(stage.url(ANYONE, "/first"))
            browser.driver.add_cookie({"name": "theirs", "value": "1"})
            browser.open(stage.url(ANYONE, "/second"))
            assert {"theirs", "__Host-gate"} <= {cookie["name"] for cookie in browser.driver.get_cookies()}
            sent = [(hit.target, hit.values(b"cookie")) for hit in stage.ledger.unmarked if hit.target in (b"/first", b"/second")]
            assert sent == [(b"/first", []), (b"/second", [b"theirs=1"])]
            browser.open(stage.url(AUTHENTICATE_HOST, "/.gate/admin/"))
            assert "Sessions, people" in browser.text
            assert {"__Host-gate", "__Host-gate_admin"} <= {cookie["name"] for cookie in browser.driver.get_cookies()}
