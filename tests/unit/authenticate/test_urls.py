"""View for each URL of the authenticate host."""

from pathlib import Path

from tests.support.authenticate_site import APP, Site


async def test_the_callback_path_is_a_setting(tmp_path: Path, site: Site) -> None:
    moved = Site(tmp_path, site.idp, site._django_pages, authenticate_callback_path="/auth/back")
    browser = moved.browser()
    callback = site.idp.pick(await browser.to_provider(), "alice")
    assert "/auth/back?" in callback
    assert (await browser.get("/oauth2/callback")).status == 404
    assert (await browser.get(callback)).location.startswith(APP)
    await moved.service.stop()


async def test_unknown_pages_are_404(site: Site) -> None:
    for path in ("/", "/.gate/x", "/.gate/sign_in/", "/.gate", "/.well-known/gate/x"):
        answer = await site.browser().get(path)
        assert answer.status == 404
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
