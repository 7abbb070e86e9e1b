"""Headless Chromium with an empty profile that trusts one certificate and can take screenshots."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.support.children import wait_until

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # its sandbox needs privileges that containers and root do not have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
    # One process for all sites, because one per site, started at each redirect of a sign-in, takes a sixth of the CPU time.
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--host-resolver-rules=MAP *.localhost 127.0.0.1",
)

# Debian's headless shell; it starts with a quarter of the CPU time and loads a page with half of it.
HEADLESS_SHELL = Path("/usr/lib/chromium/chromium-headless-shell")

# The driver's errors, apart from "stale element", for an element whose page is unloaded during the call.
BETWEEN_PAGES = ("does not belong to the document", "No node with given id", "execution context", "etached from document")

# Scrolls to an element and returns two frames later: the layout is final by then, so that a click hits it.
IN_PLACE = """
const [element] = arguments;
const isInPlace = element.isInPlace;
element.isInPlace = false;
if (!isInPlace) {
  element.scrollIntoView({block: "nearest"});
  requestAnimationFrame(() => requestAnimationFrame(() => { element.isInPlace = true; }));
}
return isInPlace === true;
"""

# The URL of the open page, once it is completely loaded.
ADDRESS_OF_READ = "return document.readyState === 'loading' ? '' : document.URL;"

Found = TypeVar("Found")


class Browser:
    def __init__(self, driver: webdriver.Chrome):
        self.driver = driver
        self._runs_scripts = True

    def open(self, url: str) -> None:
        self.driver.get(url)

    def sign_in(self, provider_url: str, url: str, username: str = "alice") -> None:
        """Open `url` and sign in as this user at the development provider; ends at `url`."""
        self.open(url)
        self.wait_for_url(provider_url)
        self.click(f'button[value="{username}"]')
        self.wait_for_url(url)

    def forget_everything(self) -> None:
        """Delete the cookies of all sites."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.open("about:blank")

    @property
    def url(self) -> str:
        return self.driver.current_url

    @property
    def text(self) -> str:
        return self._on_one_page(lambda: self.driver.find_element(By.CSS_SELECTOR, "body").text, "a page with a body")

    def find(self, selector: str) -> WebElement:
        """Return the element, waiting for a page that has it."""
        return self._on_one_page(lambda: next(iter(self.driver.find_elements(By.CSS_SELECTOR, selector)), None), selector)

    def click(self, selector: str) -> None:
        def clicked() -> bool | None:
            element = self.find(selector)
            if self._runs_scripts and not self.driver.execute_script(IN_PLACE, element):
                return None
            element.click()
            return True

        self._on_one_page(clicked, f"{selector} to click on")

    def submit(self, selector: str) -> None:
        """Click on a submit button and wait for the next page, which may have the same URL."""
        before = self._document()
        self.click(selector)
        wait_until(lambda: self._document() != before, f"the page that answers {selector}")

    def _is_read(self, beginning: str) -> bool:
        read = self._on_one_page(lambda: str(self.driver.execute_script(ADDRESS_OF_READ)), "a page that is read")
        return read.startswith((beginning, "chrome-error:"))  # an error page of the browser has a URL as well

    def _document(self) -> str:
        """Return the driver's id of the open document, which changes with each page load."""
        return self._on_one_page(lambda: self.driver.find_element(By.CSS_SELECTOR, "html").id, "a document")

    def _on_one_page(self, look: Callable[[], Found | None], what: str) -> Found:
        """Return the first result of `look`. If the page is unloaded during a call, it is called again on the next page."""
        found: list[Found] = []

        def looked() -> bool:
            try:
                if (each := look()) is not None:
                    found.append(each)
            except (StaleElementReferenceException, NoSuchElementException):
                pass
            except WebDriverException as error:
                if not any(each in str(error.msg) for each in BETWEEN_PAGES):
                    raise
            return bool(found)

        wait_until(looked, f"{what} on {self.driver.current_url}")
        return found[0]

    @contextmanager
    def without_scripts(self) -> Iterator[None]:
        """Disable JavaScript on pages that are opened within this context."""
        self._run_scripts(False)
        try:
            yield
        finally:
            self._run_scripts(True)

    def _run_scripts(self, runs: bool) -> None:
        self._runs_scripts = runs
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not runs})

    def wait_for_url(self, beginning: str) -> None:
        """Wait for a page whose URL starts with `beginning`.

        Chromium reports the new URL before the new page replaces the old one, so the page itself is queried as well.
        """
        try:
            wait_until(lambda: self.url.startswith(beginning) and self._is_read(beginning), f"a page at {beginning}")
        except AssertionError as error:
            raise AssertionError(f"{error}; at {self.url}:\n{self.text}") from None

    def picture(self, name: str) -> None:
        """Take a screenshot of the complete page if GATE_SCREENSHOTS names a directory."""
        if directory := os.environ.get("GATE_SCREENSHOTS"):
            Path(directory).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(directory) / f"{name}.png"))


@contextmanager
def headless_browser(profile: Path, *, trusted_spki: str) -> Iterator[Browser]:
    """Start a browser. `profile` is an empty directory; certificate errors of the key with the hash `trusted_spki` are ignored."""
    options = webdriver.ChromeOptions()
    options.binary_location = _binary()
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}", f"--ignore-certificate-errors-spki-list={trusted_spki}"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(20)
        yield Browser(driver)
    finally:
        driver.quit()


@cache
def _binary() -> str:
    """Return the headless shell if its version matches the driver, else the full browser."""
    if HEADLESS_SHELL.exists() and _version(HEADLESS_SHELL) == _version("chromedriver"):
        return str(Path(__file__).with_name("headless_shell.sh"))
    return shutil.which("chromium") or shutil.which("google-chrome") or ""


def _version(program: str | Path) -> str:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return next(word for word in output.split() if word[0].isdigit())
