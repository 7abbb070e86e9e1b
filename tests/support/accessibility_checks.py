"""Accessibility checks by axe-core, on a phone and a desktop viewport, in the light and the dark scheme."""

from collections.abc import Iterable
from pathlib import Path

from tests.support.browser import Browser

AXE = Path(__file__).parent / "accessibility" / "node_modules" / "axe-core" / "axe.min.js"
# Waits for transitions between the schemes, because their intermediate colours are not those of the page.
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
IN_ADMIN = ((1280, "light"), (1280, "dark"), (420, "light"))  # tables scroll in their box on a phone
PHONE_AND_DESK = tuple((width, scheme) for width in WIDTHS for scheme in SCHEMES)


def look(browser: Browser, width: int, scheme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def violations(browser: Browser) -> list[str]:
    """Return the serious violations of the open page."""
    if browser.driver.execute_script("return typeof axe") == "undefined":
        browser.driver.execute_script(AXE.read_text())
    rules: list[tuple[str, str, list[str]]] = browser.driver.execute_async_script(_RUN)
    return [f"{rule} ({impact}): {nodes}" for impact, rule, nodes in rules if impact in ("serious", "critical")]


def overflow(browser: Browser) -> int:
    """Return by how many pixels the page is too wide."""
    return browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")


def findings(browser: Browser, name: str, looks: Iterable[tuple[int, str]] = PHONE_AND_DESK, *, may_scroll: bool = False) -> list[str]:
    """Return the findings for the open page in each viewport and scheme, and take a screenshot of each."""
    found = []
    for width, scheme in looks:
        look(browser, width, scheme)
        browser.picture(f"{name}-{width}-{scheme}")
        found += [f"{name} {width} {scheme}: {each}" for each in violations(browser)]
        if not may_scroll and (wide := overflow(browser)) > 0:
            found.append(f"{name} {width} {scheme}: {wide} pixels too wide")
    return found


def errors(browser: Browser) -> list[str]:
    """Return the browser's console errors since the last call, violations of Content-Security-Policy included."""
    return [entry["message"] for entry in browser.driver.get_log("browser") if "favicon" not in entry["message"]]
