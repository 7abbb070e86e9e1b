"""What axe-core has against a page, as a phone and a desk show it, in light and in dark."""

from collections.abc import Iterable
from pathlib import Path

from tests.support.browser import Browser

AXE = Path(__file__).parent / "accessibility" / "node_modules" / "axe-core" / "axe.min.js"
# Colours that are still on their way from one scheme to the other are none of a page's.
_RUN = """
const done = arguments[arguments.length - 1];
const settled = async () => {
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
  await Promise.allSettled(document.getAnimations().map(animation => animation.finished));
};
settled().then(() => axe.run(document, {resultTypes: ["violations"]})).then(
  found => done(found.violations.map(rule => [rule.impact, rule.id, rule.nodes.map(node => node.html.slice(0, 200))])),
  error => done([["critical", String(error), []]]));
"""
SCHEMES, WIDTHS = ("light", "dark"), (390, 1440)
IN_ADMIN = ((1280, "light"), (1280, "dark"), (420, "light"))  # on a phone, tables scroll in their own box
PHONE_AND_DESK = tuple((width, scheme) for width in WIDTHS for scheme in SCHEMES)


def look(browser: Browser, width: int, scheme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def violations(browser: Browser) -> list[str]:
    """The serious ones of the page that is open."""
    if browser.driver.execute_script("return typeof axe") == "undefined":
        browser.driver.execute_script(AXE.read_text())
    rules: list[tuple[str, str, list[str]]] = browser.driver.execute_async_script(_RUN)
    return [f"{rule} ({impact}): {nodes}" for impact, rule, nodes in rules if impact in ("serious", "critical")]


def overflow(browser: Browser) -> int:
    """Pixels by which the page is too wide."""
    return browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")


def findings(browser: Browser, name: str, looks: Iterable[tuple[int, str]] = PHONE_AND_DESK, *, may_scroll: bool = False) -> list[str]:
    """Of the page that is open in each of these looks, with a picture of each."""
    found = []
    for width, scheme in looks:
        look(browser, width, scheme)
        browser.picture(f"{name}-{width}-{scheme}")
        found += [f"{name} {width} {scheme}: {each}" for each in violations(browser)]
        if not may_scroll and (wide := overflow(browser)) > 0:
            found.append(f"{name} {width} {scheme}: {wide} pixels too wide")
    return found


def errors(browser: Browser) -> list[str]:
    """What the browser complained of since it was asked last: a broken policy of the page among it."""
    return [entry["message"] for entry in browser.driver.get_log("browser") if "favicon" not in entry["message"]]
