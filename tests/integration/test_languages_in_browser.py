"""Pages in the languages of their readers, as a phone shows them: no word of another language, and nothing wider than the screen."""

import re
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.by import By

from tests.support.accessibility_checks import errors, look
from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

# Words of nearly every English sentence, and of no German, Spanish or French one.
ENGLISH = re.compile(r"\b(?:the|you|your|is|of|and|this|with|it|for|to|what|can't|are)\b", re.IGNORECASE)
WHY = "31.12."
KEYS = {
    "approvers": [{"groups": "sales"}, {"groups": "engineering"}],
    "max_duration": "26h30m",
    "approvals": 2,
    "break_glass": {"allowed": [{"groups": "engineering"}], "max_duration": "30m"},
}
# Each page of the authenticate host, and what it says in each language.
PAGES = {
    "/.gate/": ("Ihre Anwendungen", "Vos applications", "Sus aplicaciones"),
    "/.gate/?q=wiki": ("passen zu „wiki“", "correspondent à « wiki »", "coinciden con «wiki»"),
    "/.gate/sessions": ("Chrome auf Linux", "Chrome sur Linux", "Chrome en Linux"),
    "/.gate/access": ("Vorübergehender Zugriff", "Accès temporaire", "Acceso temporal"),
    "/.gate/why?address=nowhere.localhost": ("Anwendung nicht gefunden", "Application introuvable", "Aplicación no encontrada"),
    "/.gate/why?address=wiki": ("Sie haben Zugriff auf", "Vous avez accès à", "Usted tiene acceso a"),
    "/.gate/signout/": ("Möchten Sie sich abmelden?", "Voulez-vous vous déconnecter ?", "¿Quiere cerrar la sesión?"),
    "/.gate/nothing": ("Diese Seite gibt es nicht.", "Cette page n’existe pas.", "Esta página no existe."),
    "/.gate/sign_in?gate_redirect_uri=x": ("unvollständig", "incomplet", "incompleto"),
    "/.gate/refresh": ("lässt sich so nicht öffnen", "ne peut pas être ouverte ainsi", "no se puede abrir así"),
}
AT_ROUTES = {
    ("closed.localhost", "/"): ("Sie haben keinen Zugriff", "Vous n’avez pas accès", "No tiene acceso"),
    ("wiki.localhost", "/%zz"): ("kann nicht", "ne peut pas", "no se puede"),
    ("unknown.localhost", "/"): ("keine Anwendung eingerichtet", "Aucune application n’est configurée", "No hay ninguna aplicación"),
    ("wiki.localhost", "/.gate/form/AAAAAAAAAAAAAAAAAAAAAA"): ("nicht mehr aufbewahrt", "n’est plus conservé", "ya no se conserva"),
    ("wiki.localhost", "/.gate/nothing"): ("Anwendung öffnen", "Ouvrir l’application", "Abrir la aplicación"),
}
LANGUAGES = {"de-AT,de;q=0.9": 0, "fr-CH": 1, "es-419,en;q=0.5": 2}


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    builder = GateBuilder(provider.url).setting(groups_claim="groups", support_contact="mailto:help@example.com")
    builder.route("wiki.localhost", to=upstream.url, title="Wiki", allow_any_authenticated_user=True)
    builder.route("closed.localhost", to=upstream.url, name="closed", title="Wages", allowed_groups=["payroll"], access_requests=KEYS)
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(gate: RunningGate, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate.certificates.spki_hash) as running:
        sign_in(running, gate, provider, "bob")
        ask(running, gate)
        running.forget_everything()
        sign_in(running, gate, provider, "alice")
        ask(running, gate)
        yield running


def sign_in(browser: Browser, gate: RunningGate, provider: DevelopmentProvider, name: str) -> None:
    browser.sign_in(provider.url, page(gate, "/.gate/"), name)


def ask(browser: Browser, gate: RunningGate) -> None:
    """For a while; so there is something to withdraw, and for others to answer."""
    browser.open(gate.url("closed.localhost"))
    browser.click('a[href*="/.gate/access?route="]')
    browser.find("#why").send_keys(WHY)
    browser.submit('button[value="ask"]')


def page(gate: RunningGate, path: str) -> str:
    return gate.url(gate.builder.authenticate_host, path)


def speak(browser: Browser, accept_language: str) -> None:
    agent = browser.driver.execute_script("return navigator.userAgent")
    browser.driver.execute_cdp_cmd("Network.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": accept_language})


def output(browser: Browser) -> str:
    """All text that a user reads or a screen reader speaks."""
    spoken = "return [...document.querySelectorAll('[aria-label], [placeholder]')].map(e => e.ariaLabel + ' ' + (e.placeholder ?? ''))"
    return (
        "\n".join([browser.driver.title, browser.text, *browser.driver.execute_script(spoken)]).replace("\u202f", " ").replace("\xa0", " ")
    )


def unfold(browser: Browser) -> None:
    for each in browser.driver.find_elements(By.CSS_SELECTOR, "details"):
        browser.driver.execute_script("arguments[0].open = true", each)


@pytest.mark.parametrize("accept_language", LANGUAGES)
def test_every_page_speaks_its_readers_language_and_fits_a_phone(browser: Browser, gate: RunningGate, accept_language: str) -> None:
    speak(browser, accept_language)
    look(browser, 390, "light")
    language, which, problems = accept_language[:2], LANGUAGES[accept_language], list[str]()
    places = {page(gate, path): message for path, message in PAGES.items()} | {gate.url(*at): message for at, message in AT_ROUTES.items()}
    browser.open(gate.url("closed.localhost"))
    requesting = browser.find('a[href*="/.gate/access?route="]').get_attribute("href") or ""
    places[requesting] = ("Grund", "Motif", "Motivo")
    for address, message in places.items():
        browser.open(address)
        unfold(browser)
        browser.picture(f"language-{language}-{''.join(filter(str.isalnum, address.partition('localhost')[2]))[:40]}")
        text = output(browser)
        overflow = browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        problems += [f"{address}: {overflow} pixels too wide"] if overflow > 0 else []
        problems += [f"{address}: {message[which]!r} is not in {text}"] if message[which] not in text else []
        problems += [f"{address}: {found}" for found in ENGLISH.findall(text)]
        if browser.find("html").get_attribute("lang") != language:
            problems.append(f"{address}: another language")
    assert problems == []


def test_times_are_written_as_the_reader_writes(browser: Browser, gate: RunningGate) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Europe/Vienna"})
    look(browser, 1440, "light")
    speak(browser, "de-AT")
    errors(browser)  # of the pages before
    months = r"Jän|Feb|März|Apr|Mai|Juni|Juli|Aug|Sep|Okt|Nov|Dez"
    browser.open(page(gate, "/.gate/"))
    time = browser.find("time")
    assert re.fullmatch(rf"\d+\. (?:{months})\.? \d{{4}}, \d\d:\d\d \S+", time.text)
    with browser.without_scripts():
        browser.open(page(gate, "/.gate/"))
        assert re.fullmatch(r"\d+\. \w+\.? \d{4}, \d\d:\d\d UTC", browser.find("time").text)
    assert errors(browser) == []


def test_search_and_copy_are_translated(browser: Browser, gate: RunningGate) -> None:
    speak(browser, "fr")
    browser.open(page(gate, "/.gate/"))
    browser.find("#q").send_keys("wik")
    assert browser.find("#found").text.replace("\xa0", " ") == "Applications correspondantes : 1"
