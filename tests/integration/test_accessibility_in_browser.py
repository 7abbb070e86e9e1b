"""axe-core checks every page of the admin and every user page, in light and in dark, and finds no serious barrier."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.support.accessibility_checks import IN_ADMIN, findings
from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

TOO_WIDE = "return [...document.querySelectorAll('.explain .results')].filter(box => box.scrollWidth > box.clientWidth).length"
APP, CLOSED, NOWHERE = "app.localhost", "closed.localhost", "nowhere.localhost"
ADMIN = "/.gate/admin/"
MAX_PAGES = 80


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    builder = GateBuilder(provider.url).route(APP, to=upstream.url, allow_any_authenticated_user=True)
    builder.route(CLOSED, to=upstream.url, allowed_users=["nobody@example.com"])
    builder.route(NOWHERE, to="http://127.0.0.1:1", allow_public_unauthenticated_access=True)
    for number in range(12):  # a long table
        builder.route(
            f"r{number}.localhost", to=upstream.url, prefix="/a-long-prefix/", allowed_groups=["engineering", "sales"], name=f"r{number}"
        )
    builder.setting(admin_allowed_users=["alice@example.com"], groups_claim="groups", admin_password_login=True)
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(gate: RunningGate, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate.certificates.spki_hash) as running:
        sign_in(running, gate, provider)
        yield running


def sign_in(browser: Browser, gate: RunningGate, provider: DevelopmentProvider) -> None:
    browser.sign_in(provider.url, gate.url(APP))


def admin_links(browser: Browser) -> Iterator[str]:
    """One of each kind: of a list's rows the first, of its filters and columns none."""
    script = "return [...document.querySelectorAll('a[href]')].map(link => link.href)"
    kinds = set()
    for url in browser.driver.execute_script(script):
        path = urlsplit(url).path
        kind = tuple(
            "#" if index == 3 and step not in ("add", "explain") else step for index, step in enumerate(path.strip("/").split("/")[1:])
        )
        if path.startswith(ADMIN) and kind not in kinds and "logout" not in path:
            kinds.add(kind)
            yield path


@pytest.mark.timeout(300)  # some thirty pages, three looks of each
def test_admin_is_reachable(browser: Browser, gate: RunningGate) -> None:
    host, seen, found = gate.builder.authenticate_host, set[tuple[str, ...]](), []
    waiting = [ADMIN]
    while waiting and len(seen) < MAX_PAGES:
        path = waiting.pop(0)
        steps = path.removeprefix(ADMIN).strip("/").split("/")
        kind = (*steps[:2], *("#" if index == 0 and step not in ("add", "explain") else step for index, step in enumerate(steps[2:])))
        if kind in seen:
            continue
        seen.add(kind)
        browser.open(gate.url(host, path))
        found += findings(browser, "admin-" + "-".join(step if step != "#" else "one" for step in kind), IN_ADMIN, may_scroll=True)
        wide = browser.driver.execute_script(TOO_WIDE)
        found += [f"{path}: {wide} tables of an explanation scroll sideways on a phone"] if wide else []
        waiting += admin_links(browser)
    assert not found, "\n".join(found)
    scripts = {entry["message"] for entry in browser.driver.get_log("browser") if "/.gate/static/" in entry["message"]}
    assert not scripts, "the browser log contains no error of gate's scripts"
    # Sessions, people, groups, routes, the decisions, the audit log; their lists and one of each.
    assert len(seen) >= 15, seen


def test_sign_in_pages_are_public(browser: Browser, gate: RunningGate, provider: DevelopmentProvider) -> None:
    host = gate.builder.authenticate_host
    pages = {
        "who-am-i": gate.url(host, "/.gate/"),
        "sign-out": gate.url(host, "/.gate/signout/"),
        "not-found": gate.url(host, "/.gate/nothing"),
        "refused": gate.url(CLOSED),
        "no-upstream": gate.url(NOWHERE),
        "no-route": gate.url("r0.localhost", "/elsewhere"),
        "admin-password": gate.url(host, f"{ADMIN}login/?password=1"),
        "program": gate.url(APP, "/.gate/api/v1/login?gate_redirect_uri=http://localhost:9/"),
        "signed-out": gate.url(host, "/.gate/signed_out"),
    }
    found = []
    for name, url in pages.items():
        browser.open(url)
        if name == "program":
            browser.open(browser.find("body").text.strip())
        found += findings(browser, name, IN_ADMIN, may_scroll=True)
    assert not found, "\n".join(found)
