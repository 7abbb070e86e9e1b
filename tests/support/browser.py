"""Headless Chromium that trusts one certificate, starts with an empty profile, and can keep pictures of what it saw."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.children import wait_until

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # its sandbox needs rights that containers and root do not have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
    "--host-resolver-rules=MAP *.localhost 127.0.0.1",
)


class Browser:
    def __init__(self, driver: webdriver.Chrome):
        self.driver = driver
        self._pictures = 0

    def open(self, url: str) -> None:
        self.driver.get(url)

    def forget_everything(self) -> None:
        """A fresh person at the same machine: no cookies of any site."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.open("about:blank")

    @property
    def url(self) -> str:
        return self.driver.current_url

    @property
    def text(self) -> str:
        return self.find("body").text

    def find(self, selector: str) -> WebElement:
        """The element, waiting for the page that has it."""
        wait_until(lambda: bool(self.driver.find_elements(By.CSS_SELECTOR, selector)), f"{selector} on {self.driver.current_url}", 10)
        return self.driver.find_elements(By.CSS_SELECTOR, selector)[0]

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def submit(self, selector: str) -> None:
        """Click on what sends a form, and wait for the page that answers it, which may have the same address."""
        button = self.find(selector)
        button.click()
        WebDriverWait(self.driver, 10).until(expected_conditions.staleness_of(button))

    def wait_for_url(self, beginning: str) -> None:
        try:
            wait_until(lambda: self.url.startswith(beginning), f"a page at {beginning}", 10)
        except AssertionError as error:
            raise AssertionError(f"{error}; at {self.url}:\n{self.text}") from None

    def picture(self, name: str) -> None:
        """A screenshot of the whole page where GATE_SCREENSHOTS names a directory."""
        if directory := os.environ.get("GATE_SCREENSHOTS"):
            Path(directory).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(directory) / f"{name}.png"))


@contextmanager
def headless_browser(profile: Path, *, trusted_spki: str) -> Iterator[Browser]:
    """`profile` is an empty directory; `trusted_spki` is the hash of the one key whose certificate errors do not count."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}", f"--ignore-certificate-errors-spki-list={trusted_spki}"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(20)
        yield Browser(driver)
    finally:
        driver.quit()
