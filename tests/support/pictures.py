"""`make images`: screenshots for README.md, of the demo in a real browser, in the light and the dark scheme."""

import base64
import tempfile
from pathlib import Path

from examples.demo.people import AUTHENTICATE_HOST
from tests.support.browser import Browser, headless_browser
from tests.support.children import ROOT

IMAGES = ROOT / "docs" / "images"
SCHEMES = ("light", "dark")
# Background around the screenshots of pages.
_BEHIND = {"light": "#eef1f5", "dark": "#0d1117"}


def take() -> None:
    from tests.integration.test_demo_in_browser import RunningDemo, sign_in

    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "demo").mkdir()
        (Path(directory) / "profile").mkdir()
        demo = RunningDemo(Path(directory) / "demo")
        with demo.child as child:
            child.wait_for_line("gate is ready: ", timeout=120)
            with headless_browser(Path(directory) / "profile", trusted_spki=demo.trusted_spki) as browser:
                browser.driver.set_window_size(1120, 900)
                pages: dict[str, list[bytes]] = {scheme: [] for scheme in SCHEMES}
                sign_in(browser, demo, "bob", demo.url("finance"))
                _keep(browser, pages)
                browser.forget_everything()
                sign_in(browser, demo, "alice", demo.url("hello"))
                for path in ("/.gate/", "/.gate/admin/authorize/loggeddecision/", "/.gate/admin/proxy/route/"):
                    browser.open(demo.ports.url(AUTHENTICATE_HOST, path))
                    _keep(browser, pages)
                for scheme in SCHEMES:
                    _put_together(browser, scheme, pages[scheme])


def _keep(browser: Browser, pages: dict[str, list[bytes]]) -> None:
    for scheme in SCHEMES:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        pages[scheme].append(base64.b64decode(browser.driver.get_screenshot_as_base64()))


def _put_together(browser: Browser, scheme: str, shots: list[bytes]) -> None:
    images = "".join(f'<img src="data:image/png;base64,{base64.b64encode(shot).decode()}">' for shot in shots)
    style = (
        f"body{{margin:0;padding:16px;background:{_BEHIND[scheme]};display:grid;grid-template-columns:1fr 1fr;gap:16px}}"
        "img{width:100%;border-radius:8px;box-shadow:0 2px 12px #0006}"
    )
    file = Path(tempfile.mkdtemp()) / "pages.html"
    file.write_text(f"<!doctype html><style>{style}</style>{images}")
    browser.driver.set_window_size(1280, 1130)
    browser.open(file.as_uri())
    height = browser.driver.execute_script("return document.body.scrollHeight")
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1280, "height": height, "deviceScaleFactor": 1, "mobile": False}
    )
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 80})
    (IMAGES / f"pages-{scheme}.webp").write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    take()
