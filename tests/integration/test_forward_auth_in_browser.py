"""Forward auth as people see it: a real browser, a real front proxy, gate behind it."""

from pathlib import Path

import pytest

from tests.support import front_proxies
from tests.support.browser import headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.front_proxies import AUTHENTICATE, front
from tests.support.upstream import SampleUpstream


@pytest.mark.parametrize("start", [front_proxies.nginx, front_proxies.caddy], ids=["nginx", "Caddy"])
def test_a_person_signs_in_works_signs_out_and_another_is_refused(
    start, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    with (
        front(tmp_path, provider.url, upstream.url, start) as proxy,
        headless_browser(tmp_path / "profile", trusted_spki=proxy.certificates.spki_hash) as browser,
    ):
        browser.sign_in(provider.url, proxy.url("/page?q=1&r=%C3%BC"))
        assert "alice@example.com" in browser.text

        browser.open(proxy.url("/.gate/signout/"))
        browser.wait_for_url(proxy.url("/.gate/signout/", host=AUTHENTICATE))
        browser.click("main form button")
        browser.wait_for_url(provider.url + "/oauth2/end_session")
        browser.open(proxy.url("/again"))
        browser.wait_for_url(provider.url)

        browser.click('button[value="bob"]')
        browser.wait_for_url(proxy.url("/again"))
        assert "You don't have access" in browser.text
        assert "bob@example.com" in browser.text
